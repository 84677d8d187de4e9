package decision_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// naive decides on descriptors one after the other, as if each were charged.
type naive map[string]int64 // what is used, by key

func (n naive) decide(ds []decision.Descriptor) (over []bool, rejected bool) {
	used := naive{} // with what is over
	quotas, spent := 0, 0
	for i := range ds {
		d, key := &ds[i], string(ds[i].Key)
		if _, met := used[key]; !met {
			used[key] = n[key]
		}
		capacity := d.Policy.Terms.Capacity
		used[key] += d.Hits
		is := used[key] > capacity || d.Hits == 0 && used[key] == capacity && n[key] == capacity
		over = append(over, is)
		rejected = rejected || is && d.Mode == decision.Enforce
		if d.IsQuota {
			quotas++
			if is && d.Mode == decision.Quota {
				spent++
			}
		}
	}
	rejected = rejected || quotas > 0 && quotas == spent
	for i := range ds {
		if !rejected && !over[i] {
			n[string(ds[i].Key)] += ds[i].Hits
		}
	}
	return over, rejected
}

// Descriptors of any limits, costs and modes, of which several may have one counter, are
// decided like one after the other.
func TestLikeOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20, Now: func() limit.Micros { return 20_000 * limit.Day }})
		decider := decision.Decider{Judge: engine.NewJudge(store, nil, nil, nil, nil)}
		modes := map[string]decision.Mode{"a": decision.Enforce, "b": decision.Enforce, "q": decision.Quota, "s": decision.Shadow}
		descriptor := rapid.Custom(func(rt *rapid.T) decision.Descriptor {
			key := rapid.SampledFrom([]string{"a", "a", "b", "q", "s"}).Draw(rt, "key")
			l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: rapid.SampledFrom([]int64{9, 9, 4}).Draw(rt, "limit"), Period: limit.Day})
			fatal.If(rt, err)
			return decision.Descriptor{
				Policy: engine.NewPolicy("rule", 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0)),
				Key:    []byte(key), Hits: rapid.Int64Range(0, 3).Draw(rt, "hits"), Mode: modes[key], IsQuota: key == "q",
			}
		})
		n := naive{}
		var r decision.Request
		for range rapid.IntRange(1, 20).Draw(rt, "requests") {
			r.Reset()
			r.Descriptors = append(r.Descriptors, rapid.SliceOfN(descriptor, 1, 5).Draw(rt, "descriptors")...)
			for _, d := range r.Descriptors {
				rt.Logf("%s costs %d of %d, %d are used", d.Key, d.Hits, d.Policy.Terms.Capacity, n[string(d.Key)])
			}
			over, want := n.decide(r.Descriptors)
			rejected := decider.Decide(t.Context(), time.Now().Add(time.Minute), &r)
			if rejected != want {
				rt.Fatalf("rejected %v, want %v", rejected, want)
			}
			for i, want := range over {
				if r.Descriptors[i].Over != want {
					rt.Fatalf("descriptor %d is over: %v, want %v", i, r.Descriptors[i].Over, want)
				}
			}
			decider.Settle(t.Context(), &r)
		}
	})
}
