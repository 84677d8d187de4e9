package upstream

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// The trickle of a bucket comes in at the share of its rate, to a hundredth where the arithmetic allows it, and never at more.
func TestTrickleBucket(t *testing.T) {
	for _, s := range []limit.Spec{
		{Count: 60, Period: limit.Second, Burst: 120}, {Count: 3, Period: limit.Minute, Burst: 100}, {Count: 7, Period: limit.Day, Burst: 60},
		{Count: 1, Period: limit.MaxPeriod, Burst: 10}, {Count: limit.MaxCount, Period: limit.Second, Burst: limit.MaxCount},
		{Count: 100, Period: limit.Second, Burst: 3},
	} {
		l := fatal.Get(limit.New(s))(t)
		p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
		for _, share := range []reserve.PerMille{0, 1, 166, 333, 1000} {
			got := trickleBucket(p, 5, share).Limit.Spec()
			most := float64(s.Count) / float64(s.Period) * float64(share) / 1000
			if rate := float64(got.Count) / float64(got.Period); rate > most*1.000001 || got.Burst > share.Of(s.Burst) {
				t.Errorf("%+v, %d thousandths: %+v", s, share, got)
			}
			if s.Period == limit.Minute && share == 166 && got.Count < 100 {
				t.Errorf("%+v, %d thousandths: %+v, want a hundred or more in many minutes", s, share, got)
			}
		}
	}
}

// The trickle of a limit of many units has shorter windows, of at least a minute; those of a calendar stay what they are.
func TestTrickleWindow(t *testing.T) {
	calendar := struct{ limit.Windows }{}
	for _, c := range []struct {
		count        int64
		period, want limit.Micros
		divided      bool
	}{
		{1000, limit.Day, limit.Day / 10, true}, {100, limit.Day, limit.Day, false}, {0, limit.Day, limit.Day, false},
		{1_000_000, limit.Day, limit.Minute, true}, {1000, limit.Minute, limit.Minute, false}, {7000, limit.Day, 1_234_285 * limit.Millisecond, true},
	} {
		w := trickleWindow(limit.Spec{Count: c.count}, reserve.Window{Period: c.period, Calendar: calendar})
		if w.Period != c.want || (w.Calendar == nil) != c.divided {
			t.Errorf("%+v: %+v", c, w)
		}
	}
}

// Wants count for a second. More than a tenth of them, and three at least, have to be undecided for that to matter.
func TestUndecidedLately(t *testing.T) {
	var w wants
	for turn, c := range []struct {
		decided, undecided int64
		some, mostly       bool
	}{
		{0, 0, false, false}, {20, 2, true, false}, {7, 1, true, false}, {0, 0, true, false}, {0, 1, true, true},
		{0, 0, true, false}, {0, 1, true, false}, {0, 0, true, false}, {0, 0, true, false}, {0, 0, true, false}, {0, 0, false, false},
	} {
		w.note(c.decided, c.undecided)
		if some, mostly := w.undecidedLately(); some != c.some || mostly != c.mostly {
			t.Errorf("turn %d: %v, %v", turn, some, mostly)
		}
	}
}

// A denial counts for a tenth of a second, for its key, and not before it was noted: the clock may have been set back.
func TestDenialsLast(t *testing.T) {
	l, _ := limit.New(limit.Spec{Count: 1, Period: limit.Second})
	a := &engine.Ask{Policy: engine.NewPolicy("r", 0, l, lease.Terms{}), Key: []byte("k")}
	var d denials
	d.note(a, 5000+denialFor)
	d.note(a, 5001) // by a clock that is behind: changes nothing
	for now, want := range map[limit.Micros]bool{4999: false, 5000: true, 4999 + denialFor: true, 5000 + denialFor: false} {
		other := *a
		if other.Key = []byte("other"); d.has(a, now) != want || d.has(&other, now) {
			t.Errorf("at %d: %v", now, !want)
		}
	}
}
