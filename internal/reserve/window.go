package reserve

import (
	"math/bits"

	"github.com/weirlimit/weir/internal/limit"
)

// Span is the windows that begin after After, and at Until or before. The zero value has none.
type Span struct{ After, Until limit.Micros }

// Has reports whether a window that begins at this time is in the span.
func (s Span) Has(begin limit.Micros) bool { return s.After < begin && begin <= s.Until }

// maxSpans is how many spans of used windows are told apart. Of more, the oldest two become one that
// has both.
const maxSpans = 8

// Window is how a limit's time is divided into windows, each named by the time at which it begins. It is
// immutable.
type Window struct {
	// Period is how long a window is, above 0; of a calendar it is the nominal length.
	Period limit.Micros
	// Calendar is where windows of a calendar begin; nil: at multiples of Period.
	Calendar limit.Windows
	// LooksBack is true where what was admitted in the window before counts, too: a window then is used
	// and withheld together with the one before it.
	LooksBack bool
	// Refills is true for a token bucket. Its windows are as long as it takes to fill, in whole
	// milliseconds and at least [Ahead].
	Refills bool
}

// WindowOf is the division of a limit's time. A limit of 0 is divided as well, so that callers need no
// exception for it.
func WindowOf(s limit.Spec) Window {
	switch {
	case s.Algorithm == limit.TokenBucket:
		fill := max(Ahead, fillTime(s)) + limit.Millisecond - 1
		return Window{Period: fill - fill%limit.Millisecond, Refills: true}
	case s.Calendar != nil:
		return Window{Period: s.Period, Calendar: s.Calendar.Windows}
	case s.Algorithm == limit.FixedWindow && s.Align == limit.AlignClock:
		return Window{Period: max(s.Period, 1)}
	}
	return Window{Period: max(s.Period, 1), LooksBack: true}
}

// fillTime is how long an empty bucket takes to fill, rounded up, at most limit.MaxPeriod.
func fillTime(s limit.Spec) limit.Micros {
	if s.Count <= 0 {
		return limit.MaxPeriod
	}
	burst := s.Burst
	if burst == 0 {
		burst = s.Count
	}
	high, low := bits.Mul64(uint64(burst), uint64(s.Period))
	low, carry := bits.Add64(low, uint64(s.Count-1), 0)
	if high += carry; high >= uint64(s.Count) {
		return limit.MaxPeriod
	}
	fill, _ := bits.Div64(high, low, uint64(s.Count))
	return limit.Micros(min(fill, uint64(limit.MaxPeriod)))
}

// Begin is when the window began that runs at a time.
func (w Window) Begin(at limit.Micros) limit.Micros {
	if w.Calendar != nil {
		return w.Calendar.Around(at)[1]
	}
	return at - at%w.Period
}

// Near is when the window began that runs at a time, when the one before it did, and when the next one does.
func (w Window) Near(at limit.Micros) (begins [3]limit.Micros) {
	if w.Calendar != nil {
		b := w.Calendar.Around(at)
		return [3]limit.Micros{b[1], b[0], b[2]}
	}
	running := w.Begin(at)
	return [3]limit.Micros{running, running - w.Period, running + w.Period}
}

// runs reports whether windows that begin in a span still matter at a time: one runs, or of a limit that
// looks back, or a bucket, the one after it does. Another aggregator may be behind this time, see [Shares].
func (w Window) runs(s Span, at limit.Micros) bool {
	near := w.Near(s.Until)
	last, ends := near[0], near[2]+Ahead
	if w.LooksBack || w.Refills {
		ends += w.Period
	}
	return last > s.After && at < ends
}

// before is when the window before began, and whether it counts.
func (w Window) before(begin limit.Micros) (limit.Micros, bool) { return begin - w.Period, w.LooksBack }

// PerMille is a part of a limit in thousandths, 0 to 1000.
type PerMille int64

// Whole is all of a limit.
const Whole PerMille = 1000

// Of is the part of so many units, 0 to limit.MaxCount, rounded down.
func (p PerMille) Of(units int64) int64 { return units * int64(p) / int64(Whole) }

// Without is what is left of so many units without the part, which is rounded up.
func (p PerMille) Without(units int64) int64 { return (Whole - min(p, Whole)).Of(units) }

// Trickle is how many units a region may have admitted until now of a window that began at begin, by its part
// of a limit's rate, since its wants stopped being decided at cut. In a window that it has renounced, now is when
// a replica read that last: another one may have ended the outage since. Of a token bucket it is what has come in, by
// its reserve as well, which begins empty when the first window does in which it may be used. It is never more than the
// part of what the limit holds.
func Trickle(s limit.Spec, part PerMille, begin, cut, now limit.Micros) int64 {
	passed := now - max(begin, cut)
	if cut <= 0 || passed <= 0 || s.Period <= 0 || part <= 0 {
		return 0
	}
	holds := s.Count
	if s.Algorithm == limit.TokenBucket && s.Burst > 0 {
		holds = s.Burst
	}
	per := uint64(s.Period) * uint64(Whole)
	high, low := bits.Mul64(uint64(s.Count)*uint64(part), uint64(passed))
	if high >= per {
		return part.Of(holds)
	}
	units, _ := bits.Div64(high, low, per)
	return int64(min(units, uint64(part.Of(holds))))
}
