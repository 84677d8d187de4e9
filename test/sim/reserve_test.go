package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// cutOff is a run of three regions with shares of a fifth and twice two fifths, and two replicas and four PoPs each,
// which together are offered twice a limit.
type cutOff struct {
	seed    uint64
	spec    limit.Spec
	calls   bool // of region1 do not arrive from the 25th to the 55th second
	replies bool // likewise
	fault   Fault
	lasts   limit.Micros
	rate    float64                        // of the limit that is offered; 0: twice
	more    func(w *World, rnd *rand.Rand) // goes wrong, too
}

// outcome is what became of such a run.
type outcome struct {
	Totals
	err      error
	regions  []*region  // region1 first
	admitted [3][]int64 // by region and second, not by on_failure of a PoP
	failed   int        // requests that were decided by that
	early    int64      // units that region1 took by itself before it was cut off
}

// between is what a region admitted in these seconds.
func (o *outcome) between(region, from, until int) (units int64) {
	for _, n := range o.admitted[region-1][from:until] {
		units += n
	}
	return units
}

// parts are what region1 took by itself in each window, in order: of its reserve, or by its trickle as a debt.
func (o *outcome) parts(debt bool) (units []int64) {
	var all []*part
	for _, p := range o.regions[0].parts {
		if p.debt == debt {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(p, q *part) int { return int(p.begin - q.begin) })
	for _, p := range all {
		units = append(units, p.granted)
	}
	return units
}

// atLeast checks that nothing is promised in vain, and that region1 admits so much of its share of the rate between two
// seconds, a fifth of 60 a second, and all regions so much of what one exact limiter would. PoPs decide no more than ten of
// 10,000 requests by on_failure: of those that wait when the region is cut off, the answers of some are on their way for
// longer than the time that the region keeps for that.
func (o *outcome) atLeast(t *testing.T, what string, from, until int, share, all float64) {
	t.Helper()
	part, sum := float64(o.between(1, from, until))/float64(12*(until-from)), float64(o.Admitted)/float64(o.Exact)
	t.Logf("%s: %.3f of its share, %.3f in all", what, part, sum)
	if o.err != nil || part < share || sum < all || o.failed > 10 {
		t.Errorf("%s: %v; %.3f of its share of the rate, %.3f in all, %d requests by on_failure of a PoP; want %.2f, %.2f and at most 10", what, o.err, part, sum, o.failed, share, all)
	}
}

// Limits of such runs. 600 in 10 s, the bucket in 4 s or in less than the time ahead for which regions renounce.
var (
	fixed      = limit.Spec{Algorithm: limit.FixedWindow, Count: 600, Period: 10 * limit.Second}
	sliding    = limit.Spec{Algorithm: limit.SlidingWindow, Count: 600, Period: 10 * limit.Second}
	logged     = limit.Spec{Algorithm: limit.SlidingLog, Count: 600, Period: 10 * limit.Second}
	bucket     = limit.Spec{Algorithm: limit.TokenBucket, Count: 600, Period: 10 * limit.Second, Burst: 240}
	fastBucket = limit.Spec{Algorithm: limit.TokenBucket, Count: 600, Period: 10 * limit.Second, Burst: 120}
	allLimits  = []limit.Spec{fixed, sliding, logged, bucket, fastBucket}
)

// begins is when clients begin: regions that nobody knows have to be heard first.
const begins = 2 * limit.Second

func (c cutOff) play(t *testing.T) (o outcome) {
	r := newRule(t, "r", c.spec, lease.Leased)
	r.Scope, r.OnFailure = rule.ScopeGlobal, lease.FailureLocal
	for i := range o.admitted {
		o.admitted[i] = make([]int64, c.lasts/limit.Second+1)
	}
	c.fault.taken = func(p *pop, r *request) {
		if r.admitted && !r.failed {
			n := slices.Index(p.w.regions, p.Link.Granter.Home.Notes.(*region))
			o.admitted[n][(p.w.now()-epochStart)/limit.Second]++
		}
		if r.failed {
			o.failed++
		}
	}
	o.err = Play(Config{
		Seed: c.seed, PoPs: 12, Relays: 6, Regions: 3, Shares: weighted([3]int64{1, 2, 2}), MaxCounters: 1 << 10,
		Fault: c.fault, Trace: tracing(),
		Net:           Net{Delay: limit.Millisecond, Spread: 5 * limit.Millisecond},
		AggregatorNet: Net{Delay: 20 * limit.Millisecond, Spread: 20 * limit.Millisecond},
	}, func(w *World) error {
		w.after(begins, func() {
			rate := cmp.Or(c.rate, 2) * float64(c.spec.Count) / seconds(c.spec.Period) / float64(w.PoPs)
			for n := range w.PoPs {
				w.Offer(n+1, Load{Rate: rate, Parts: Key(r, "k", 1)}, c.lasts-begins)
			}
		})
		o.regions = w.regions
		if c.calls || c.replies {
			w.after(25*limit.Second, func() {
				for _, p := range o.regions[0].parts {
					o.early += p.granted
				}
				o.regions[0].cutOff(c.calls, c.replies)
			})
			w.after(55*limit.Second, func() { o.regions[0].cutOff(false, false) })
		}
		if c.more != nil {
			c.more(w, rand.New(rand.NewPCG(c.seed, 2)))
		}
		err := w.Run(c.lasts)
		o.Totals = w.Totals(r, "k")
		return err
	}, r)
	return o
}

// TestCutOffRegion is promise 7: a region that is cut off in either direction or both goes on at its share of the rate
// in the window that runs, and takes its reserve of those that begin 3 s later or more. The others have the rest, and
// all of it before and afterwards. All in all at least so much is admitted of what one exact limiter would.
func TestCutOffRegion(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  limit.Spec
		least float64 // of what one exact limiter admits
		share float64 // of its share of the rate that the region admits while it is cut off
	}{
		{"fixed window", fixed, 0.99, 0.95},
		{"sliding window", sliding, 0.9, 0.9}, // the estimate lags
		{"sliding log", logged, 0.85, 0.95},
		{"bucket", bucket, 0.95, 0.85},
		{"fast bucket", fastBucket, 0.94, 0.75},
	} {
		t.Run(c.name, func(t *testing.T) {
			for way := range 3 {
				if way > 0 && c.spec != fixed && c.spec != bucket {
					continue
				}
				o := cutOff{seed: 1, spec: c.spec, calls: way != 0, replies: way != 1, lasts: 90 * limit.Second}.play(t)
				o.atLeast(t, c.name, 25, 55, c.share, c.least)
				if debts, used := o.parts(true), o.parts(false); c.spec == fixed && (len(debts) != 1 || debts[0] < 40 || !slices.Equal(used[:3], []int64{120, 120, 120})) {
					t.Errorf("way %d: region1 admits %v before its reserve, and of that %v; want 40 to 60, and all of its 120 in three windows", way, debts, used)
				}
				if o.early > 0 {
					t.Errorf("way %d: %d units without the aggregator while all answer", way, o.early)
				}
			}
		})
	}
}

