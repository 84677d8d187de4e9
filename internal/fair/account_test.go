package fair_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// accounted is one key of a counter that regions share, each of which has a third. Region 0 may lie.
type accounted struct {
	limit   *limit.Limit
	terms   lease.Terms
	equal   bool
	shares  fair.Shares
	counter granter.Counter
	now     limit.Micros
}

func newAccounted(t rapid.TB, spec limit.Spec, equal bool) *accounted {
	l := fatal.Get(limit.New(spec))(t)
	return &accounted{limit: l, terms: lease.NewTerms(l, lease.Leased, 0, 500, 0).ForAggregator(), equal: equal, now: 1_700_000_040 * limit.Second}
}

func (a *accounted) part() int64 { return a.terms.Capacity / 3 }

func (a *accounted) ask(id uint64, w lease.Want) (lease.Grant, fair.Dropped) {
	d := a.shares.Ask(a.limit, &a.terms, a.equal, a.now, id, a.part(), &w)
	l := a.limit
	if d.Penalty {
		spec := l.Spec()
		spec.ChargeRejected = false
		l, _ = limit.New(spec)
	}
	g := a.counter.Acquire(l, &a.terms, a.now, w)
	a.shares.Granted(l, &a.terms, a.now, id, &w, &g)
	return g, d
}

// left is what is left in the counter, whoever that is meant for.
func (a *accounted) left() int64 {
	return a.counter.Acquire(a.limit, &a.terms, a.now, lease.Want{}).Remaining
}

var accountedSpecs = []limit.Spec{
	{Algorithm: limit.FixedWindow, Count: 300, Period: 10 * limit.Second},
	{Algorithm: limit.FixedWindow, Count: 300, Period: 10 * limit.Second, Align: limit.AlignFirstRequest},
	{Algorithm: limit.SlidingWindow, Count: 300, Period: 10 * limit.Second},
	{Algorithm: limit.SlidingLog, Count: 300, Period: 10 * limit.Second},
	{Algorithm: limit.TokenBucket, Count: 300, Period: 10 * limit.Second},
}

// perMonth is a limit in months, of which [newAccounted] begins in one of 30 days.
func perMonth(t testing.TB) limit.Spec {
	c := limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "UTC"}
	c.Windows = fatal.Get(calendar.Windows(c))(t)
	return limit.Spec{Algorithm: limit.FixedWindow, Count: 300, Period: c.Per.Period(), Calendar: &c}
}

// After a window in which the others show what they demand, a region reports all that it can report, in
// each call, and where parts are equal it asks for everything as well. Both of the others get their thirds, of every window, and of what comes into a
// bucket; half of that where each of their own denials is a penalty.
func TestLiarLeavesOthersTheirPart(t *testing.T) {
	for _, spec := range accountedSpecs {
		for _, equal := range []bool{false, true} {
			for _, penal := range []bool{false, true} {
				if equal && spec.Algorithm != limit.FixedWindow && spec.Algorithm != limit.TokenBucket {
					continue // not in the language of rules
				}
				spec.ChargeRejected = penal
				a := newAccounted(t, spec, equal)
				parts, least := 1.0, int64(95) // that they ask for, and percent of it that they get
				if penal {
					parts, least = 0.5, 90
				}
				const windows = 12
				var got [3]int64
				began, begins := a.now, a.now+spec.Period
				for ; a.now < began+windows*spec.Period; a.now += 100 * limit.Millisecond {
					asked := int64(parts * float64(a.now-began) / float64(spec.Period) * float64(spec.Count/3))
					for id := uint64(1); id <= 2; id++ {
						for got[id] <= asked {
							if g, _ := a.ask(id, lease.Want{Need: 1, Waiting: 1, Want: 1}); g.Granted == 0 {
								break
							}
							got[id]++
						}
					}
					if a.now >= begins {
						lie(a)
					}
				}
				for id := 1; id <= 2; id++ {
					if most := int64(parts * float64(windows) * float64(spec.Count/3)); got[id] < least*most/100 {
						t.Errorf("%v, align %v, equal %v, penal %v: region %d has %d of its %d", spec.Algorithm, spec.Align, equal, penal, id, got[id], most)
					}
				}
			}
		}
	}
}

