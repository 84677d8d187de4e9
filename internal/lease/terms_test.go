package lease_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var minute = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute}

func TestTerms(t *testing.T) {
	for _, row := range []struct {
		spec limit.Spec
		c    lease.Consistency
		want lease.Terms
	}{
		{minute, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 1000, Window: limit.Minute, Lead: 200}},
		{minute, lease.Exact, lease.Terms{Consistency: lease.Exact, Interval: 100, Timeout: 100, Capacity: 1000, Window: limit.Minute}},
		{minute, lease.Optimistic, lease.Terms{Consistency: lease.Optimistic, Interval: 100, Timeout: 100, Overdraft: 1, Capacity: 1000, Window: limit.Minute, Lead: 200}},
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: 400 * limit.Millisecond}, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 5, Window: 400 * limit.Millisecond, Lead: 100}},
		{limit.Spec{Algorithm: limit.FixedWindow, Align: limit.AlignFirstRequest, Count: 5, Period: limit.Minute}, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 5, Window: limit.Minute}},
		{limit.Spec{Count: 500, Period: limit.Second, Burst: 75}, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 75, Refills: true, Unit: 2, Pace: 100, Ample: 200, AfterDenial: 75, LongestTTL: 1000}},
		{limit.Spec{Algorithm: limit.SlidingWindow, Count: 500, Period: limit.Second}, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 500, Pace: 10, Ample: 20, AfterDenial: 100}},
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 10, Period: limit.Minute}, lease.Leased, lease.Terms{Interval: 100, Timeout: 100, Capacity: 10, Trailing: true, Pace: 100}},
		{limit.Spec{Period: limit.Second}, lease.Leased, // denies everything
			lease.Terms{Interval: 100, Timeout: 100, Refills: true, Pace: 100, LongestTTL: 1000}},
	} {
		if got := lease.NewTerms(fatal.Get(limit.New(row.spec))(t), row.c, 0, 0, 0); got != row.want {
			t.Errorf("%+v:\n got %+v\nwant %+v", row.spec, got, row.want)
		}
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		count, expected int64
		live            int
		want            int64
	}{{100, 5, 3, 34}, {100, 5, 0, 20}, {100, 5, -1, 20}, {100, 0, 0, 100}, {100, -3, 0, 100}, {0, 2, 2, 0}, {1, 2, 7, 1}} {
		if got := lease.FailureLocal.Among(c.live, c.expected, limit.Spec{Count: c.count}, 1, 1).Share; got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// thirds are windows of which one ends 31 days after 0.
type thirds struct{}

func (thirds) Around(limit.Micros) *[6]limit.Micros {
	return &[6]limit.Micros{-limit.Day, 0, 31 * limit.Day, 59 * limit.Day, 90 * limit.Day, 120 * limit.Day}
}

// A share lasts until the window of the calendar ends or, if the calendar is not known, for the nominal length.
func TestShareOfACalendar(t *testing.T) {
	const now, day = lease.Millis(1000), lease.Millis(limit.Day / limit.Millisecond)
	unknown := limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "UTC"}
	known := unknown
	known.Windows = thirds{}
	for c, want := range map[*limit.Calendar]lease.Failure{
		&unknown: {By: lease.FailureLocal, Share: 5, Ends: now + 30*day, Guessed: true},
		&known:   {By: lease.FailureLocal, Share: 5, Ends: now + 20*day},
	} {
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 30 * limit.Day, Calendar: c}
		if got := lease.FailureLocal.Among(2, 1, spec, now, 11*limit.Day); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// Slots that are free are used under FailureLocal even beyond the share.
func TestFailSlots(t *testing.T) {
	for _, c := range []struct {
		by          lease.OnFailure
		free, inUse int64
		want        bool
	}{
		{lease.FailureAllow, -5, 9, true}, {lease.FailureDeny, 5, 0, false},
		{lease.FailureLocal, 0, 1, true}, {lease.FailureLocal, 0, 2, false}, {lease.FailureLocal, -7, 8, false}, {lease.FailureLocal, 2, 8, true}, {lease.FailureLocal, 1, 8, false},
	} {
		f := c.by.Among(2, 1, limit.Spec{Algorithm: limit.Concurrency, Count: 6}, 1, 1)
		if got := f.FailSlots(c.free, c.inUse, 2); got != (lease.Failed{Admitted: c.want, By: c.by}) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// A window ends at the first whole millisecond at which the time of day has reached the
// next multiple of the period.
func TestWindowEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		period := limit.Micros(1+rnd.Int64N(100)) * limit.Millisecond
		wall, now := limit.Micros(rnd.Int64N(1_000_000)), lease.Millis(rnd.Int64N(1000))
		next := wall + period - wall%period
		after := limit.Micros(lease.FailureLocal.Among(1, 1, limit.Spec{Period: period}, now, wall).Ends-now) * limit.Millisecond
		if wall+after < next || wall+after-limit.Millisecond >= next {
			t.Fatalf("at %d of windows of %d: ends after %d", wall, period, after)
		}
	}
}
