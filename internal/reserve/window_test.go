package reserve

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// A span has the windows that begin after its first time, and at its last. A limit that looks back also counts in the
// window before.
func TestSpanOfWindows(t *testing.T) {
	span := Span{10 * limit.Second, 30 * limit.Second}
	for at, want := range map[limit.Micros]bool{10: false, 11: true, 30: true, 31: false} {
		if span.Has(at*limit.Second) != want {
			t.Errorf("%v has %d s: want %v", span, at, want)
		}
	}
	for _, w := range []Window{{}, {LooksBack: true}, {Refills: true}} {
		w.Period = 10 * limit.Second
		if begin, counts := w.before(20 * limit.Second); begin != 10*limit.Second || counts != w.LooksBack {
			t.Errorf("before the window at 20 s is one at %v, counts: %v", begin, counts)
		}
		// A window of the span ends at 40 s. One that looks back, and a bucket, count for 10 s more.
		last := 40*limit.Second + Ahead
		if w.LooksBack || w.Refills {
			last += w.Period
		}
		if !w.runs(span, last-1) || w.runs(span, last) || w.runs(Span{30 * limit.Second, 30 * limit.Second}, 35*limit.Second) {
			t.Errorf("a span until 30 s does not matter until %v, or an empty one does", last)
		}
	}
}

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
