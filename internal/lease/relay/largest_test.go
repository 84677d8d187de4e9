package relay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// units are those of a legal want, the largest among them.
func largeUnits(t *rapid.T, what string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 3), rapid.Just(limit.MaxCount), rapid.Int64Range(0, limit.MaxCount)).Draw(t, what)
}

// However much requests and holders below have refused, and whatever these report, an account states
// legal numbers: those of the largest limit do not add up to more.
func TestLargestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog, limit.TokenBucket}).Draw(t, "algorithm"),
			Count:     rapid.SampledFrom([]int64{1, 1000, limit.MaxCount}).Draw(t, "count"), Period: limit.Second, ChargeRejected: rapid.Bool().Draw(t, "charged"),
		}
		l, err := limit.New(spec)
		if err != nil {
			t.Skip(err.Error())
		}
		terms := lease.NewTerms(l, rapid.SampledFrom([]lease.Consistency{lease.Leased, lease.Optimistic, lease.Exact}).Draw(t, "consistency"), 0, 0, limit.MaxCount)
		if rapid.Bool().Draw(t, "far") {
			terms = terms.Afar()
		}
		var r Relay
		a := &r.Holder
		now := lease.Millis(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += lease.Millis(rapid.Int64Range(0, 2000).Draw(t, "after"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				r.settle(&terms, now, lease.Want{Denied: largeUnits(t, "denied"), Unused: largeUnits(t, "unused"), Lease: 1})
			case 1: // as if it had gone on for long
				a.Denied, a.Spent = limit.MaxCount-1, limit.MaxCount-1
				r.settle(&terms, now, lease.Want{Denied: largeUnits(t, "denied")})
				a.Owe(&terms, largeUnits(t, "cost"))
			case 2:
				a.Fail(&terms, now, lease.Failure{By: lease.FailureLocal, Share: largeUnits(t, "share"), Ends: now + 1000}, largeUnits(t, "cost"))
			case 3:
				a.Take(&terms, now, largeUnits(t, "cost"))
			default:
				waiting := largeUnits(t, "waiting")
				queue, grants := []lease.Want{{Need: min(waiting, 1), Waiting: waiting, Want: waiting}}, make([]lease.Grant, 1)
				w := r.Ask(&terms, now, queue, holder.NoAsk)
				for what, n := range map[string]int64{"want": w.Want, "soon": w.Soon, "denied": w.Denied, "overdrawn": w.Overdrawn, "rate": r.rate} {
					if n < 0 {
						t.Fatalf("%s is %d: %+v of %+v", what, n, w, a)
					}
				}
				if w.Want < w.Waiting || w.Denied > limit.MaxCount {
					t.Fatalf("%+v", w)
				}
				g := lease.Grant{Status: lease.OK, Granted: min(w.Want, limit.MaxCount), Lease: 1, TTL: 1000, Limit: limit.MaxCount, Reset: 1000}
				r.Apply(&terms, now, now, w, g, 0, queue, grants)
			}
			if a.Denied < 0 || a.Denied > limit.MaxCount || a.Spent < 0 || a.Spent > limit.MaxCount {
				t.Fatalf("refused %d, spent %d", a.Denied, a.Spent)
			}
		}
	})
}
