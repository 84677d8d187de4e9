package fair

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// The tables below have a row on each side of each bound, with a window of 5,000 in 10 s, or a bucket of 500 per second.
var (
	tenSeconds = limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	perSecond  = limit.Spec{Count: 500, Period: limit.Second}
)

const start = 1_700_000_000 * limit.Second

func limited(t *testing.T, s limit.Spec) (*limit.Limit, *lease.Terms) {
	t.Helper()
	l := fatal.Get(limit.New(s))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	return l, &terms
}

// sharing is two regions in a window that began at start.
func sharing(l *limit.Limit, a, b region) *Shares {
	a.id, b.id = 1, 2
	return &Shares{regions: []region{a, b}, at: start, window: l.PeriodID(start), former: l.PeriodID(start - 10*limit.Second), ends: start + 10*limit.Second, debts: int64(start / (10 * limit.Second))}
}

// Over how long a demand is averaged, in what time a region may owe its part, and what of a bucket is kept for it.
func TestSpans(t *testing.T) {
	for name, row := range map[string]struct {
		spec       limit.Spec
		span, owes limit.Micros
		room       float64 // of a region that has half
	}{
		"a window":       {tenSeconds, 2 * limit.Second, 10 * limit.Second, 0},
		"an hour":        {limit.Spec{Algorithm: limit.FixedWindow, Count: 9, Period: limit.Hour}, 6 * limit.Minute, limit.Hour, 0},
		"a bucket":       {perSecond, 2 * limit.Second, limit.Second, 250.0 / 3},
		"a slow bucket":  {limit.Spec{Count: 10, Period: limit.Second, Burst: 1000}, 10 * limit.Second, 100 * limit.Second, 4},
		"a small bucket": {limit.Spec{Count: 10, Period: limit.Second, Burst: 2}, 2 * limit.Second, 200 * limit.Millisecond, 1},
		"no limit":       {limit.Spec{Period: limit.Second}, 2 * limit.Second, limit.Second, 0},
		"a month of one": {limit.Spec{Count: 1, Period: limit.MaxPeriod, Burst: 100}, limit.MaxPeriod, limit.MaxPeriod, 4},
	} {
		l, terms := limited(t, row.spec)
		if span, owes := spanOf(l, terms), debtPeriod(l, terms); max(row.span-span, span-row.span, row.owes-owes, owes-row.owes) > 1 { // which is rounded
			t.Errorf("%s: %d and %d, want %d and %d", name, span, owes, row.span, row.owes)
		}
		half := region{part: rateOf(l) / 2}
		if room := half.largestCredit(l); terms.Refills && math.Abs(room-row.room) > 0.01 {
			t.Errorf("%s: room for %.2f, want %.2f", name, room, row.room)
		}
	}
}

// What comes into a bucket is divided by demand, or in equal parts up to the demand. A region of which more than that is
// meant for others gets its part all the same.
func TestDividesTheRate(t *testing.T) {
	for name, row := range map[string]struct {
		demands [2]float64
		equal   bool
		parts   [2]float64 // per second
	}{
		"by demand":                 {[2]float64{1200, 400}, false, [2]float64{375, 125}},
		"in equal parts":            {[2]float64{1200, 1600}, true, [2]float64{250, 250}},
		"equal, one demands less":   {[2]float64{1200, 80}, true, [2]float64{450, 50}},
		"enough for all":            {[2]float64{80, 160}, false, [2]float64{50, 100}},
		"just enough":               {[2]float64{400, 400}, false, [2]float64{250, 250}},
		"enough for all, and equal": {[2]float64{80, 160}, true, [2]float64{50, 100}},
	} {
		l, terms := limited(t, perSecond)
		s := sharing(l, region{demand: row.demands[0]}, region{demand: row.demands[1]})
		s.divideRate(l, row.equal, spanOf(l, terms))
		for i, want := range row.parts {
			if got := s.regions[i].part * 1e6; math.Abs(got-want) > 0.01 {
				t.Errorf("%s: region %d has %.2f per second, want %.2f", name, i, got, want)
			}
		}
	}
	_, terms := limited(t, perSecond)
	for name, row := range map[string]struct {
		mine, others float64
		want         int64
	}{"for the other": {9, 70, 70}, "at most what is not its part": {9, 480, 400}, "and what it owes": {-30, 70, 100}, "at most all": {-300, 480, 500}, "the other owes": {9, -70, 0}} {
		s := Shares{regions: []region{{id: 1, credit: row.mine}, {id: 2, credit: row.others}}}
		if got := s.credits(terms, 1, 100); got != row.want {
			t.Errorf("%s: %d are withheld, want %d", name, got, row.want)
		}
	}
}

