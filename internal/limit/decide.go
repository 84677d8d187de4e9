package limit

// maxNow leaves room for two more periods and a wrong clock below 2^53.
const maxNow = maxExact - 1 - 3*MaxPeriod

// Acquire decides on an ask and charges what it grants.
//
// Nothing is granted if less than Need remains, else
// min(Want, remaining, max(Waiting, share)): what somebody waits for is spent at
// once and cannot be stranded. The share of what is asked ahead is
// remaining/(2*Askers), so that leases shrink as a window runs out, and all that
// remains for a token bucket, which refills.
//
// What is withheld counts as not there, also in Remaining. RetryAfter does not include it,
// and is 0 if nothing else is missing.
//
// A denied need costs nothing unless the limit has ChargeRejected. An ask for
// nothing is a report: Granted and RetryAfter are 0. A limit on Concurrency
// grants nothing here; see [Limit.Hold]. Constant time; O(log n) for a sliding log
// of n entries, plus the leases on it that are out.
func (l *Limit) Acquire(st State, now Micros, a Ask) (State, Decision) {
	d := l.Decide(&st, now, a)
	return st, d
}

// Decide is [Limit.Acquire] in place, for callers that keep the state in a table. It
// saves copying the state in and out, which costs more than the decision.
func (l *Limit) Decide(st *State, now Micros, a Ask) (d Decision) {
	now = LegalTime(now)
	a.legalize()
	l.moveTo(st, now)
	if a.Lead > 0 && l.leads(st, now, &a) {
		l.acquireNext(st, now, &a, &d)
		return d
	}
	whole := l.remaining(st, now)
	remaining := a.left(whole)
	switch {
	case remaining < a.Need:
		if l.spec.ChargeRejected {
			l.charge(st, now, a.Need)
			whole = l.remaining(st, now)
			remaining = a.left(whole)
		}
		if a.Need > whole { // else it is only withheld
			d.RetryAfter = l.retry(st, now, a.Need)
		}
	case a.Want > 0 && remaining > 0:
		l.grant(st, now, &a, &d, remaining)
	}
	if d.Remaining = remaining - d.Granted; d.Granted > 0 && l.spec.MinInterval > 0 {
		d.Remaining = 0
	}
	d.Reset = l.reset(st, now)
	return d
}

// Peek is what Acquire would decide on a need alone, without charging it:
// Granted is need or 0, Remaining what there is before it. Period, StartsIn and
// TTL are 0. The state is neither changed nor its memory written.
func (l *Limit) Peek(st State, now Micros, need int64) (d Decision) {
	now, need = LegalTime(now), legalUnits(need)
	if st.At-now > l.spec.Period {
		st.Log = append([]Charge(nil), st.Log...) // expire will move entries
	}
	l.moveTo(&st, now)
	d.Remaining, d.Reset = l.remaining(&st, now), l.reset(&st, now)
	if need > d.Remaining {
		d.RetryAfter = l.retry(&st, now, need)
	} else {
		d.Granted = need
	}
	return d
}

// Return gives back units of a grant that were not spent, to the period that
// [Decision.Period] named (or [Limit.PeriodFromID] recovered); units of a period
// that no longer counts are dropped. It reports how many units found their
// charge. If more is given back than was granted, that
// much too much is admitted: the granter must limit it to what it has out.
func (l *Limit) Return(st State, now, period Micros, units int64) (State, int64) {
	now, units = LegalTime(now), legalUnits(units)
	l.moveTo(&st, now)
	switch l.spec.Algorithm {
	case TokenBucket:
		units = l.bucket.giveBack(&st, units)
	case FixedWindow:
		units = l.returnToWindow(&st, period, l.end(st.At), units)
	case SlidingWindow:
		units = l.returnToWindow(&st, period, st.At-l.spec.Period, units)
	case SlidingLog:
		units = st.giveBack(period, units)
	default:
		units = 0
	}
	return st, units
}

// Charge charges units that were admitted without asking (overdrawn), also when
// they do not fit. The debt is cut at one limit: a bucket sinks to minus its
// capacity at most, windows and logs rise to twice their count.
func (l *Limit) Charge(st State, now Micros, units int64) State {
	now = LegalTime(now)
	l.moveTo(&st, now)
	l.charge(&st, now, legalUnits(units))
	return st
}

// Union is one counter in place of two, for keys that have to share one. It rejects what
// either of them would reject, and perhaps more, where their windows differ or an algorithm
// counts two. For SlidingLog and Concurrency it is a.
func (l *Limit) Union(a, b State, now Micros) State {
	now = LegalTime(now)
	switch l.spec.Algorithm {
	case SlidingLog, Concurrency:
		return a
	}
	l.moveTo(&a, now)
	l.moveTo(&b, now)
	u := State{At: max(a.At, b.At), Level: max(a.Level, b.Level), Aux: max(a.Aux, b.Aux)}
	if l.spec.Algorithm == TokenBucket {
		u.Level = min(a.Level, b.Level)
	}
	return u
}

// Fresh reports whether the counter is as good as new at now, so that it may be
// forgotten: on a clock that does not step back, no later decision changes.
func (l *Limit) Fresh(st State, now Micros) bool { return l.Peek(st, now, 0).Reset == 0 }

