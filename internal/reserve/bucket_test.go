package reserve

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Of a token bucket, the aggregator and a region that is cut off again and again grant together at most burst +
// rate × time in any interval, whenever each of them is asked. With the share withheld only as long as the region
// may use it that is not so: a bucket that nobody asks for in a window fills as if nobody had used anything.
func TestBucketOfAFlappingRegion(t *testing.T) {
	for _, c := range []struct {
		name  string
		short bool
		want  bool
	}{{"as it is", false, true}, {"withheld for a window less", true, false}} {
		holds := true
		for seed := range uint64(400) {
			holds = holds && flappingBucket(t, rand.New(rand.NewPCG(seed, 23)), c.short)
		}
		if holds != c.want {
			t.Errorf("%s: the bound holds: %v", c.name, holds)
		}
	}
}

// flappingBucket plays some windows, and reports whether the bound held.
func flappingBucket(t *testing.T, r *rand.Rand, short bool) (holds bool) {
	const part = 400
	spec := limit.Spec{Count: 10, Period: limit.Second, Burst: 40 + 10*r.Int64N(10)}
	whole := fatal.Get(limit.New(spec))(t)
	rest := fatal.Get(limit.New(limit.Spec{Count: PerMille(part).Without(spec.Count), Period: spec.Period, Burst: PerMille(part).Without(spec.Burst)}))(t)
	w := WindowOf(spec)
	now := 1_000_000 * limit.Second / w.Period * w.Period
	shares := Shares{Regions: map[string]Region{"eu": {Until: now, Issued: []Share{{No: 1, Part: part}}}}}
	var counter limit.State
	var used int64                    // by the region in its window
	level := int64(1000) * spec.Burst // of what the bound allows, in thousandths
	last, begin, cut := now, now, false
	holds = true
	spend := func(units int64) {
		level = min(1000*spec.Burst, level+int64(now-last)*spec.Count*1000/int64(spec.Period)) - 1000*units
		last, holds = now, holds && level >= -1 // what is rounded
	}
	for range 200 {
		now += limit.Micros(r.Int64N(int64(w.Period/4))) / 1000 * 1000
		if b := w.Begin(now); b > begin {
			// Of the windows that began meanwhile the region may use all or none.
			eu := shares.Regions["eu"]
			if cut = r.IntN(2) == 0; cut {
				eu.Used = joined(eu.Used, Span{begin, b})
			}
			eu.Until, used, begin = b, 0, b
			shares.Regions["eu"] = eu
		}
		if r.IntN(3) == 0 {
			if cut {
				units := min(r.Int64N(spec.Burst), Trickle(spec, part, begin, 1, now)-used)
				used += units
				spend(units)
			}
			continue
		}
		l, withheld := whole, shares.Withheld(w, begin)
		if short {
			withheld = shares.Withheld(Window{Period: w.Period}, begin)
		}
		if withheld > 0 {
			l = rest
		}
		spend(l.Decide(&counter, now, limit.Ask{Want: r.Int64N(2 * spec.Burst)}).Granted)
	}
	return holds
}
