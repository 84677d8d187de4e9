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
// holder has them at the flip. They are kept apart, in next, and become Level when
// the window moves on.

// next is the units that are charged to the next window, 0 <= next <= count.
func (st *State) next() *int64 { return &st.Aux }

// leads reports whether an ask is for the next window.
func (l *Limit) leads(st *State, now Micros, a *Ask) bool {
	return l.spec.Algorithm == FixedWindow && l.spec.Align == AlignClock && a.Need == 0 && a.Want > 0 && st.At+l.spec.Period-now <= a.Lead
}

// acquireNext grants units of the next window. Their ttl runs from the flip.
func (l *Limit) acquireNext(st *State, now Micros, a *Ask, d *Decision) {
	next := a.left(l.unspent(*st.next()))
	if d.Granted = l.size(a, next); d.Granted > 0 {
		*st.next() += d.Granted
		d.Period = st.At + l.spec.Period
		d.StartsIn = d.Period - now
		d.TTL = d.StartsIn + min(l.ttl(next), l.spec.Period)
	}
	d.Remaining = a.left(l.unspent(st.Level))
	d.Reset = l.fixedReset(st, now)
}

// returnToWindow gives back units of the running window, or of the one that starts at
// other: the next, or the one before, which still counts in a sliding window. The units of
// that one are in Aux.
func (l *Limit) returnToWindow(st *State, period, other Micros, units int64) int64 {
	switch l.PeriodID(period) {
	case l.PeriodID(st.At):
		return giveBack(&st.Level, units)
	case l.PeriodID(other):
		return giveBack(&st.Aux, units)
	}
	return 0
}

// unspent is what a window still has of which so much is charged.
func (l *Limit) unspent(charged int64) int64 { return max(0, l.spec.Count-charged) }

// windowAt moves the state to the window of now. A counter without a window
// (AlignFirstRequest, the last one over) is the zero State.
func (l *Limit) windowAt(st *State, now Micros) {
	period := l.spec.Period
	switch {
	case st.At-now > period: // a clock was wrong
		st.At = l.windowStart(now)
	case now-st.At < period:
	case l.spec.Align == AlignFirstRequest:
		*st = State{}
	default:
		start := l.windowStart(now)
		if start != st.At+period {
			*st.next() = 0
		}
		*st = State{At: start, Level: *st.next()}
	}
}

// windowStart is the start of a window that now falls into or begins.
func (l *Limit) windowStart(now Micros) Micros {
	if l.spec.Align == AlignFirstRequest {
		return now
	}
	return now - now%l.spec.Period
}

// chargeFixed charges the current window, which begins with its first charge
// where there is none.
func (l *Limit) chargeFixed(st *State, now Micros, units int64) {
	if st.At == 0 && units > 0 && l.spec.Align == AlignFirstRequest {
		st.At = now
	}
	l.chargeWindow(st, units)
}

// chargeWindow charges the current window, up to one limit of debt.
func (l *Limit) chargeWindow(st *State, units int64) {
	st.Level = debited(st.Level, units, 2*l.spec.Count)
}

// giveBack takes units off what is charged, as far as they are charged.
func giveBack(charged *int64, units int64) int64 {
	units = min(units, *charged)
	*charged -= units
	return units
}

// fixedRetry is the wait of a need that does not fit into the current window:
// until the next, or the one after if too much of the next is out already.
func (l *Limit) fixedRetry(st *State, now Micros, need int64) Micros {
	switch {
	case need > l.spec.Count:
		return Never
	case need > l.spec.Count-*st.next():
		return st.At + 2*l.spec.Period - now
	}
	return st.At + l.spec.Period - now
}

func (l *Limit) fixedReset(st *State, now Micros) Micros {
	switch {
	case *st.next() > 0:
		return st.At + 2*l.spec.Period - now
	case st.Level > 0, l.spec.Align == AlignFirstRequest && st.At > 0:
		return st.At + l.spec.Period - now
	}
	return 0
}
