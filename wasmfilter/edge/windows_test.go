package edge

import (
	"fmt"
	"testing"
)

// A request that one window refuses costs nothing on the others: all of the minute that the
// window of a day left is there when that is raised.
func TestWindowsAreAllOrNone(t *testing.T) {
	for _, consistency := range []string{"leased", "exact"} {
		windows := func(day int) string {
			return fmt.Sprintf(`{"rules":[{"name":"login","key":[{"header":"x-user"}],"limits":["10/1m","%d/1d"],
				"algorithm":"fixed_window","consistency":"%s"}]}`, day, consistency)
		}
		w := newWorld(t, 1, windows(4))
		w.pass(21_000) // a minute begins
		flood := func() (admitted int) {
			for range 50 {
				w.pass(200)
				if w.admit(0, "/login", "ann") {
					admitted++
				}
			}
			return admitted
		}
		if n := flood(); n != 4 {
			t.Errorf("%s: %d admitted, the window of a day has 4", consistency, n)
		}
		w.region.use(mustRules(t, windows(1000)))
		w.now++
		w.admit(0, "/login", "bob") // its reply shows the version
		if n := flood(); n != 6 {
			t.Errorf("%s: %d admitted, the minute has 6 left", consistency, n)
		}
	}
}
