package reserve

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Of more spans than fit nothing is forgotten in which a window runs. Each outage has a limit of which a window began then.
func TestManySpans(t *testing.T) {
	at, windows := 1_000_000*limit.Second, []Window(nil)
	r := Record{ID: 1, Until: at, Share: Share{No: 1, Part: 500}}
	for range 3 * maxSpans {
		at += limit.Minute
		windows = append(windows, Window{Period: at})
		r, _ = r.Permitted(at)
		r = r.Renounced(at+limit.Second, at, at, windows)
		for _, w := range windows {
			if !slices.ContainsFunc(r.Used, func(s Span) bool { return s.Has(w.Begin(at)) }) {
				t.Fatalf("of %d windows the one of %d is forgotten: %v", len(windows), w.Begin(at), r.Used)
			}
		}
		if len(r.Used) > maxSpans || r.Check() != nil {
			t.Fatalf("%d spans: %v", len(r.Used), r.Check())
		}
	}
}

func TestTrickle(t *testing.T) {
	const start, second = 1_000_000 * limit.Second, limit.Second
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 3600, Period: limit.Hour}
	bucket := limit.Spec{Algorithm: limit.TokenBucket, Count: 10, Period: second, Burst: 50}
	most := limit.Spec{Algorithm: limit.FixedWindow, Count: limit.MaxCount, Period: limit.MaxPeriod}
	for _, c := range []struct {
		spec            limit.Spec
		begin, cut, now limit.Micros
		want            int64
	}{
		{hour, start, start + 300*second, start + 900*second, 300},
		{hour, start, start + 300*second, start + 300*second, 0},
		{hour, start, 0, start + 900*second, 0},
		{hour, start, start - 900*second, start + 10*second, 5}, // of the window before nothing is kept
		{hour, start, start, start + 3*limit.Hour, 1800},
		{bucket, start, start, start + 2*second, 10},
		{bucket, start, start, start + 20*second, 25},
		{most, start, start, start + limit.MaxPeriod, limit.MaxCount / 2},
		{most, start, start, 1 << 52, limit.MaxCount / 2},
	} {
		if got := Trickle(c.spec, 500, c.begin, c.cut, c.now); got != c.want {
			t.Errorf("%v: %d, want %d", c, got, c.want)
		}
	}
}

// A window of a calendar is as long as that has it.
func TestCalendarWindow(t *testing.T) {
	c := limit.Calendar{Per: limit.PerMonth, Anchor: 31, Zone: "Europe/Berlin"}
	c.Windows = fatal.Get(calendar.Windows(c))(t)
	month := limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 30 * limit.Day, Calendar: &c}
	w := WindowOf(month)
	if w != WindowOf(month) || w.LooksBack || w.Refills {
		t.Errorf("%+v", w)
	}
	day := func(month time.Month, day, hour int) limit.Micros {
		return limit.Micros(time.Date(2026, month, day, hour, 0, 0, 0, time.UTC).UnixMicro())
	}
	january, february, march, april := day(1, 30, 23), day(2, 27, 23), day(3, 30, 22), day(4, 29, 22)
	for _, at := range []limit.Micros{february, february + limit.Day, march - 1} {
		if got, want := w.Near(at), [3]limit.Micros{february, january, march}; got != want || w.Begin(at) != february {
			t.Errorf("at %d: begins %v and %d, want %v", at, got, w.Begin(at), want)
		}
	}
	for _, end := range []limit.Micros{march, april} {
		s := Span{After: w.Near(end)[1] - limit.Day, Until: w.Near(end)[1] + limit.Second}
		if !w.runs(s, end+Ahead-1) || w.runs(s, end+Ahead) {
			t.Errorf("a span with the window that ends at %d runs before %v, and at its end %v", end, w.runs(s, end+Ahead-1), w.runs(s, end+Ahead))
		}
	}
}

func TestWindowOf(t *testing.T) {
	for _, c := range []struct {
		spec limit.Spec
		want Window
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Minute}, Window{Period: limit.Minute}},
		{limit.Spec{Algorithm: limit.SlidingLog, Count: 1, Period: limit.Minute}, Window{Period: limit.Minute, LooksBack: true}},
		{limit.Spec{Algorithm: limit.FixedWindow, Align: limit.AlignFirstRequest, Period: limit.Minute}, Window{Period: limit.Minute, LooksBack: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 100, Period: limit.Second}, Window{Period: Ahead, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 3, Period: limit.Second, Burst: 10}, Window{Period: 3334 * limit.Millisecond, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 1, Period: limit.MaxPeriod, Burst: limit.MaxCount}, Window{Period: limit.MaxPeriod, Refills: true}},
		{limit.Spec{Algorithm: limit.TokenBucket, Period: limit.Second}, Window{Period: limit.MaxPeriod, Refills: true}},
	} {
		if got := WindowOf(c.spec); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.spec, got, c.want)
		}
	}
}