// TestTenMinutesOfAnHour cuts a region off for ten minutes of an hour, or makes its link slow and lossy. It goes on at its
// share of the rate, a fifth of one a second, and nothing else is added to the limit. When the hour is used up, and the
// aggregator can still say so, it is rejected like all.
func TestTenMinutesOfAnHour(t *testing.T) {
	const from, until, late, count = 60, 660, 200, 3600
	for _, c := range []struct {
		name  string
		link  Net
		rate  float64
		least int64 // of its share of the rate, in hundredths
	}{
		{"cut off, used up", Net{LoseCall: 1, LoseReply: 1}, 30, 85},
		{"cut off, not used up", Net{LoseCall: 1, LoseReply: 1}, 0.9, 75},
		{"grey, used up", Net{Delay: 242 * limit.Millisecond, LoseCall: 0.3}, 30, 0},
		{"grey, not used up", Net{Delay: 242 * limit.Millisecond, LoseCall: 0.3}, 0.9, 25},
	} {
		if testing.Short() && c.rate > 1 && c.link.Delay > 0 {
			continue
		}
		run := cutOff{seed: 1, spec: limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Hour}, rate: c.rate, lasts: 700 * limit.Second}
		run.more = func(w *World, _ *rand.Rand) {
			well := w.regions[0].Net
			w.after(from*limit.Second, func() { w.regions[0].Net = c.link })
			w.after(until*limit.Second, func() { w.regions[0].Net = well })
		}
		o := run.play(t)
		part, sum := o.between(1, late, until), o.between(1, 0, 700)+o.between(2, 0, 700)+o.between(3, 0, 700)
		share, most := int64(until-late)/5, int64(count+(until-from)/5)
		t.Logf("%s: %d by the region from second %d on, its share of the rate is %d; %d of at most %d in all", c.name, part, late, share, sum, most)
		if o.err != nil || part*100 < share*c.least || sum > most {
			t.Errorf("%s: want %d %% of its share, and no more in all: %v", c.name, c.least, o.err)
		}
	}
}

// TestWrongClocks gives the region that is cut off a clock that is wrong by an hour, or steps meanwhile. Windows are
// those of the label that was charged, whatever a clock says. A region whose clock is behind has its share of the
// rate until it shows the time that it renounced.
func TestWrongClocks(t *testing.T) {
	const hour, second = limit.Hour, limit.Second
	for i, clock := range []struct{ wrong, step limit.Micros }{
		{-hour, 0}, {hour, 0}, {hour + 3300*limit.Millisecond, 0}, {-hour - 7*second, 0},
		{0, hour}, {0, -hour}, {hour, -hour}, {-hour, hour + 4*second}, {hour, -second / 2},
	} {
		for _, spec := range []limit.Spec{fixed, bucket} {
			if spec == bucket && i%3 > 0 {
				continue
			}
			c := cutOff{seed: 1, spec: spec, calls: true, replies: true, lasts: 70 * second}
			c.more = func(w *World, _ *rand.Rand) {
				w.regions[0].stepsBy(clock.wrong)
				if clock.step != 0 {
					w.after(42*second, func() { w.regions[0].stepsBy(clock.step) })
				}
			}
			o := c.play(t)
			o.atLeast(t, fmt.Sprintf("%s, wrong by %v s, step of %v s", spec.Algorithm, seconds(clock.wrong), seconds(clock.step)), 25, 55, 0.85, 0.93)
		}
	}
}