// PeriodID is the short form of a [Decision.Period] that a lease carries: whole
// milliseconds modulo 2^32, which come round after 49.7 days. It names a window
// exactly, since windows are at least 1 ms long (one whose period is a multiple
// of 2^32 ms cannot be distinguished from the next). Of log entries it names those of one
// millisecond.
func (l *Limit) PeriodID(period Micros) uint32 { return uint32(period / Millisecond) }

// PeriodFromID is the time nearest to now, in whole milliseconds, that has this
// id; 0 for a token bucket, which has no periods. [Limit.Return] accepts it in
// place of the exact period.
func (l *Limit) PeriodFromID(now Micros, id uint32) Micros {
	if l.spec.Algorithm == TokenBucket || l.spec.Algorithm == Concurrency {
		return 0
	}
	ms := LegalTime(now) / Millisecond
	return (ms + Micros(int32(id-uint32(ms)))) * Millisecond
}

// The functions below are what the algorithms differ in. Concurrency has no units.

// moveTo moves a state to now; the others here expect that.
func (l *Limit) moveTo(st *State, now Micros) {
	switch l.spec.Algorithm {
	case TokenBucket:
		l.refill(st, now)
	case FixedWindow:
		l.windowAt(st, now)
	case SlidingWindow:
		l.slide(st, now)
	case SlidingLog:
		l.expire(st, now)
	}
}

// remaining is the most that a need could get.
func (l *Limit) remaining(st *State, now Micros) int64 {
	switch l.spec.Algorithm {
	case TokenBucket:
		return l.bucket.tokens(st)
	case FixedWindow:
		return l.unspent(st.Level)
	case SlidingWindow:
		return l.slidingRemaining(st, now)
	case SlidingLog:
		return l.logRemaining(st)
	}
	return 0
}

// grant grants what an ask gets of what remains, which is some.
func (l *Limit) grant(st *State, now Micros, a *Ask, d *Decision, remaining int64) {
	if d.Granted = l.size(a, remaining); d.Granted == 0 {
		return
	}
	d.TTL = l.ttl(remaining)
	switch l.spec.Algorithm {
	case TokenBucket:
		st.Level -= d.Granted * l.bucket.cost
	case SlidingLog:
		if d.Period = st.At; d.Granted > a.Waiting {
			d.Period += d.TTL
		}
		st.insert(d.Period, d.Granted)
	default:
		l.charge(st, now, d.Granted)
		d.Period = st.At
		d.TTL = min(d.TTL, l.end(st.At)-now)
	}
}

// charge charges units, down to one limit of debt.
func (l *Limit) charge(st *State, now Micros, units int64) {
	switch l.spec.Algorithm {
	case TokenBucket:
		l.bucket.charge(st, units)
	case FixedWindow:
		l.chargeFixed(st, now, units)
	case SlidingWindow:
		l.chargeWindow(st, units)
	case SlidingLog:
		l.chargeLog(st, units)
	}
}

// retry is the RetryAfter of a need for which too little remains.
func (l *Limit) retry(st *State, now Micros, need int64) Micros {
	switch l.spec.Algorithm {
	case TokenBucket:
		return l.bucketWait(st, now, need)
	case FixedWindow:
		return l.fixedRetry(st, now, need)
	case SlidingWindow:
		return l.slidingRetry(st, now, need)
	case SlidingLog:
		return l.logRetry(st, now, need)
	}
	return Never
}

// reset is the Reset of a decision.
func (l *Limit) reset(st *State, now Micros) Micros {
	switch l.spec.Algorithm {
	case TokenBucket:
		return l.bucketWait(st, now, l.capacity)
	case FixedWindow:
		return l.fixedReset(st, now)
	case SlidingWindow:
		return l.slidingReset(st, now)
	case SlidingLog:
		return l.logReset(st, now)
	}
	return 0
}

// left is what is there for the ask of so many units that remain.
func (a *Ask) left(remaining int64) int64 { return max(0, remaining-a.Withheld) }

// size is how much an ask gets whose need fits into remaining.
func (l *Limit) size(a *Ask, remaining int64) int64 {
	granted := a.Waiting
	switch {
	case l.spec.MinInterval > 0:
		return a.Need
	case l.spec.Algorithm == TokenBucket:
		granted = remaining
	case a.Want > a.Waiting:
		granted = max(granted, remaining/(2*a.Askers))
	}
	return min(a.Want, remaining, granted)
}

// ttl is how long units may stay out that were granted when so much remained.
func (l *Limit) ttl(remaining int64) Micros {
	if 2*remaining >= l.capacity {
		return l.ttlLong
	}
	return l.ttlShort
}

func (a *Ask) legalize() {
	a.Need = legalUnits(a.Need)
	a.Waiting = min(max(a.Waiting, a.Need), MaxCount)
	a.Want = min(max(a.Want, a.Waiting), MaxCount)
	a.Askers = min(max(a.Askers, 1), MaxCount)
	a.Withheld = legalUnits(a.Withheld)
}

func legalUnits(n int64) int64 { return min(max(n, 0), MaxCount) }

func LegalTime(t Micros) Micros { return min(max(t, 1), maxNow) }

// debited adds units to what is charged, up to ceiling; what is already above
// (the count was lowered) stays.
func debited(charged, units, ceiling int64) int64 {
	return max(charged, min(charged+units, ceiling))
}

func ceilDiv[T ~int64](a, b T) T { return (a + b - 1) / b }
