package front_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
)

// A request that finds too little just before its window ends waits for the next one, of which there is
// a lease: the store is 100 ms away, and its answer would come later.
func TestWaitsForTheNextWindow(t *testing.T) {
	t.Parallel()
	inFront(t, func(t *testing.T, f *front.Store, behind *far) {
		behind.after.Store(int64(100 * time.Millisecond))
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second}, lease.Leased)
		p.Terms = p.Terms.Afar()
		need := func(n int64) lease.Grant {
			grants := []lease.Grant{{}}
			f.Acquire(t.Context(), []limiter.Ask{{Policy: p, Key: []byte("k"), Want: lease.Want{Need: n, Waiting: n, Want: n}}}, grants)
			return grants[0]
		}
		flip := time.Now().Truncate(10 * time.Second).Add(10 * time.Second)
		time.Sleep(time.Until(flip.Add(-time.Second)))
		for time.Until(flip) > 60*time.Millisecond {
			need(1)
			time.Sleep(20 * time.Millisecond)
		}
		if g := need(28); g.Status != lease.OK || g.Granted != 28 {
			t.Errorf("%+v, want 28 units of the next window", g)
		}
		if late := time.Since(flip); late < 0 || late > 10*time.Millisecond {
			t.Errorf("the answer came %v after the next window began", late)
		}
	})
}