// lie has region 0 report whatever it can.
func lie(a *accounted) {
	w := lease.Want{Unused: limit.MaxCount, Lease: a.limit.PeriodID(a.now), Overdrawn: limit.MaxCount, Denied: limit.MaxCount}
	if a.equal {
		w.Waiting, w.Want = limit.MaxCount, limit.MaxCount
	}
	a.ask(0, w)
	if a.equal || a.limit.ChargesRejected() {
		a.ask(0, lease.Want{Need: limit.MaxCount, Waiting: limit.MaxCount, Want: limit.MaxCount})
	}
}

// What a region owes counts until its part is used up, for the period in which it says so, and what
// is more is reported as dropped.
func TestDebts(t *testing.T) {
	for _, spec := range []limit.Spec{accountedSpecs[0], perMonth(t)} {
		a := newAccounted(t, spec, true)
		for range 3 {
			for _, c := range []struct {
				id                  uint64
				owes, charged, left int64
			}{{0, 30, 30, 270}, {0, 80, 70, 200}, {0, limit.MaxCount, 0, 200}, {1, 40, 40, 160}} {
				_, d := a.ask(c.id, lease.Want{Overdrawn: c.owes})
				if d.Owed != c.owes-c.charged || a.left() != c.left {
					t.Errorf("region %d owes %d: %d are dropped and %d left, want %d and %d", c.id, c.owes, d.Owed, a.left(), c.owes-c.charged, c.left)
				}
			}
			_, end := a.limit.WindowAt(a.now)
			a.now = end - 1
			if _, d := a.ask(0, lease.Want{Overdrawn: 1}); d.Owed != 1 {
				t.Errorf("at the end of the window %d are dropped", d.Owed)
			}
			a.now = end
		}
	}
}

// A region has what was granted to it ahead in the next window, whatever the lengths of the two.
func TestAheadOfAMonth(t *testing.T) {
	a := newAccounted(t, perMonth(t), false)
	for range 3 {
		_, end := a.limit.WindowAt(a.now)
		a.now = end - limit.Second/10
		g, _ := a.ask(0, lease.Want{Want: 30, Next: true})
		if g.Granted == 0 || g.StartsIn != 100 {
			t.Fatalf("%+v, want units of the next window", g)
		}
		a.now = end + limit.Second
		if _, d := a.ask(0, lease.Want{Unused: g.Granted, Lease: g.Lease}); d.Returned != 0 {
			t.Errorf("%d of %d units that came back are dropped", d.Returned, g.Granted)
		}
	}
}

// What a region gives back is cut to what it has of that window, once.
func TestGiveBacks(t *testing.T) {
	for _, spec := range append(accountedSpecs[:len(accountedSpecs):len(accountedSpecs)], perMonth(t)) {
		a := newAccounted(t, spec, false)
		mine, _ := a.ask(0, lease.Want{Need: 1, Waiting: 30, Want: 30})
		a.ask(1, lease.Want{Need: 1, Waiting: 50, Want: 50})
		for i, c := range []struct{ back, taken int64 }{{20, 20}, {20, 10}, {20, 0}} {
			_, d := a.ask(0, lease.Want{Unused: c.back, Lease: mine.Lease})
			if d.Returned != c.back-c.taken {
				t.Errorf("%v, give-back %d: %d are dropped of %d, want %d", spec.Algorithm, i, d.Returned, c.back, c.back-c.taken)
			}
		}
		if a.left() != 250 {
			t.Errorf("%v: %d are left, want 250", spec.Algorithm, a.left())
		}
	}
}
