package limit

// Sliding log.
//
// Every charge is remembered with its time; n more are admitted at t if the
// charges in (t-period, t] leave room for them.
//
// A grant ahead of what waits is spent at some time until its lease ends, so it
// is one entry at that end: an entry counts from the moment it is made, also
// while its time lies ahead, until a period after its time. Whenever in its lease
// a unit was spent, it is counted for the whole period from then on.
//
// Bound. In any trailing window of one period at most count units are admitted,
// leases included. Under saturation the count is used up, less what leases keep
// charged after their units were spent: at most ttl/period, and the ttl is cut to
// a fiftieth of the period.
//
// Cost. Entries hold running sums, so that finding what has expired, and when
// enough will have, are binary searches, and expired entries are dropped by
// counting them as over. New entries go in from the back: they pass only the entries whose
// time lies ahead, which are the leases given out within the last ttl, some ten
// per second and holder, never the log. The dead front is reclaimed when it is
// half of the log, by moving the live half: constant time per entry. Units that
// come back move the entries after theirs, again those of about one ttl. An entry
// takes 16 bytes, and there are at most count of them, twice that with
// charge_rejected or overdrawn units.

// giveBack gives back to the oldest entries within the period's millisecond,
// which is all that a lease carries. Taking from an older entry than the one that
// was charged is always safe: what stays in the log is then newer, so that at any
// later time it holds at least as much as it should.
func (st *State) giveBack(period Micros, units int64) int64 {
	from := period - period%Millisecond
	kept := st.firstAfter(from - 1)
	before, returned := st.sumBefore(kept), int64(0)
	for i := kept; i < len(st.Log); i++ {
		c := st.Log[i]
		held := c.Sum - before
		before = c.Sum
		if c.At < from+Millisecond {
			taken := min(held, units-returned)
			returned += taken
			if taken == held {
				continue
			}
		}
		if returned == 0 {
			return 0
		}
		st.Log[kept] = Charge{At: c.At, Sum: c.Sum - returned}
		kept++
	}
	st.Log = st.Log[:kept]
	st.Level -= returned
	return returned
}

// chargeLog adds an entry, up to one limit of debt.
func (l *Limit) chargeLog(st *State, units int64) {
	if units = debited(st.Level, units, 2*l.spec.Count) - st.Level; units > 0 {
		st.insert(st.At, units)
	}
}

// logRemaining is what fits now; nothing within the least interval.
func (l *Limit) logRemaining(st *State) int64 {
	if l.spec.MinInterval > 0 && st.newest()+l.spec.MinInterval > st.At {
		return 0
	}
	return max(0, l.spec.Count-st.Level)
}

// logRetry is until the entry has expired that makes enough room, and the least
// interval has passed.
func (l *Limit) logRetry(st *State, now Micros, need int64) Micros {
	if need > l.spec.Count {
		return Never
	}
	at := now
	if excess := st.Level + need - l.spec.Count; excess > 0 {
		at = st.Log[st.firstHolding(excess)].At + l.spec.Period
	}
	if l.spec.MinInterval > 0 {
		at = max(at, st.newest()+l.spec.MinInterval)
	}
	return at - now
}

func (l *Limit) logReset(st *State, now Micros) Micros {
	if st.Level == 0 {
		return 0
	}
	return st.newest() + l.spec.Period - now
}

// expire moves the log to now and drops what a trailing window no longer covers.
func (l *Limit) expire(st *State, now Micros) {
	if st.At-now > l.spec.Period { // a clock was wrong
		st.pullTo(now)
	}
	st.At = max(st.At, now)
	if head := st.firstAfter(st.At - l.spec.Period); head > st.over() {
		st.Level = st.sumBefore(len(st.Log)) - st.Log[head-1].Sum
		st.Aux = int64(head)
	}
}
