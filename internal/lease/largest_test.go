package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"pgregory.net/rapid"
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
			Count:     rapid.SampledFrom([]int64{1, 1000, limit.MaxCount}).Draw(t, "count"), Period: limit.Second, ChargeDenied: rapid.Bool().Draw(t, "charged"),
		}
		l, err := limit.New(spec)
		if err != nil {
			t.Skip(err.Error())
		}
		terms := NewTerms(l, rapid.SampledFrom([]Consistency{Leased, Optimistic, Exact}).Draw(t, "consistency"), 0, 0, limit.MaxCount)
		if rapid.Bool().Draw(t, "far") {
			terms = terms.Afar()
		}
		var r Relay
		a := &r.Account
		now := Millis(1)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += Millis(rapid.Int64Range(0, 2000).Draw(t, "after"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				r.settle(&terms, now, Want{Denied: largeUnits(t, "denied"), Unused: largeUnits(t, "unused"), Lease: 1})
			case 1: // as if it had gone on for long
				a.Denied, a.Spent = limit.MaxCount-1, limit.MaxCount-1
				r.settle(&terms, now, Want{Denied: largeUnits(t, "denied")})
				a.overdraw(&terms, largeUnits(t, "cost"))
			case 2:
				a.takeLocal(&terms, now, now+1000, largeUnits(t, "share"), largeUnits(t, "cost"))
			case 3:
				a.Take(&terms, now, largeUnits(t, "cost"))
			default:
				waiting := largeUnits(t, "waiting")
				w := a.Ask(&terms, now, min(waiting, 1), waiting, NoAsk)
				for what, n := range map[string]int64{"want": w.Want, "soon": w.Soon, "denied": w.Denied, "overdrawn": w.Overdrawn, "rate": a.Rate} {
					if n < 0 {
						t.Fatalf("%s is %d: %+v of %+v", what, n, w, a)
					}
				}
				if w.Want < w.Waiting || w.Denied > limit.MaxCount {
					t.Fatalf("%+v", w)
				}
				g := Grant{Status: OK, Granted: min(w.Want, limit.MaxCount), Lease: 1, TTL: 1000, Limit: limit.MaxCount, Reset: 1000}
				a.Apply(&terms, now, now, w, g, max(0, g.Granted-w.Waiting), 0)
			}
			if a.Denied < 0 || a.Denied > limit.MaxCount || a.Spent < 0 || a.Spent > limit.MaxCount {
				t.Fatalf("refused %d, spent %d", a.Denied, a.Spent)
			}
		}
	})
}
