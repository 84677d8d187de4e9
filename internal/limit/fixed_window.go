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
//
// Windows of a calendar are not all of one length. Where they begin is a figure that whoever has
// the clocks of time zones brings ([Windows]): here no calendar is known.

// Per is what a window of a calendar is: a day, a week or a month by the clock of a time zone.
type Per uint8

// The windows of a calendar.
const (
	PerDay Per = iota
	PerWeek
	PerMonth
)

var perWords = [...]string{PerDay: "day", PerWeek: "week", PerMonth: "month", PerMonth + 1: "unknown"}

// String returns the word of the rule language.
func (p Per) String() string { return perWords[min(p, PerMonth+1)] }

// Period is the nominal length of such windows, for all that needs no more than that: 1, 7 or 30 days.
func (p Per) Period() Micros { return [...]Micros{Day, 7 * Day, 30 * Day}[min(p, PerMonth)] }

// Calendar divides the time of a limit into windows of a calendar.
type Calendar struct {
	Per Per
	// Anchor is the first day of a window. PerMonth: the day of the month, 1 to 31, where a month that is shorter
	// has its last day; PerWeek: the day of the week, 1 is Monday and 7 Sunday; PerDay: 0.
	Anchor uint8
	Zone   string // the IANA name of the time zone by whose clock a day begins, 1 to 64 bytes
	// Windows is where the windows begin; nil: nobody here knows it, as at the edge. Then the limit counts, if it is
	// asked to, by windows of the nominal length since 1970.
	Windows Windows
}

// Same reports whether two calendars have the same windows; nil is none.
func (c *Calendar) Same(o *Calendar) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.Per == o.Per && c.Anchor == o.Anchor && c.Zone == o.Zone
}

// Windows is where the windows of a calendar begin. It is comparable, and safe for concurrent use.
type Windows interface {
	// Around is when the window before that of a time began, then this one, and the next four, in µs since
	// 1970. It must not be changed.
	Around(at Micros) *[6]Micros
}

// next is the units that are charged to the next window, 0 <= next <= count.
func (st *State) next() *int64 { return &st.Aux }

// leads reports whether an ask is for the next window.
func (l *Limit) leads(st *State, now Micros, a *Ask) bool {
	return l.spec.Algorithm == FixedWindow && l.spec.Align == AlignClock && a.Need == 0 && a.Want > 0 && l.end(st.At)-now <= a.Lead
}

// acquireNext grants units of the next window. Their ttl runs from the flip.
func (l *Limit) acquireNext(st *State, now Micros, a *Ask, d *Decision) {
	next := a.left(l.unspent(*st.next()))
	if d.Granted = l.size(a, next); d.Granted > 0 {
		*st.next() += d.Granted
		end, after := l.ends(st.At)
		d.Period, d.StartsIn = end, end-now
		d.TTL = d.StartsIn + min(l.ttl(next), after-end)
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
	case l.windows != nil:
		l.calendarAt(st, now)
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

// calendarAt moves the state to the window of a calendar. A start that is none of a window is that of a clock that
// was wrong, or of a zone whose clock has been changed by law since.
func (l *Limit) calendarAt(st *State, now Micros) {
	begins := l.windows.Around(now)
	switch start := begins[1]; {
	case st.At == start, st.At == begins[2]:
	case st.At > start:
		st.At = start
	default:
		if start-st.At > l.spec.Period*3/2 { // it is not the window before, which is at most 31 days long
			*st.next() = 0
		}
		*st = State{At: start, Level: *st.next()}
	}
}

// WindowAt is the window of a time, where windows begin by the clock: its start and its end.
func (l *Limit) WindowAt(t Micros) (start, end Micros) {
	if l.windows != nil {
		begins := l.windows.Around(t)
		return begins[1], begins[2]
	}
	start = t - t%l.spec.Period
	return start, start + l.spec.Period
}

// end is the end of the window that starts then.
func (l *Limit) end(start Micros) Micros {
	if l.windows == nil {
		return start + l.spec.Period
	}
	return l.windows.Around(start)[2]
}

// ends are the ends of the window that starts then and of the next one.
func (l *Limit) ends(start Micros) (end, after Micros) {
	if l.windows == nil {
		return start + l.spec.Period, start + 2*l.spec.Period
	}
	begins := l.windows.Around(start)
	return begins[2], begins[3]
}

// Runs is for how long the running window of a counter goes on, which starts at State.At; [Never] where none
// runs, and for algorithms without windows that end.
func (l *Limit) Runs(start, now Micros) Micros {
	if l.spec.Algorithm != FixedWindow || start == 0 {
		return Never
	}
	return l.end(start) - LegalTime(now)
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
		_, after := l.ends(st.At)
		return after - now
	}
	return l.end(st.At) - now
}

func (l *Limit) fixedReset(st *State, now Micros) Micros {
	switch {
	case *st.next() > 0:
		_, after := l.ends(st.At)
		return after - now
	case st.Level > 0, l.spec.Align == AlignFirstRequest && st.At > 0:
		return l.end(st.At) - now
	}
	return 0
}
