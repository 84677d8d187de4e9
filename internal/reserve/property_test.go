package reserve

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const (
	second = limit.Second
	minute = limit.Minute
)

func window(count int64, period limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: period}
}

func sliding(a limit.Algorithm, period limit.Micros) limit.Spec {
	return limit.Spec{Algorithm: a, Count: 60, Period: period}
}

func tokens(count, burst int64) limit.Spec {
	return limit.Spec{Algorithm: limit.TokenBucket, Count: count, Period: second, Burst: burst}
}

// scenarios are the worlds that are played. Where nothing can go wrong on the way, all of a limit is used.
var scenarios = []scenario{
	{name: "nothing wrong", quiet: true, replicas: 2, aggs: 2, least: 1, limits: []limit.Spec{window(60, 10*second), window(600, minute)}},
	{name: "nothing wrong with a bucket", quiet: true, replicas: 2, aggs: 2, least: 0.98, limits: []limit.Spec{tokens(10, 60), tokens(60, 10), tokens(60, 600)}},
	{name: "nothing wrong, looking back", quiet: true, least: 0.98, limits: []limit.Spec{sliding(limit.SlidingLog, 10*second), sliding(limit.SlidingWindow, 10*second)}},
	{name: "quiet", quiet: true, replicas: 3, loss: 0.3, delay: 60 * second, restart: 20, crash: 60, least: 0.999},
	{name: "base", loss: 0.1, clocks: true, steps: true, lose: 120, restart: 60, shares: 50},
	{name: "replicas", replicas: 3, partial: true, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 50, crash: 60},
	{name: "late by minutes", delay: 3 * minute, loss: 0.1, clocks: true, steps: true, lose: 40, restart: 60, shares: 50},
	{name: "a store goes back", goBack: second, delay: minute, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 50},
	{name: "a store goes far back", goBack: 4 * second, delay: minute, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 50},
	{name: "a store is emptied", replicas: 3, forget: 30, crash: 30, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 50},
	{name: "a grey failure of replicas", replicas: 3, grey: 0.3, forget: 30, loss: 0.1, demand: 8, limits: []limit.Spec{window(60, 5*second), window(600, minute)}},
	{name: "a region in memory", memory: 5, aggs: 2, lag: 2 * second, shares: 5, loss: 0.1, demand: 8, limits: []limit.Spec{window(60, 5*second), window(600, minute)}},
	{name: "the aggregators' clock", aggClock: 300 * second, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 50},
	{name: "aggregators", aggs: 2, lag: 2 * second, grey: 0.3, shares: 5, demand: 8, loss: 0.1, restart: 60, clocks: true, steps: true, limits: []limit.Spec{window(60, 5*second)}},
	{name: "aggregators at once", aggs: 3, lag: second / 5, grey: 0.3, shares: 5, demand: 8, loss: 0.1, restart: 60, limits: []limit.Spec{window(60, 5*second)}},
	{name: "aggregators away", aggs: 2, lag: 10 * second, grey: 0.3, shares: 5, demand: 8, loss: 0.1, restart: 60, limits: []limit.Spec{window(60, 5*second)}},
	{name: "aggregators and their clock", aggs: 2, lag: 2 * second, aggClock: 20 * second, loss: 0.1, clocks: true, steps: true, restart: 60, shares: 20},
	{name: "the table is lost", quiet: true, grey: 0.5, lost: 30, limits: []limit.Spec{window(60, 5*second), window(600, minute)}},
	{name: "next window", next: true, aggs: 2, lag: 2 * second, grey: 0.3, shares: 6, demand: 8, loss: 0.1, restart: 60, limits: []limit.Spec{window(60, 5*second)}},
	{name: "least share", idle: true, grey: 0.7, shares: 3, demand: 8, loss: 0.1, restart: 60, limits: []limit.Spec{window(60, 20*second)}},
	{name: "twin", twin: true, quiet: true, grey: 0.5, limits: []limit.Spec{window(60, 5*second)}},
	{name: "two windows", loss: 0.1, clocks: true, steps: true, restart: 60, shares: 20, limits: []limit.Spec{window(60, 10*second), window(600, 2*minute)}},
	{name: "long windows", seconds: 600, grey: 0.5, idle: true, loss: 0.1, shares: 60, limits: []limit.Spec{window(600, 5*minute), window(3600, limit.Hour)}},
	{name: "flapping links", seconds: 600, flaps: 16 * second, quiet: true, loss: 0.1, shares: 60, limits: []limit.Spec{window(60, 5*second), window(600, 3*minute)}},
	{name: "sliding log", loss: 0.1, restart: 60, shares: 30, limits: []limit.Spec{sliding(limit.SlidingLog, 10*second), sliding(limit.SlidingLog, 20*second)}},
	{name: "sliding window", loss: 0.1, restart: 60, shares: 30, limits: []limit.Spec{sliding(limit.SlidingWindow, 10*second), sliding(limit.SlidingWindow, 20*second)}},
	{name: "looking back with clocks", loss: 0.1, clocks: true, replicas: 2, restart: 60, shares: 30, limits: []limit.Spec{sliding(limit.SlidingLog, 10*second), sliding(limit.SlidingWindow, 10*second)}},
	{name: "bucket", loss: 0.1, restart: 60, shares: 60, limits: []limit.Spec{tokens(10, 60), tokens(60, 600), tokens(60, 10)}},
	{name: "bucket and flapping links", flaps: minute, quiet: true, restart: 60, limits: []limit.Spec{tokens(10, 60), tokens(60, 600)}},
	{
		name: "all", replicas: 3, partial: true, delay: minute, aggs: 2, lag: second, aggClock: minute, next: true, grey: 0.3, idle: true, shares: 20,
		loss: 0.1, clocks: true, steps: true, lose: 80, forget: 100, crash: 60, restart: 60, deaf: 60, limits: []limit.Spec{window(60, 5*second), window(600, minute)},
	},
}

