package limit

// recallSlack is by how much a time that a holder remembers may be too early: it is in
// milliseconds of another clock.
const recallSlack = 2 * Millisecond

// Recall lowers a counter whose history, or the latest part of it, was lost to what a
// holder remembers from before: that left units were left, and that the counter is as good
// as new when reset has passed from now. For a bucket only reset is used, because it has
// refilled since the holder's last reply. What is remembered of a window that is over
// changes nothing, and a counter that has less left stays as it is, so that a holder gains
// nothing by what it remembers. A wrong memory takes one limit at most, until the reset,
// which is no later than that of a counter that was used up now.
//
// It returns by how many units less are left.
func (l *Limit) Recall(st State, now Micros, left int64, reset Micros) (State, int64) {
	now, left = legalTime(now), legalUnits(left)
	if reset = min(reset, l.Memory()); reset <= 0 {
		return st, 0
	}
	switch l.spec.Algorithm {
	case TokenBucket:
		return l.recallBucket(st, now, reset)
	case FixedWindow:
		return l.recallFixed(st, now, left, reset)
	case SlidingWindow:
		return l.recallSliding(st, now, left, reset)
	case SlidingLog:
		return l.recallLog(st, now, left, reset)
	}
	return st, 0
}

// Memory is how long a counter remembers what was charged to it: the largest Reset of
// what was used up and not overdrawn.
func (l *Limit) Memory() Micros {
	switch l.spec.Algorithm {
	case TokenBucket:
		b := &l.bucket
		if b.rate == 0 {
			return Never
		}
		return Micros(min(ceilDiv(b.cap, b.rate), maxExact/2/int64(b.unit))) * b.unit
	case SlidingWindow:
		return 2 * l.spec.Period
	case SlidingLog:
		return l.spec.Period + l.ttlLong
	case Concurrency:
		return l.spec.LeaseTTL
	}
	return l.spec.Period
}

// recallBucket: the credit that is missing is what comes in until the reset.
func (l *Limit) recallBucket(st State, now, reset Micros) (State, int64) {
	b := &l.bucket
	l.refill(&st, now)
	before := b.tokens(&st)
	missing := min(int64(reset/b.unit), b.fill) * b.rate
	st.Level = min(st.Level, max(0, b.cap-missing))
	return st, before - b.tokens(&st)
}

// recallFixed: a reset before the end of the running window was that of the one before.
// A window that began with its first charge began a period before its end.
func (l *Limit) recallFixed(st State, now Micros, left int64, reset Micros) (State, int64) {
	l.windowAt(&st, now)
	units := l.unspent(st.Level) - left
	if units <= 0 {
		return st, 0
	}
	if l.spec.Align == AlignFirstRequest {
		if st.At == 0 {
			st.At = max(now+reset-l.spec.Period, 1)
		}
	} else if now+reset+recallSlack < st.At+l.spec.Period {
		return st, 0
	}
	st.Level += units
	return st, units
}

// recallSliding: a reset within the running window is that of the window before, of which
// less counts every moment; a later one is of what was charged in the running one.
func (l *Limit) recallSliding(st State, now Micros, left int64, reset Micros) (State, int64) {
	f, end := &l.fade, now+reset+recallSlack
	l.slide(&st, now)
	before := l.slidingRemaining(&st, now)
	switch {
	case before <= left || end < st.At+l.spec.Period:
		return st, 0
	case end < st.At+2*l.spec.Period:
		rest := max(1, f.period-int64(max(0, now-st.At)/f.unit))
		prev := ceilDiv((l.spec.Count-st.Level-left)*f.period, rest)
		*st.before() = max(*st.before(), min(prev, l.spec.Count))
	default:
		st.Level += before - left
	}
	return st, before - l.slidingRemaining(&st, now)
}

// recallLog: all that was charged is charged at the time of its last part.
func (l *Limit) recallLog(st State, now Micros, left int64, reset Micros) (State, int64) {
	l.expire(&st, now)
	units := l.spec.Count - st.Level - left
	if units <= 0 {
		return st, 0
	}
	st.insert(max(st.At+reset-l.spec.Period, 1), units)
	return st, units
}
