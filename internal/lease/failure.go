package lease

// Remembered reports whether a request stays refused while nobody answers: its need
// was denied, or any request was refused and this one costs more than the last reply
// left, less what has been admitted without a lease. What the slot holds counts: the
// tier above would have had to add the rest alone. It ends when the counter above
// is as good as new: who is refused by mistake is refused until Reset at most.
func (s *Account) Remembered(now Millis, cost int64) bool {
	if now >= s.Reset {
		return false
	}
	missing := cost - s.Available(now)
	return s.DeniedNeed > 0 && missing >= s.DeniedNeed || s.Refused && missing > max(0, s.Left-s.Overdrawn)
}

// TakeLocal decides a request by the holder's own share of the limit, for as long
// as the tier above does not answer: share units until ends, the end of the
// window on the holder's clock. What it admits counts as overdrawn and is
// reported when the tier above answers again.
func (s *Account) TakeLocal(t *Terms, now, ends Millis, share, cost int64) bool {
	lot := s.local(now)
	if lot == nil {
		lot = &s.Lots[max(s.place(now), 0)] // what it held is lost: nobody answers
		*lot = Lot{Units: share, Expiry: ends, Local: true}
	}
	if lot.Units < cost {
		s.Denied += cost
		return false
	}
	lot.Units -= cost
	s.Overdraw(t, cost)
	return true
}

// Overdraw admits a request that no lease covers, to be reported when the tier
// above answers again: at most one limit, however long that takes. An optimistic
// holder may owe more already.
func (s *Account) Overdraw(t *Terms, cost int64) {
	s.Overdrawn += min(cost, max(0, t.Capacity-s.Overdrawn))
	s.Spent += cost
}

// local finds the share of the running window, spent or not. It is kept when the
// tier above answers again, so that one that comes and goes does not renew it
// within a window; only a lease that needs its place ends it.
func (s *Account) local(now Millis) *Lot {
	for i := range s.Lots {
		if s.Lots[i].sharing(now) {
			return &s.Lots[i]
		}
	}
	return nil
}

// Share is the part of a limit that one of holders holders enforces on its own,
// rounded up. Fewer than one holder counts as one.
func Share(count int64, holders int) int64 {
	n := int64(max(holders, 1))
	return (count + n - 1) / n
}
