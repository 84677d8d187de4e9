package leasecache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// TestResetEndsDenials: of a key that is flooded at two replicas, and by a holder behind each of them, the replica that
// resets it admits at once, and all others in little more than a second: when their own denial and that of the tier
// above have ended. Requests come all the time.
func TestResetEndsDenials(t *testing.T) {
	t.Parallel()
	for name, spec := range algorithms {
		for _, c := range []lease.Consistency{lease.Leased, lease.Exact, lease.Optimistic} {
			for _, far := range []bool{false, true} {
				if testing.Short() && far == (c == lease.Leased) || testing.Short() && c == lease.Optimistic {
					continue
				}
				t.Run(fmt.Sprint(name, c, far), func(t *testing.T) {
					spec.Count, spec.Period = 5000, 24*limit.Hour
					synctest.Test(t, func(t *testing.T) { resetInAFlood(t, spec, c, far) })
				})
			}
		}
	}
}

func resetInAFlood(t *testing.T, spec limit.Spec, c lease.Consistency, far bool) {
	p := policyOf(t, spec, c)
	base := newMemory()
	var all []*leasecache.Store // two replicas, and a holder behind each
	for range 2 {
		link := newFar(base)
		if far {
			p.Terms = p.Terms.ForAggregator()
			link.after.Store(int64(80 * time.Millisecond))
		}
		all = append(all, start(t, leasecache.Config{Store: link, Timeout: time.Second}))
	}
	for i := range 2 {
		all = append(all, start(t, leasecache.Config{Store: all[i], Timeout: time.Second}))
	}
	admitted := make([]time.Time, len(all)) // when each admitted first
	flood := func(d time.Duration) {
		for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(20 * time.Millisecond) {
			for i, s := range all {
				if g := ask(t, s, p, "k"); g.Granted > 0 && admitted[i].IsZero() {
					admitted[i] = time.Now()
				}
			}
		}
	}
	for _, wait := range []time.Duration{3 * time.Second, 2700 * time.Millisecond, 3300 * time.Millisecond} {
		within(t, base, time.Second, engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Overdrawn: 5000}}) // by somebody else
		flood(30 * time.Second)
		clear(admitted)
		if flood(wait); !admitted[0].IsZero() || !admitted[1].IsZero() {
			t.Fatalf("admitted at %v, though all is spent", admitted)
		}
		if g := within(t, all[0], time.Second, engine.Ask{Policy: p, Key: []byte("k"), Op: engine.Reset})[0]; g.Status != lease.OK || g.Remaining != 5000 {
			t.Fatalf("reset: %+v", g)
		}
		reset := time.Now()
		flood(4 * time.Second)
		for i, at := range admitted {
			most := time.Duration(lease.LongestAskAfter)*time.Microsecond + 500*time.Millisecond // and trips
			if i == 0 {
				most = 200 * time.Millisecond
			}
			if took := at.Sub(reset); at.IsZero() || took > most {
				t.Errorf("cache %d admitted %v after the reset", i, took)
			}
		}
	}
}

// TestLookOfACallerThatHasGone: what an operator looks at is not given back when the operator has gone.
func TestLookOfACallerThatHasGone(t *testing.T) {
	onCache(t, func(t *testing.T, s *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Count: 1000, Period: 300 * limit.Day}, lease.Leased)
		within(t, behind.Store, time.Second, engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Want: 50}})
		for _, patience := range []time.Duration{time.Millisecond, time.Second, time.Second} {
			g := within(t, s, patience, engine.Ask{Policy: p, Key: []byte("k"), Op: engine.Look})[0]
			time.Sleep(100 * time.Millisecond)
			if patience == time.Second && (g.Granted != 50 || g.Remaining != 950) || patience < time.Second && g.Status != lease.Unavailable {
				t.Errorf("%+v within %v, want 950 left and 50 on lease", g, patience)
			}
		}
	})
}
