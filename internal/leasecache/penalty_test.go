package leasecache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// penal is a rule of 100 an hour that charges what it refuses.
func penal(t testing.TB, spec limit.Spec, c lease.Consistency) *engine.Policy {
	spec.Count, spec.Period, spec.ChargeRejected = 100, limit.Hour, true
	return ruled(t, "hour", spec, c)
}

// Where denials are charged, a report of more than is left uses the limit up: nothing
// of it is to be had any more, from no lease either, whether the store refused the report
// or a denial in memory.
func TestDeniedReportUsesTheLimitUp(t *testing.T) {
	for name, spec := range algorithms {
		for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
			for _, pause := range []time.Duration{0, 30 * time.Millisecond, 2 * time.Second} {
				t.Run(fmt.Sprintf("%s %d after %v", name, c, pause), func(t *testing.T) {
					onSite(t, 1, func(t *testing.T, s *site) {
						p := penal(t, spec, c)
						a := &client{t: t, store: s.caches[0], policy: p}
						for range 60 {
							single(a, 1)
						}
						for _, cost := range []int64{50, 1, 2, 1} {
							time.Sleep(pause)
							if n := single(a, cost); n != 0 {
								t.Errorf("%d of 100 used and 50 refused: granted %d", 60, n)
							}
						}
					})
				})
			}
		}
	}
}

// What is refused from memory is charged with its cost, and it is reported to the store also
// when nobody asks any more: other replicas find a bucket as far below zero as it is.
func TestWhatIsRefusedFromMemoryIsChargedWithItsCost(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
		onSite(t, 1, func(t *testing.T, s *site) {
			p := penal(t, limit.Spec{}, c)
			a := &client{t: t, store: s.caches[0], policy: p}
			single(a, 100)
			single(a, 1)    // refused by the store
			synctest.Wait() // until what the cache asks for behind the answer has been counted
			before := s.stores[0].asks("hour")
			single(a, 7)
			single(a, 5)
			if asks := s.stores[0].asks("hour"); asks != before {
				t.Fatalf("%d asks for two requests that a denial in memory refuses", asks-before)
			}
			time.Sleep(5 * time.Second)
			// 113 are charged; what is full of 100 in an hour after that has paid for 113
			// less the five seconds.
			g := (&client{t: t, store: s.base}).acquire(engine.Ask{Policy: p, Key: []byte("hot")})[0]
			if want := lease.Millis(113 * 36_000); g.Reset > want-5000 || g.Reset < want-6000 {
				t.Errorf("the bucket is full in %d ms, want a little less than %d", g.Reset, want)
			}
		})
	}
}
