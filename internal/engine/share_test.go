package engine_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"pgregory.net/rapid"
)

// What is left without a part, and the part, are no more than the limit together, whatever the arithmetic of the limit can
// hold.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog}).Draw(t, "algorithm"),
			Count:     rapid.Int64Range(0, limit.MaxCount).Draw(t, "count"),
			Period:    limit.Micros(rapid.IntRange(1, 100_000_000).Draw(t, "period")) * limit.Millisecond,
		}
		if spec.Algorithm == limit.TokenBucket && spec.Count > 0 {
			spec.Burst = rapid.Int64Range(0, limit.MaxCount).Draw(t, "burst")
		}
		l, err := limit.New(spec)
		if err != nil {
			t.Skip("no limit")
		}
		p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
		p.Scope, p.OnFailure = rule.ScopeGlobal, lease.FailureLocal
		part := reserve.PerMille(rapid.Int64Range(0, 1000).Draw(t, "part"))
		rest := p.Without(part)
		left, taken := rest.Limit.Spec(), part.Of(spec.Count)
		if left.Count+taken > spec.Count || rest.Terms.Capacity+part.Of(p.Terms.Capacity) > p.Terms.Capacity {
			t.Errorf("%+v of %+v are left, beside %d", left, spec, taken)
		}
		if spec.Algorithm == limit.TokenBucket && 1000*left.Count+int64(part)*spec.Count > 1000*spec.Count {
			t.Errorf("a rate of %d of %d is left without %d thousandths", left.Count, spec.Count, part)
		}
		if !rest.Same(p) || rest.Whole != p {
			t.Error("what is left is not counted by the same counter")
		}
	})
}