// What is expected of a window. Of its last third, or of four lease intervals if that is less, the next window's leases take care.
func TestPlan(t *testing.T) {
	for name, row := range map[string]struct {
		spec   limit.Spec
		now    limit.Micros
		ahead  bool
		ends   limit.Micros // 0: unknown
		has    float64
		claim  float64
		unused float64
		left   float64
	}{
		"the window begins":    {tenSeconds, start, false, start + 10*limit.Second, 110, 110 + 1.25*100*9.6, 4870, 1e7},
		"the window ends soon": {tenSeconds, start + 9_700_000, false, start + 10*limit.Second, 110, 110 + 1.25*100*0.1, 4870, 3e5},
		"the window is over":   {tenSeconds, start + 11*limit.Second, false, start + 10*limit.Second, 110, 110, 4870, 0},
		"the next window":      {tenSeconds, start + 9_900_000, true, start + 10*limit.Second, 7, 7 + 1.25*100*9.6, 4985, 1e7},
		"nobody knows its end": {tenSeconds, start, false, 0, 110, 110 + 1.25*100*9.6, 4870, 1e7},
		"no next one is known": {limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second, Align: limit.AlignFirstRequest}, start, false, start + 10*limit.Second, 115, 115 + 1.25*100*10, 4865, 1e7},
	} {
		l, terms := limited(t, row.spec)
		s := sharing(l, region{demand: 200, used: 100, ahead: 7, owed: 10, owedBefore: 5}, region{used: 20, ahead: 8})
		s.ends = row.ends
		claims, unused, left := s.plan(l, terms, row.now, row.ahead)
		has, claim := claims(&s.regions[0])
		if math.Abs(has-row.has)+math.Abs(claim-row.claim)+math.Abs(unused-row.unused)+math.Abs(left-row.left) > 0.01 {
			t.Errorf("%s: has %.1f, claims %.1f, %.1f unused, %.0f left, not %.1f, %.1f, %.1f, %.0f", name, has, claim, unused, left, row.has, row.claim, row.unused, row.left)
		}
	}
}

// What a region asks for ahead of its requests is cut to its part of what is left, if that will not last.
func TestLimitsAhead(t *testing.T) {
	for name, row := range map[string]struct {
		used         float64 // by the other one
		want, soon   int64
		wants, soons int64
	}{
		"enough for all":   {0, 4000, 100, 4000, 100},
		"just enough":      {4900 - 1200, 4000, 100, 4000, 100}, // both will claim 600 more
		"not enough":       {4900 - 1199, 4000, 100, 750, 100},
		"less than that":   {4900 - 1199, 700, 100, 700, 100},
		"next to nothing":  {4900 - 10, 4000, 100, 50, 0},
		"soon is cut, too": {4900 - 150, 4000, 100, 94, 44},
	} {
		l, terms := limited(t, tenSeconds)
		s := sharing(l, region{demand: 100, used: 100}, region{demand: 100, used: row.used})
		w := lease.Want{Waiting: 50, Want: row.want, Soon: row.soon}
		if s.limitAhead(l, terms, start, &s.regions[0], &w); w.Want != row.wants || w.Soon != row.soons {
			t.Errorf("%s: wants %d, expects %d, not %d and %d", name, w.Want, w.Soon, row.wants, row.soons)
		}
	}
}

