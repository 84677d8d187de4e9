package engine_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// What is left without a part, and the part, are no more than the limit together, whatever the arithmetic of the limit can
// hold.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := limit.Spec{
			Algorithm: rapid.SampledFrom([]limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog}).Draw(t, "algorithm"),
			Count:     rapid.Int64Range(0, limit.MaxCount).Draw(t, "count"),
			Period:    limit.Micros(rapid.IntRange(1, 100_000_000).Draw(t, "period")) * limit.Millisecond,
			Block:     limit.Hour,
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
		if left.Kept+rest.Terms.Capacity != p.Terms.Capacity {
			t.Errorf("%d of %d are left, and %d kept, so a key may be blocked", rest.Terms.Capacity, p.Terms.Capacity, left.Kept)
		}
		if spec.Algorithm == limit.TokenBucket && 1000*left.Count+int64(part)*spec.Count > 1000*spec.Count {
			t.Errorf("a rate of %d of %d is left without %d thousandths", left.Count, spec.Count, part)
		}
		if !rest.Same(p) || rest.Whole != p {
			t.Error("what is left is not counted by the same counter")
		}
	})
}

// A question asks for nothing and states nothing; operators are not requests; what was granted goes back as it was taken.
func TestAsks(t *testing.T) {
	p := func(s limit.Spec) *engine.Policy {
		l := fatal.Get(limit.New(s))(t)
		return engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	}
	units, slots := p(limit.Spec{Count: 5, Period: limit.Second, ChargeRejected: true}), p(limit.Spec{Algorithm: limit.Concurrency, Count: 5})
	if a := (engine.Ask{Policy: units}); !a.Peeks() {
		t.Error("nothing is a question")
	}
	for i, a := range []engine.Ask{
		{Op: engine.Look}, {Want: lease.Want{Need: 1}}, {Want: lease.Want{Want: 1}}, {Want: lease.Want{Unused: 1}},
		{Want: lease.Want{Overdrawn: 1}}, {Want: lease.Want{Denied: 1}}, {Holder: 1},
	} {
		if a.Peeks() || a.Op.Operates() != (i == 0) {
			t.Errorf("%+v", a)
		}
	}
	g := lease.Grant{Granted: 3, Lease: 7}
	for _, c := range []struct{ taken, want engine.Ask }{
		{engine.Ask{Policy: units, Want: lease.Want{Need: 3}}, engine.Ask{Policy: units, Want: lease.Want{Unused: 3, Lease: 7}}},
		{engine.Ask{Policy: slots, Holder: 5, Seq: 2, Want: lease.Want{Need: 3, Holding: 1}}, engine.Ask{Policy: slots, Holder: 5, Seq: 2, Want: lease.Want{Holding: 1}}},
		{engine.Ask{Policy: slots, Holder: 5, Op: engine.Take}, engine.Ask{Policy: slots, Holder: 5, Op: engine.Release}},
	} {
		if got := c.taken.GiveBack(&g); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v goes back as %+v, want %+v", c.taken, got, c.want)
		}
	}
	if q := units.WithoutPenalty(); q.Limit.ChargesRejected() || !q.Same(units) {
		t.Errorf("%+v", q)
	}
}

// A part of a limit is made once, and of too many all are made anew.
func TestPartsAreMadeOnce(t *testing.T) {
	made, parts, p := 0, engine.Parts{}, new(engine.Policy)
	of := func(part reserve.PerMille) {
		parts.Of(p, part, func(*engine.Policy, reserve.PerMille) *engine.Policy { made++; return p })
	}
	for range 2 {
		for part := range reserve.PerMille(4096) {
			of(part)
		}
	}
	if of(4096); made != 4097 {
		t.Errorf("%d were made of 4097", made)
	}
	if of(0); made != 4098 {
		t.Errorf("%d were made, after all were forgotten", made)
	}
}

// Where the arithmetic needs a large common divisor of count and period, what is left is rounded down to one.
func TestWithoutIsRoundedDown(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Count: 99 * 366 * 86_400, Period: limit.MaxPeriod}))(t)
	p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0).ForAggregator())
	if q := p.Without(1); q.Limit.Spec().Count != 98*366*86_400 || !q.Terms.Aggregator {
		t.Errorf("%+v, %+v", q.Limit.Spec(), q.Terms)
	}
}
