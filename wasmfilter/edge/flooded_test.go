package edge

import (
	"fmt"
	"testing"
)

// A key that is flooded stays denied when the region goes away, at any moment, also
// where units trickle back and every reply grants some. What the region reported was
// left is admitted, and no more.
func TestFloodedKeyStaysDenied(t *testing.T) {
	const flooded = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":%q,"algorithm":%q,"consistency":%q,"on_failure":"allow"}]}`
	for _, algorithm := range []string{"token_bucket", "sliding_window", "sliding_log"} {
		for _, rate := range []string{"100/1s", "10/1s", "100/10s", "100/1m"} {
			for _, consistency := range []string{"leased", "exact"} {
				t.Run(algorithm+" "+rate+" "+consistency, func(t *testing.T) {
					for phase := range 4 {
						w := newWorld(t, 2, fmt.Sprintf(flooded, rate, algorithm, consistency))
						w.flood(2500+phase*58, (*world).settle)
						anew := int(w.region.counter(w.wall(), "r", "ann").ResetMS)
						if admitted := w.flood(min(anew*7/10, 2000), (*world).cut); admitted > 15 {
							t.Errorf("phase %d: %d admitted while the region was away", phase, admitted)
						}
					}
				})
			}
		}
	}
}

// flood sends a request of one user to the workers in turn every 3 ms, for so many
// ms, and counts those admitted by on_failure.
func (w *world) flood(long int, calls func(*world)) (open int) {
	for i := range long / 3 {
		w.now += 3
		if i%33 == 0 {
			w.pass(1)
		}
		r := w.request(i%len(w.workers), "/", "ann")
		calls(w)
		if r.Outcome == Admit && r.Degraded {
			open++
		}
	}
	return open
}