// No limit is passed, whatever goes wrong, and with nothing wrong all of it is used. Without -short there are many more plays.
// -runs and -seed play more of a scenario (-run), or one again.
func TestScenarios(t *testing.T) {
	plays := *runs
	if plays == 0 && testing.Short() {
		plays = 3
	} else if plays == 0 {
		plays = 40
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			sum := 0.0
			for i := range uint64(plays) {
				broken, used := play(s, *seed+i)
				if broken != "" {
					t.Fatalf("seed %d: %s", *seed+i, broken)
				}
				sum += used
			}
			if used := sum / float64(plays); used < s.least {
				t.Errorf("%.3f of the limit was used, want %.3f", used, s.least)
			}
		})
	}
}

// A region in a grey failure, of which most wants are not decided in time though some are and its calls are answered, goes
// on at its part of the rate from the first second: also in a window that began long ago. One that is cut off for good uses
// its share of each window that begins later, and the others use the rest.
func TestGoesOn(t *testing.T) {
	w := newWorld(scenario{quiet: true, replicas: 3, grey: 1, limits: []limit.Spec{window(36000, limit.Hour)}}, 1)
	w.tickUntil(start + 5*minute)
	var units, rate int64
	for _, s := range w.sites {
		for _, n := range s.tallies[0].trickles {
			units += n
		}
		rate += s.record.value.Share.Part.Of(3000) // in five minutes
	}
	if units < rate*95/100 || w.broken != "" {
		t.Errorf("%d units of %d. %s", units, rate, w.broken)
	}
	w = newWorld(scenario{quiet: true, replicas: 3, limits: []limit.Spec{window(600, 10*second)}}, 1)
	w.tickUntil(start + 20*second)
	w.sites[0].cut([2]bool{true, true})
	w.tickUntil(start + 5*minute)
	if used := w.limits[0].utilisation(); used < 0.98 || w.broken != "" {
		t.Errorf("%.3f used while a region is cut off. %s", used, w.broken)
	}
}

var (
	runs = flag.Int("runs", 0, "plays of each scenario")
	seed = flag.Uint64("seed", 0, "of the first play")
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
