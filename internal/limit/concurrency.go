package limit

import "sort"

// Concurrency.
//
// Slots are held and given back, not spent, so the count of what is held is the
// state, and a holding lasts only until it is renewed, against leaks (Stripe,
// "Scaling your API with rate limiters", 2017, the concurrent requests limiter;
// Redis sets scored by expiry are the usual form).
//
// Holders state what they hold and want in absolute numbers, so that a repeated or
// lost call does no harm. Clients with request ids acquire, renew and release one
// holding per request instead. Both are holdings of an id in the same count.
//
// Bound. The holdings that have not run out sum up to at most count, unless the
// count was lowered below what was held already: then nothing is given until
// enough came back.

// HoldDecision is the answer of a Concurrency limit.
type HoldDecision struct {
	// Granted is how many slots the id may hold, in total, for TTL.
	Granted int64
	// Remaining is how many slots are free after this.
	Remaining int64
	// TTL is for how long, from now; 0 with Granted 0.
	TTL Micros
	// RetryAfter is 0 when what was needed was granted: the cost, or all of
	// holding and at least one slot where one is wanted. Else it is the least
	// wait after which it would be if nobody else asked, renewed or released;
	// [Never] if it is more than the limit has. A release makes it sooner.
	RetryAfter Micros
}

// Hold decides how many slots, in total, a holder may hold until the TTL. It has
// holding slots in use or reserved for requests that wait, and would like want.
//
// The slots that it uses and still holds are never taken away. Out of the free slots it gets
// what it lacks of holding, and ahead of that 1/(2*holders) of the rest, but at least
// one, so that the last slots do not idle with one holder. Both numbers 0 give
// the holding back. 0 <= holding <= want <= MaxCount; what is out of order is
// raised or cut to the nearest legal value. O(log n) for n holdings, O(n) when
// one came or went.
func (l *Limit) Hold(st Slots, now Micros, holder uint64, holding, want int64) (Slots, HoldDecision) {
	now, holding = LegalTime(now), legalUnits(holding)
	want = max(holding, legalUnits(want))
	st = l.LapseSlots(st, now)
	i, had := st.find(holder)
	kept := min(holding, had)
	free := max(0, l.spec.Count-(st.Used-had)-kept)
	granted := kept + min(free, holding-kept)
	free -= granted - kept
	if ahead := min(want-granted, free); ahead > 0 {
		holders := int64(len(st.Held))
		if had == 0 {
			holders++
		}
		granted += min(ahead, max(1, free/(2*holders)))
	}
	st = st.set(i, holder, granted, st.At+l.spec.LeaseTTL)
	return st, l.answer(st, now, holder, granted, max(holding, min(want, 1)))
}

// AcquireSlot takes cost slots for a request, all or none. An id that holds slots
// already has its holding renewed and changed to cost, so that a repeated call
// does no harm. A cost of 0 is a report. Of a key with [MaxHoldings] an id that holds
// nothing gets nothing.
func (l *Limit) AcquireSlot(st Slots, now Micros, id uint64, cost int64) (Slots, HoldDecision) {
	now, cost = LegalTime(now), legalUnits(cost)
	st = l.LapseSlots(st, now)
	i, had := st.find(id)
	granted := cost
	if cost > had && (st.Used-had+cost > l.spec.Count || had == 0 && len(st.Held) >= MaxHoldings) {
		granted = 0
	}
	if granted > 0 {
		st = st.set(i, id, granted, st.At+l.spec.LeaseTTL)
	}
	return st, l.answer(st, now, id, granted, cost)
}

// RenewSlot prolongs what a request holds. Granted is 0 if that ran out or was
// never there: the request has to acquire again.
func (l *Limit) RenewSlot(st Slots, now Micros, id uint64) (Slots, HoldDecision) {
	now = LegalTime(now)
	st = l.LapseSlots(st, now)
	i, had := st.find(id)
	st = st.set(i, id, had, st.At+l.spec.LeaseTTL)
	return st, l.answer(st, now, id, had, had)
}

// ReleaseSlot gives back what a request holds and returns how much that was: 0 if
// it ran out or was released before.
func (l *Limit) ReleaseSlot(st Slots, now Micros, id uint64) (Slots, int64) {
	st = l.LapseSlots(st, now)
	i, had := st.find(id)
	return st.set(i, id, 0, 0), had
}

// FreshSlots reports whether nothing is held at now, so that the key may be
// forgotten.
func (l *Limit) FreshSlots(st Slots, now Micros) bool {
	now = LegalTime(now)
	if st.At-now <= l.spec.LeaseTTL {
		now = max(now, st.At)
	}
	for _, h := range st.Held {
		if h.Until > now {
			return false
		}
	}
	return true
}

// answer is the decision for an id that was granted so many slots and needed need.
func (l *Limit) answer(st Slots, now Micros, id uint64, granted, need int64) HoldDecision {
	d := HoldDecision{Granted: granted, Remaining: max(0, l.spec.Count-st.Used)}
	if granted > 0 {
		d.TTL = l.spec.LeaseTTL
	}
	if granted < need {
		d.RetryAfter = l.slotsRetry(st, now, id, need)
	}
	return d
}

// slotsRetry finds the first time at which a holding has ended and the others hold so
// little that need fits, by bisection: each step is one pass over the holdings, and a ttl of 10 s
// takes 24 of them. Sorting the holdings by expiry instead would make this one
// step and every look-up of an id a pass.
func (l *Limit) slotsRetry(st Slots, now Micros, id uint64, need int64) Micros {
	if need > l.spec.Count {
		return Never
	}
	first, at := Never, st.At
	for _, h := range st.Held {
		first, at = min(first, h.Until), max(at, h.Until)
	}
	fits := func(i int) bool { return st.heldByOthers(id, first+Micros(i)) <= l.spec.Count-need }
	return first + Micros(sort.Search(int(at-first), fits)) - now
}

// LapseSlots moves to now and drops the holdings that ran out, as every other
// function does first.
func (l *Limit) LapseSlots(st Slots, now Micros) Slots {
	now = LegalTime(now)
	if st.At-now > l.spec.LeaseTTL { // a clock was wrong
		for i := range st.Held {
			st.Held[i].Until = min(st.Held[i].Until, now+l.spec.LeaseTTL)
		}
		st.At, st.Next = now, now
	}
	st.At = max(st.At, now)
	if st.At < st.Next || len(st.Held) == 0 {
		return st
	}
	held := st.Held[:0]
	st.Used, st.Next = 0, 0
	for _, h := range st.Held {
		if h.Until <= st.At {
			continue
		}
		if len(held) == 0 || h.Until < st.Next {
			st.Next = h.Until
		}
		st.Used += h.Units
		held = append(held, h)
	}
	st.Held = held
	return st
}
