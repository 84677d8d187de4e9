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
// A denied need costs nothing unless the limit has ChargeDenied. An ask for
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
	now = legalTime(now)
	a.legalize()
	switch l.spec.Algorithm {
	case TokenBucket:
		l.acquireBucket(st, now, &a, &d)
	case FixedWindow:
		l.acquireFixed(st, now, &a, &d)
	case SlidingWindow:
		l.acquireSliding(st, now, &a, &d)
	case SlidingLog:
		l.acquireLog(st, now, &a, &d)
	default:
		if a.Need > 0 {
			d.RetryAfter = Never
		}
	}
	return d
}

// Peek is what Acquire would decide on a need alone, without charging it:
// Granted is need or 0, Remaining what there is before it. Period, StartsIn and
// TTL are 0. The state is neither changed nor its memory written.
func (l *Limit) Peek(st State, now Micros, need int64) (d Decision) {
	now, need = legalTime(now), legalUnits(need)
	switch l.spec.Algorithm {
	case TokenBucket:
		l.refill(&st, now)
		d.Remaining, d.Reset = l.bucket.tokens(&st), l.bucketWait(&st, now, l.capacity)
		if need > d.Remaining {
			d.RetryAfter = l.bucketWait(&st, now, need)
		}
	case FixedWindow:
		l.windowAt(&st, now)
		d.Remaining, d.Reset = l.unspent(st.Level), l.fixedReset(&st, now)
		if need > d.Remaining {
			d.RetryAfter = l.fixedRetry(&st, now, need)
		}
	case SlidingWindow:
		l.slide(&st, now)
		d.Remaining, d.Reset = l.slidingRemaining(&st, now), l.slidingReset(&st, now)
		if need > d.Remaining {
			d.RetryAfter = l.slidingRetry(&st, now, need)
		}
	case SlidingLog:
		if st.At-now > l.spec.Period {
			st.Log = append([]Charge(nil), st.Log...) // expire will move entries
		}
		l.expire(&st, now)
		d.Remaining, d.Reset = l.logRemaining(&st), l.logReset(&st, now)
		if need > d.Remaining {
			d.RetryAfter = l.logRetry(&st, now, need)
		}
	default:
		if need > 0 {
			d.RetryAfter = Never
		}
	}
	if need <= d.Remaining {
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
	now, units = legalTime(now), legalUnits(units)
	switch l.spec.Algorithm {
	case TokenBucket:
		units = l.returnBucket(&st, now, units)
	case FixedWindow:
		l.windowAt(&st, now)
		units = l.returnToWindow(&st, period, st.At+l.spec.Period, units)
	case SlidingWindow:
		l.slide(&st, now)
		units = l.returnToWindow(&st, period, st.At-l.spec.Period, units)
	case SlidingLog:
		units = l.returnLog(&st, now, period, units)
	default:
		units = 0
	}
	return st, units
}

// Charge charges units that were admitted without asking (overdrawn), also when
// they do not fit. The debt is cut at one limit: a bucket sinks to minus its
// capacity at most, windows and logs rise to twice their count.
func (l *Limit) Charge(st State, now Micros, units int64) State {
	now, units = legalTime(now), legalUnits(units)
	switch l.spec.Algorithm {
	case TokenBucket:
		l.refill(&st, now)
		l.bucket.charge(&st, units)
	case FixedWindow:
		l.windowAt(&st, now)
		l.chargeFixed(&st, now, units)
	case SlidingWindow:
		l.slide(&st, now)
		l.chargeWindow(&st, units)
	case SlidingLog:
		l.expire(&st, now)
		l.chargeLog(&st, units)
	}
	return st
}

// Union is one counter in place of two, for keys that have to share one. It refuses what
// either of them would refuse, and perhaps more, where their windows differ or an algorithm
// counts two. For SlidingLog and Concurrency it is a.
func (l *Limit) Union(a, b State, now Micros) State {
	now = legalTime(now)
	switch l.spec.Algorithm {
	case TokenBucket:
		l.refill(&a, now)
		l.refill(&b, now)
		return State{At: max(a.At, b.At), Level: min(a.Level, b.Level), Aux: a.Aux}
	case FixedWindow:
		l.windowAt(&a, now)
		l.windowAt(&b, now)
	case SlidingWindow:
		l.slide(&a, now)
		l.slide(&b, now)
	default:
		return a
	}
	return State{At: max(a.At, b.At), Level: max(a.Level, b.Level), Aux: max(a.Aux, b.Aux)}
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
	ms := legalTime(now) / Millisecond
	return (ms + Micros(int32(id-uint32(ms)))) * Millisecond
}

// left is what is there for the ask of so many units that remain.
func (a *Ask) left(remaining int64) int64 { return max(0, remaining-a.Withheld) }

// size is how much an ask gets whose need fits into remaining.
func (a *Ask) size(remaining int64) int64 {
	granted := a.Waiting
	if a.Want > a.Waiting {
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

func legalTime(t Micros) Micros { return min(max(t, 1), maxNow) }

// debited adds units to what is charged, up to ceiling; what is already above
// (the count was lowered) stays.
func debited(charged, units, ceiling int64) int64 {
	return max(charged, min(charged+units, ceiling))
}

func ceilDiv[T ~int64](a, b T) T { return (a + b - 1) / b }