// How much of a window in equal parts is withheld for the other region.
func TestPlanned(t *testing.T) {
	for name, row := range map[string]struct {
		mine, other region
		now         limit.Micros
		waiting     int64
		want        int64
	}{
		"enough for all":                    {region{demand: 10}, region{demand: 100}, start, 1, 600},
		"not enough for all":                {region{demand: 2000}, region{demand: 2000}, start, 1, 2500},
		"more waits than is expected":       {region{demand: 10}, region{demand: 2000}, start, 2600, 2500},
		"it has its part":                   {region{demand: 2000, used: 2500}, region{demand: 2000, used: 2430}, start, 1, 5000},
		"it has its part, but some is left": {region{demand: 2000, used: 2500}, region{demand: 10, used: 2000}, start, 1, 60},
		"it has its part, at the end":       {region{demand: 2000, used: 2500}, region{demand: 2000, used: 2430}, start + 8_500_000, 1, 70},
		"a moment before":                   {region{demand: 2000, used: 2500}, region{demand: 2000, used: 2430}, start + 8_499_999, 1, 5000},
	} {
		l, terms := limited(t, tenSeconds)
		s := sharing(l, row.mine, row.other)
		w := lease.Want{Need: 1, Waiting: row.waiting, Want: row.waiting}
		if got := s.planned(l, terms, row.now, 1, &w); got < row.want-1 || got > row.want+1 {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	claims := func(r *region) (has, claim float64) { return r.used, r.demand }
	for units, level := range map[float64]float64{100: math.Inf(1), 99: 79, 60: 40, 20: 10} {
		regions := []region{{demand: 20}, {demand: 80}, {used: 30, demand: 30}}
		if got := fill(units, regions, claims); math.Abs(got-level) > 0.01 && got != level {
			t.Errorf("%.0f units fill up to %.2f, want %.2f", units, got, level)
		}
	}
}

// A grant counts in the window of its lease.
func TestCounts(t *testing.T) {
	first := tenSeconds
	first.Align = limit.AlignFirstRequest
	for name, row := range map[string]struct {
		spec   limit.Spec
		of     limit.Micros
		starts lease.Millis
		want   [3]float64 // used, ahead, before
	}{
		"of the running window":          {tenSeconds, start, 0, [3]float64{15, 3, 2}},
		"of it, by a clock behind":       {tenSeconds, start, 1, [3]float64{15, 3, 2}},
		"of the next one":                {tenSeconds, start + 10*limit.Second, 5, [3]float64{5, 13, 2}},
		"of the next one, which began":   {tenSeconds, start + 10*limit.Second, 0, [3]float64{5, 13, 2}},
		"of the one before":              {tenSeconds, start - 10*limit.Second, 0, [3]float64{5, 3, 2}},
		"of another":                     {tenSeconds, start + limit.Hour, 0, [3]float64{15, 3, 2}},
		"of another, ahead":              {tenSeconds, start + limit.Hour, 5, [3]float64{5, 13, 2}},
		"of one that the request begins": {first, start + limit.Second, 0, [3]float64{10, 0, 0}},
	} {
		l, terms := limited(t, row.spec)
		s := sharing(l, region{used: 5, ahead: 3, before: 2}, region{})
		g := lease.Grant{Status: lease.OK, Granted: 10, Lease: l.PeriodID(row.of), StartsIn: row.starts, Reset: 9000}
		s.Granted(l, terms, start+limit.Second, 1, &lease.Want{}, &g)
		if r := s.regions[0]; [3]float64{r.used, r.ahead, r.before} != row.want {
			t.Errorf("%s: %+v", name, r)
		}
		if wait := min(9*limit.Second, s.lives-start-limit.Second); s.Fresh(s.lives-1) || !s.Fresh(s.lives) || wait != 9*limit.Second {
			t.Errorf("%s: lives until %d", name, s.lives-start)
		}
		if row.spec == first && s.ends != start+10*limit.Second {
			t.Errorf("%s: ends after %d", name, s.ends-start)
		}
	}
}

// What comes back is taken out of the window of its lease.
func TestTakesBack(t *testing.T) {
	sliding := limit.Spec{Algorithm: limit.SlidingWindow, Count: 5000, Period: 10 * limit.Second}
	for name, row := range map[string]struct {
		spec limit.Spec
		of   limit.Micros
		took int64
	}{
		"of the running window": {tenSeconds, start, 5}, "of the next one": {tenSeconds, start + 10*limit.Second, 3}, "of the one before": {tenSeconds, start - 10*limit.Second, 0},
		"of the one before, which counts": {sliding, start - 10*limit.Second, 2}, "of another": {tenSeconds, start + limit.Hour, 0},
	} {
		l, terms := limited(t, row.spec)
		s := sharing(l, region{used: 5, ahead: 3, before: 2}, region{})
		r := &s.regions[0]
		if took := s.takeBack(l, terms, r, &lease.Want{Unused: 10, Lease: l.PeriodID(row.of)}); took != row.took || r.used+r.ahead+r.before != float64(10-took) {
			t.Errorf("%s: took %d; %+v", name, took, r)
		}
	}
	l, terms := limited(t, perSecond)
	s := sharing(l, region{used: 20, credit: 3, part: rateOf(l) / 2}, region{})
	if took := s.takeBack(l, terms, &s.regions[0], &lease.Want{Unused: 12}); took != 12 || s.regions[0].credit != 15 {
		t.Errorf("tokens stay meant for their region: %+v", s.regions[0])
	}
}

// What rejected requests cost is cut to what is left of a region's part, as what it owes.
func TestPenalizes(t *testing.T) {
	spec := tenSeconds
	for name, row := range map[string]struct {
		charge         bool
		known          bool
		owed           int64
		need, denied   int64
		drops          bool
		charged, after int64
	}{
		"not charged":          {false, true, 0, 5, 7, false, 7, 0},
		"all":                  {true, true, 0, 5, 7, false, 7, 12},
		"the whole part":       {true, true, 88, 5, 7, false, 7, 100},
		"a need too many":      {true, true, 89, 5, 7, true, 7, 96},
		"a denial too many":    {true, true, 98, 5, 7, true, 2, 100},
		"of nobody":            {true, false, 0, 5, 7, true, 0, 0},
		"of nobody, no need":   {true, false, 0, 0, 7, false, 0, 0},
		"no need, all is owed": {true, true, 100, 0, 7, false, 0, 100},
	} {
		spec.ChargeRejected = row.charge
		l, terms := limited(t, spec)
		s := sharing(l, region{owed: row.owed}, region{})
		r := &s.regions[0]
		if !row.known {
			r = nil
		}
		w := lease.Want{Need: row.need, Denied: row.denied}
		drops := s.penalize(l, r, 100, &w)
		if drops != row.drops || w.Denied != row.charged || r != nil && r.owed != row.after {
			t.Errorf("%s: drops %v, charges %d, owes %d; want %v, %d, %d", name, drops, w.Denied, s.regions[0].owed, row.drops, row.charged, row.after)
		}
		if !row.charge || r == nil {
			continue
		}
		s.Granted(l, terms, start, 1, &lease.Want{Need: 4}, &lease.Grant{Status: lease.OK, Granted: 4, Lease: s.window})
		if want := max(0, row.after-4); r.owed != want {
			t.Errorf("%s: owes %d after a grant, want %d", name, r.owed, want)
		}
		before := r.owed
		if s.Granted(l, terms, start, 1, &lease.Want{Need: 4}, &lease.Grant{Status: lease.Denied}); r.owed != before {
			t.Errorf("%s: a denial is charged", name)
		}
	}
}

// Time passes: demands fade, and what is a moment late is not.
func TestAdvances(t *testing.T) {
	l, terms := limited(t, tenSeconds)
	for name, row := range map[string]struct {
		after limit.Micros
		at    limit.Micros
	}{"later": {5, 5}, "a moment late": {1 - late, 0}, "the clock was set back": {-late, -late}} {
		s := sharing(l, region{demand: 100}, region{})
		if s.Ask(l, terms, false, start+row.after, 1, 100, &lease.Want{}); s.at != start+row.at {
			t.Errorf("%s: at %d", name, s.at-start)
		}
	}
	s := sharing(l, region{demand: 2}, region{demand: 1})
	s.lives = start
	faded := start + limit.Micros(1_386_294)
	if s.Idle(l, terms, faded-9) || !s.Idle(l, terms, faded+9) {
		t.Error("a demand of 2 has faded to 1 after 1.39 s")
	}
	for name, row := range map[string]struct {
		w    lease.Want
		now  limit.Micros
		want bool
	}{
		"ahead": {lease.Want{Next: true}, start + 9_700_000, true}, "too early": {lease.Want{Next: true}, start + 9_699_999, false},
		"for the running one": {lease.Want{}, start + 9_700_000, false}, "it waits": {lease.Want{Next: true, Need: 1}, start + 9_700_000, false},
	} {
		if got := s.isAhead(terms, row.now, &row.w); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	s = sharing(l, region{demand: 1e9}, region{demand: 5})
	if s.forgetFloods(l, terms); s.regions[0].demand != 2*5000*0.2 || s.regions[1].demand != 5 {
		t.Errorf("a flood is forgotten but for two limits of a window: %+v", s.regions)
	}
	l, terms = limited(t, perSecond)
	s = sharing(l, region{part: rateOf(l) / 2}, region{credit: 1e9})
	if s.advance(l, terms, start+100_000); math.Abs(s.regions[0].credit-25) > 0.01 || s.regions[1].credit != 0 {
		t.Errorf("in 100 ms a half of 500 per second is 25, and no more than there is room for: %+v", s.regions)
	}
	s = &Shares{}
	for id := range uint64(maxRegions) {
		s.region(id)
	}
	if s.region(maxRegions-1) == nil || s.region(maxRegions) != nil {
		t.Error("not the 64 regions that are distinguished")
	}
}

// Whether what others are meant to have is withheld at all.
func TestWithholds(t *testing.T) {
	exact, alone := func(t *lease.Terms) { t.Consistency = lease.Exact }, func(*lease.Terms) {}
	for name, row := range map[string]struct {
		spec  limit.Spec
		terms func(*lease.Terms)
		count int
		equal bool
		id    uint64
		want  int64 // that is wanted after
		held  bool
	}{
		"a window":                    {tenSeconds, alone, 2, false, 1, 3125, false},
		"an exact one":                {tenSeconds, exact, 2, false, 1, 4000, false},
		"of one region":               {tenSeconds, alone, 1, false, 1, 4000, false},
		"in equal parts":              {tenSeconds, alone, 2, true, 1, 4000, true},
		"equal, and exact":            {tenSeconds, exact, 2, true, 1, 4000, true},
		"a bucket":                    {perSecond, alone, 2, false, 1, 4000, true},
		"a limit that is not divided": {limit.Spec{Algorithm: limit.SlidingWindow, Count: 5000, Period: 10 * limit.Second}, alone, 2, false, 1, 4000, false},
	} {
		l, terms := limited(t, row.spec)
		row.terms(terms)
		s := sharing(l, region{demand: 2000}, region{demand: 2000, credit: 50})
		s.regions = s.regions[:row.count]
		w := lease.Want{Waiting: 1, Want: 4000}
		if got := s.withheld(l, terms, row.equal, start, row.id, 100, &w); (got > 0) != row.held || w.Want != row.want {
			t.Errorf("%s: %d are withheld, wants %d", name, got, w.Want)
		}
	}
}
