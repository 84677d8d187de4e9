package engine_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"pgregory.net/rapid"
)

// What is left without the shares, and the shares, are no more than the limit together, and are
// limits of the same shape, whatever the arithmetic of the limit can hold.
func TestSharesOfPolicy(t *testing.T) {
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
		p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0), 0)
		p.Scope, p.OnFailure = rule.ScopeGlobal, lease.FailureLocal
		p.Regions = rule.Regions{{Name: "ap", Weight: rapid.Int64Range(1, 1000).Draw(t, "ap")}, {Name: "eu", Weight: 3}, {Name: "us", Weight: 1}}
		rest := p.Without(1<<0 | 1<<1) // those of ap and eu
		ap, eu := p.ShareOf("ap"), p.ShareOf("eu")
		if sum := rest.Limit.Spec().Count + ap.Limit.Spec().Count + eu.Limit.Spec().Count; sum > spec.Count {
			t.Errorf("%d units of %d", sum, spec.Count)
		}
		if sum := rest.Terms.Capacity + ap.Terms.Capacity + eu.Terms.Capacity; sum > p.Terms.Capacity {
			t.Errorf("a burst of %d of %d", sum, p.Terms.Capacity)
		}
		if !rest.Same(p) || ap.Same(p) || ap.Limit.Shape() != l.Shape() {
			t.Error("what is left is counted by the same counter, the share by another one of the same shape")
		}
		if none := p.ShareOf("elsewhere"); none.Limit.Spec().Count != 0 {
			t.Errorf("a region without weight has %d units", none.Limit.Spec().Count)
		}
	})
}
