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
		w.region.set = mustRules(t, windows(1000))
		w.now++
		w.admit(0, "/login", "bob") // its reply shows the version
		if n := flood(); n != 6 {
			t.Errorf("%s: %d admitted, the minute has 6 left", consistency, n)
		}
	}
}

// TestPercentRises: a key that is enforced for the first time has a new counter, whatever it spent in shadow.
func TestPercentRises(t *testing.T) {
	percent := func(n int) string {
		return fmt.Sprintf(`{"rules":[{"name":"login","percent":%d,"key":[{"header":"x-user"}],"limit":"5/1d","algorithm":"fixed_window","consistency":"exact"}]}`, n)
	}
	w := newWorld(t, 1, percent(20))
	flood := func(user string) (admitted int) {
		for range 12 {
			w.pass(200)
			if w.admit(0, "/login", user) {
				admitted++
			}
		}
		return admitted
	}
	before := map[string]int{}
	for i := range 30 {
		user := fmt.Sprint("user", i)
		before[user] = flood(user)
	}
	w.region.set = mustRules(t, percent(60))
	w.pass(6000) // they are fetched
	w.settle()
	enforced, fresh, shadow := 0, 0, 0
	for user, was := range before {
		switch is := flood(user); {
		case was == 5 && is == 0: // and stays so, on its counter
			enforced++
		case was == 12 && is == 5:
			fresh++
		case was == 12 && is == 12:
			shadow++
		default:
			t.Errorf("%s: %d of 12 admitted, and %d when percent is higher", user, was, is)
		}
	}
	if enforced < 2 || fresh < 5 || shadow < 5 {
		t.Errorf("%d were enforced and are, %d became so, %d are in shadow", enforced, fresh, shadow)
	}
}
