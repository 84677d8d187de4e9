package limit

// Fixed window.
//
// A counter per window of one period. Windows start at multiples of the period
// since 1970 (a period that does not divide a day drifts against midnight), or
// with the first charge after the last window ended. The latter start on the
// microsecond: rounded down to the millisecond that a lease carries they would
// end up to 1 ms early, and rounded up the first charge would lie outside; and
// two windows of a counter never start in the same millisecond, so that the
// millisecond names the window all the same.
//
// Bound. Per window at most count units are charged to it, and no lease on it
// outlives it. In a trailing window of one period at most 2*count: the end of one
// window and the beginning of the next. Under saturation the count is used up.
//
// Units of the next window can be charged before it begins (Ask.Lead), so that a
// holder has them at the flip. They are kept apart, in Prev, and become Level
// when the window moves on.

func (l *Limit) acquireFixed(st State, now Micros, a Ask) (State, Decision) {
	st = l.windowAt(st, now)
	if a.Need == 0 && a.Want > 0 && l.leads(st, now, a.Lead) {
		return l.acquireNext(st, now, a)
	}
	remaining := max(0, l.spec.Count-st.Level)
	if remaining < a.Need {
		if l.spec.ChargeDenied {
			st = l.chargeFixed(st, now, a.Need)
			remaining = max(0, l.spec.Count-st.Level)
		}
		return st, Decision{Remaining: remaining, RetryAfter: l.fixedRetry(st, now, a.Need), Reset: l.fixedReset(st, now)}
	}
	d := Decision{Granted: a.size(remaining)}
	if d.Granted > 0 {
		st = l.chargeFixed(st, now, d.Granted)
		d.Period = st.At
		d.TTL = min(l.ttl(remaining), st.At+l.spec.Period-now)
	}
	d.Remaining = remaining - d.Granted
	d.Reset = l.fixedReset(st, now)
	return st, d
}

// leads reports whether an ask is for the next window.
func (l *Limit) leads(st State, now, lead Micros) bool {
	return lead > 0 && l.spec.Align == AlignClock && st.At+l.spec.Period-now <= lead
}

// acquireNext grants units of the next window. Their ttl runs from the flip.
func (l *Limit) acquireNext(st State, now Micros, a Ask) (State, Decision) {
	remaining := max(0, l.spec.Count-st.Prev)
	d := Decision{Granted: a.size(remaining), Remaining: max(0, l.spec.Count-st.Level)}
	if d.Granted > 0 {
		st.Prev += d.Granted
		d.Period = st.At + l.spec.Period
		d.StartsIn = d.Period - now
		d.TTL = d.StartsIn + min(l.ttl(remaining), l.spec.Period)
	}
	d.Reset = l.fixedReset(st, now)
	return st, d
}

func (l *Limit) peekFixed(st State, now Micros, need int64) Decision {
	st = l.windowAt(st, now)
	d := Decision{Remaining: max(0, l.spec.Count-st.Level), Reset: l.fixedReset(st, now)}
	if need <= d.Remaining {
		d.Granted = need
	} else {
		d.RetryAfter = l.fixedRetry(st, now, need)
	}
	return d
}

func (l *Limit) returnFixed(st State, now, period Micros, units int64) (State, int64) {
	st = l.windowAt(st, now)
	switch l.PeriodID(period) {
	case l.PeriodID(st.At):
		units = min(units, st.Level)
		st.Level -= units
	case l.PeriodID(st.At + l.spec.Period):
		units = min(units, st.Prev)
		st.Prev -= units
	default:
		units = 0
	}
	return st, units
}

// windowAt moves the state to the window of now. A counter without a window
// (AlignFirstRequest, the last one over) is the zero State.
func (l *Limit) windowAt(st State, now Micros) State {
	period := l.spec.Period
	switch {
	case st.At-now > period: // a clock was wrong
		st.At = l.windowStart(now)
	case now-st.At < period:
	case l.spec.Align == AlignFirstRequest:
		st = State{}
	default:
		start := l.windowStart(now)
		if start != st.At+period {
			st.Prev = 0
		}
		st = State{At: start, Level: st.Prev}
	}
	return st
}

// windowStart is the start of a window that now falls into or begins.
func (l *Limit) windowStart(now Micros) Micros {
	if l.spec.Align == AlignFirstRequest {
		return now
	}
	return now - now%l.spec.Period
}

// chargeFixed charges the current window, which begins with its first charge
// where there is none. (A state without a window is never in the past of now.)
func (l *Limit) chargeFixed(st State, now Micros, units int64) State {
	if st.At == 0 && units > 0 && l.spec.Align == AlignFirstRequest {
		st.At = now
	}
	return l.chargeWindow(st, units)
}

// chargeWindow charges the current window, up to one limit of debt.
func (l *Limit) chargeWindow(st State, units int64) State {
	st.Level = debited(st.Level, units, 2*l.spec.Count)
	return st
}

// fixedRetry is the wait of a need that does not fit into the current window:
// until the next, or the one after if too much of the next is out already.
func (l *Limit) fixedRetry(st State, now Micros, need int64) Micros {
	switch {
	case need > l.spec.Count:
		return Never
	case need > l.spec.Count-st.Prev:
		return st.At + 2*l.spec.Period - now
	}
	return st.At + l.spec.Period - now
}

func (l *Limit) fixedReset(st State, now Micros) Micros {
	switch {
	case st.Prev > 0:
		return st.At + 2*l.spec.Period - now
	case st.Level > 0, l.spec.Align == AlignFirstRequest && st.At > 0:
		return st.At + l.spec.Period - now
	}
	return 0
}
