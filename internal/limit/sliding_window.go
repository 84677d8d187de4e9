package limit

// Sliding window, by two counters.
//
// The current window's count and that of the window before, weighted by how much
// of it a trailing window still covers (Cloudflare, "How we built rate limiting
// capable of scaling to millions of domains", 2017):
//
//	before*(period-elapsed)/period + level + n <= count
//
// Arithmetic. Multiplied by the period this is in integers, and solved for n
// exact: remaining = count - level - ceil(before*(period-elapsed)/period). The
// numerator stays below (2*count+1)*period, hence the bound in [New]; where it
// fails in microseconds, elapsed is rounded down to milliseconds or seconds,
// which weighs before a little more and never admits more.
//
// Bound. Per clock window at most count. The estimate assumes that before
// was spread evenly: a trailing window can see nearly 2*count when all of it was
// spent in the last moment of its window and all of count at the end of the next.
// Two counters cannot show this; a sliding log can. Under saturation the count is used
// up but for one unit per window, which the rounding costs while before is
// full.

// before is the units that were charged in the window before the current one,
// 0 <= before <= 2*count.
func (st *State) before() *int64 { return &st.Aux }

// fade is what a sliding window derives from its spec.
type fade struct {
	unit   Micros // of time: 1 µs, 1 ms or 1 s
	period int64  // in such units
}

func newFade(s Spec) (fade, bool) {
	for _, unit := range timeUnits {
		period := int64(s.Period / unit)
		if s.Period%unit == 0 && 2*s.Count+1 <= (maxExact-1)/period {
			return fade{unit: unit, period: period}, true
		}
	}
	return fade{}, false
}

// slide moves the state to the window of now.
func (l *Limit) slide(st *State, now Micros) {
	period := l.spec.Period
	switch {
	case st.At-now > period: // a clock was wrong
		st.At = l.windowStart(now)
	case now-st.At >= period:
		start := l.windowStart(now)
		if start != st.At+period {
			st.Level = 0
		}
		*st = State{At: start, Aux: st.Level}
	}
}

// slidingRemaining rounds the weighted count of the window before up.
func (l *Limit) slidingRemaining(st *State, now Micros) int64 {
	f := &l.fade
	remaining := l.spec.Count - st.Level
	if st.Aux > 0 && remaining > 0 { // before; read so that this is inlined
		left := f.period - int64(max(0, now-st.At)/f.unit)
		remaining -= ceilDiv(l.weighed(st.Aux)*left, f.period)
	}
	return max(0, remaining)
}

// weighed is a window's count as the estimate uses it. Beyond twice the limit,
// where only a lowered count can leave it, more makes no difference that matters
// but would not fit the arithmetic.
func (l *Limit) weighed(charged int64) int64 { return min(charged, 2*l.spec.Count) }

// slidingRetry solves the inequality for the time at which a denied need fits. If
// it fits beside level, only before is in the way, and no longer is once
//
//	before*left <= (count-level-need)*period, so left = floor((count-level-need)*period/before)
//
// where left is what is left of the window; at the latest at its end. Otherwise
// the same holds in the next window, where level takes the place of before and 0
// that of level.
func (l *Limit) slidingRetry(st *State, now Micros, need int64) Micros {
	f, end := &l.fade, st.At+l.spec.Period
	if need > l.spec.Count {
		return Never
	}
	if room := l.spec.Count - st.Level - need; room >= 0 { // so before > 0
		left := room * f.period / l.weighed(*st.before())
		return end - Micros(left)*f.unit - now
	}
	left := (l.spec.Count - need) * f.period / l.weighed(st.Level) // level > 0
	return end + l.spec.Period - Micros(left)*f.unit - now
}

func (l *Limit) slidingReset(st *State, now Micros) Micros {
	switch {
	case st.Level > 0:
		return st.At + 2*l.spec.Period - now
	case *st.before() > 0:
		return st.At + l.spec.Period - now
	}
	return 0
}
