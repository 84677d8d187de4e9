package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// After its counter was reset a key is rejected for a second at most, by all workers: what they remember of rejections
// ends. Requests come all the time.
func TestResetEndsRejections(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		for _, consistency := range []string{"exact", "leased", "optimistic"} {
			t.Run(algorithm+" "+consistency, func(t *testing.T) {
				w := newWorld(t, 2, fmt.Sprintf(`{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"1000/30d","algorithm":%q,"consistency":%q}]}`, algorithm, consistency))
				for range 40 {
					w.pass(10)
					w.admit(0, "/", "ann") // who has a lease by now
				}
				for round := range lease.Millis(4) {
					for w.admit(0, "/", "ann") || w.admit(1, "/", "ann") {
					}
					for range 250 + 14*round {
						w.pass(10)
						for i := range 2 {
							w.admit(i, "/", "ann")
						}
					}
					if w.admit(0, "/", "ann") || w.admit(1, "/", "ann") {
						t.Fatal("admitted, though the limit is spent")
					}
					w.region.wall = w.wall()
					fatal.Get(w.region.Reset(t.Context(), "a", []byte("ann")))(t)
					reset := w.now
					for i := range 2 {
						for !w.admit(i, "/", "ann") {
							if w.pass(10); w.now-reset > lease.Millis(lease.LongestAskAfter/limit.Millisecond)+100 {
								t.Fatalf("round %d: worker %d rejects %d ms after the reset", round, i, w.now-reset)
							}
						}
					}
				}
			})
		}
	}
}
