package lease

// usageIntervals is over how many lease intervals a holder looks back at its use
// to bound what it wants.
const usageIntervals = 6

// Ask makes the want to send and notes that it is under way. need and waiting
// are the units of the cheapest and of all requests that wait for this slot, 0 when
// nobody does. Where somebody waits the slot offers what it has: it was not enough, and
// the tier above is to judge the need by what is left there and this together. What it
// gives back has left the slot when Ask returns.
func (s *Account) Ask(t *Terms, now Millis, need, waiting int64, behind Asks) Want {
	w := Want{
		Need:    need,
		Waiting: waiting,
		Want:    waiting,
		Fresh:   s.Asked == 0 || now/t.Interval != s.Asked/t.Interval,
		Next:    behind == Ahead,
	}
	s.remember(now, &w)
	w.Unused, w.Lease = s.collect(t, now, need > 0 && t.Consistency != Exact)
	w.Overdrawn, w.Debt = s.seal(now)
	if t.Consistency != Exact {
		w.Want = max(waiting, s.want(t, now))
	}
	w.Denied = s.takeDenied(t, now)
	s.Back.claim(t, now)
	s.Asked, s.Asking = now, true
	s.Spent = 0
	return w
}

// remember says what the last reply said of a counter that is not as good as new yet.
func (s *Account) remember(now Millis, w *Want) {
	if now < s.Reset {
		w.Left, w.Reset = s.Left, s.Reset-now
	}
}

// want is the slow start, bounded by what the holder used in the last six lease
// intervals (its use since the last ask, scaled) and by the floor under that. What
// it refused counts as used: a spent limit says nothing about demand, and what is
// asked ahead for the next window should last beyond the flip.
func (s *Account) want(t *Terms, now Millis) int64 {
	most := t.wantFloor()
	if s.Asked > 0 {
		since := max(now-s.Asked, t.Interval/4)
		most = max(most, (s.Spent+s.Denied)*usageIntervals*int64(t.Interval)/int64(since))
	}
	for s.WantLog2 > 0 && int64(1)<<(s.WantLog2-1) >= most {
		s.shrink()
	}
	return min(int64(1)<<s.WantLog2, most)
}

// collect takes lapsed units out of the slot, of one lease at a time. With offer it takes
// those that may still be spent as well, and first: a lease that does not last for the
// next request is too small, one that lapses too large.
func (s *Account) collect(t *Terms, now Millis, offer bool) (units int64, lease uint32) {
	first := -1
	for i := range s.Lots {
		if offer && s.Lots[i].spendable(now) && (first < 0 || s.Lots[i].Units > s.Lots[first].Units) {
			first = i
		}
	}
	if first >= 0 {
		lease = s.Lots[first].Lease
		s.grow()
	}
	for i := range s.Lots {
		lot := &s.Lots[i]
		lapsed := lot.lapsed(now)
		if !lapsed && (first < 0 || !lot.spendable(now)) || (first >= 0 || units > 0) && lot.Lease != lease {
			continue
		}
		if lapsed && 2*lot.Units > s.Size {
			s.shrink()
		}
		units, lease = units+lot.Units, lot.Lease
		lot.Units = 0
	}
	s.returned(t, Part{Units: units})
	return units, lease
}

// Report makes a want that only tells what an idle slot still has to tell: units
// to give back, overdrawn units. False when there is nothing, or asks fail.
func (s *Account) Report(t *Terms, now Millis) (Want, bool) {
	if s.Back.Off(now) {
		return Want{}, false
	}
	var w Want
	s.remember(now, &w)
	some := s.Overdrawn > 0 || s.owesPenalty(t, now)
	w.Denied = s.takeDenied(t, now)
	w.Unused, w.Lease = s.collect(t, now, false)
	w.Overdrawn, w.Debt = s.seal(now)
	some = some || w.Unused > 0
	if some {
		s.Back.claim(t, now)
	}
	return w, some
}

// Apply takes the reply to want w, which was sent at sent. spare is what of
// g.Granted the requests that waited did not use; it becomes a lot. jitter is a
// factor in percent, 90 to 110, that keeps holders from asking in step.
// The units it returns found no room and are to be given back: the slot counts on that
// they are above before its next ask.
func (s *Account) Apply(t *Terms, now, sent Millis, w Want, g Grant, spare int64, jitter Millis) Part {
	if w.Want > 0 {
		s.Asking = false
	}
	if !s.Back.heard(t, now, g.Status, jitter) {
		return Part{}
	}
	s.paid(w, g)
	if g.StartsIn == 0 {
		s.learn(t, now, w, g)
	}
	if w.Want == 0 {
		return Part{}
	}
	s.pause(t, now, sent, w, g, jitter)
	s.limited(t, now, g)
	s.learnRetry(now, &g)
	s.penalize(t, now, w, g)
	if g.Granted == 0 || t.Consistency == Exact {
		return s.returned(t, Part{Units: spare, Lease: g.Lease, Expiry: sent + g.TTL})
	}
	s.Size = g.Granted
	s.Spent += g.Granted - spare
	if spare == 0 {
		s.grow()
		return Part{}
	}
	lot := Lot{Units: spare, From: startOf(now, g), Expiry: sent + g.TTL, TTL: g.TTL, Lease: g.Lease}
	return s.returned(t, s.store(now, lot))
}

// learn notes what a reply says of the counter above. Requests that waited and get
// nothing are refused; what was refused before stays so until much is left, or the
// counter has started anew since.
func (s *Account) learn(t *Terms, now Millis, w Want, g Grant) {
	decided := g.Granted > 0 || g.Status == Denied
	refused := decided && g.Granted < w.Waiting || s.Refused && now < s.Reset
	s.Refused = refused && 2*g.Remaining < t.Capacity
	s.Left = g.Remaining
	if g.Reset > 0 || now < s.Reset { // else it does not know more than that the window is over
		s.Reset = now + g.Reset
	}
	if g.Remaining > 0 {
		s.LimitedUntil = 0
	}
	if s.DeniedNeed > 0 { // what came back there since is not denied any more
		s.DeniedNeed = max(s.DeniedNeed, g.Remaining+1)
	}
}

// returned notes units that are given back: so much more will be left above. An
// Optimistic holder overdraws by what is left there for sure.
func (s *Account) returned(t *Terms, p Part) Part {
	if p.Units > 0 && t.Consistency != Optimistic {
		s.Left += p.Units
		s.LimitedUntil = 0
		if s.DeniedNeed > 0 {
			s.DeniedNeed += p.Units
		}
	}
	return p
}

// pause sets when the holder may ask again. A denial tells what is left: less
// than that may still be asked for. A grant ends a denial unless what was denied
// would be again; one of the next window does not, nor the empty one whose group
// was denied elsewhere.
func (s *Account) pause(t *Terms, now, sent Millis, w Want, g Grant, jitter Millis) {
	switch {
	case g.Status == Denied:
		s.DeniedNeed = g.Remaining + 1
		if w.Need > 0 {
			s.DeniedNeed = min(s.DeniedNeed, w.Need)
		}
		s.NextAsk = max(s.NextAsk, now+g.AskAfter)
	case g.StartsIn > 0 && s.DeniedNeed > 0:
		s.NextAsk = now + 1 + g.StartsIn
	case g.Granted > 0 && now < s.NextAsk && g.Remaining < s.DeniedNeed:
		s.DeniedNeed = g.Remaining + 1
	case g.Granted > 0:
		s.DeniedNeed, s.NextAsk = 0, 0
	}
	scarce := g.Granted < w.Want && g.Remaining < t.wantFloor()
	if t.Pace > 0 && scarce && t.Consistency != Exact {
		s.NextAsk = max(s.NextAsk, sent+max(t.Pace*jitter/100, 1))
	}
}

// limited sets until when requests are refused that find nothing: for two lease
// intervals after a reply that left nothing, and after a denial for long enough
// that the next ask goes behind a refused request, not before a waiting one, but
// never past the time at which the limit will have something again.
func (s *Account) limited(t *Terms, now Millis, g Grant) {
	if g.StartsIn > 0 || g.Remaining > 0 { // see learn
		return
	}
	s.LimitedUntil = now + 2*t.Interval
	if g.Status == Denied {
		s.LimitedUntil = max(s.LimitedUntil, min(s.NextAsk+t.Interval, now+g.RetryAfter))
	}
	if !t.Refills {
		s.LimitedUntil = min(s.LimitedUntil, s.Reset)
	}
}

// startOf is when the units of a grant that arrived at now may be spent: one
// more, because now is rounded down.
func startOf(now Millis, g Grant) Millis {
	if g.StartsIn == 0 {
		return 0
	}
	return now + 1 + g.StartsIn
}

// store puts a new lot behind the older one. It returns the units of whichever
// lot has no place: a third lease, or one that ended on its way here.
func (s *Account) store(now Millis, lot Lot) Part {
	if now >= lot.Expiry {
		return lot.part()
	}
	i := s.place(now)
	if i < 0 {
		return lot.part()
	}
	old := s.Lots[i]
	if i == 0 {
		s.Lots[0] = s.Lots[1]
	}
	s.Lots[1] = lot
	if old.Local {
		return Part{}
	}
	return old.part()
}

// place is the lot that matters least, -1 if all do: an empty one before one that
// has lapsed, and these before a share of the holder's own, which the lease that
// came instead makes needless.
func (s *Account) place(now Millis) int {
	for i := range s.Lots {
		if s.Lots[i].Units == 0 && !s.Lots[i].sharing(now) {
			return i
		}
	}
	for i := range s.Lots {
		if now >= s.Lots[i].Expiry {
			return i
		}
	}
	for i := range s.Lots {
		if s.Lots[i].Local {
			return i
		}
	}
	return -1
}

// Idle reports that the slot says nothing that a new one would not: it may be
// forgotten. No units out, nothing to report, no denial that still stands.
func (s *Account) Idle(t *Terms, now Millis) bool {
	return s.Lots[0].idle(now) && s.Lots[1].idle(now) && s.Overdrawn == 0 &&
		!s.underWay(t, now) && now >= s.NextAsk && now >= s.LimitedUntil &&
		(s.DeniedNeed == 0 && !s.Refused || now >= s.Reset) &&
		!s.Sealed.Matters(now) && !s.Back.Matters(now) && !s.owesPenalty(t, now)
}

// PassOver takes the reply to an ask of a group that another of its wants denied:
// nothing was granted, and it is no denial either. What is left above may end one.
func (s *Account) PassOver(t *Terms, now, sent Millis, w Want, g Grant) {
	s.Asking = false
	s.Apply(t, now, sent, Want{Overdrawn: w.Overdrawn}, g, 0, 100)
	switch {
	case s.fits(g):
		s.DeniedNeed, s.NextAsk = 0, 0
	case t.Consistency == Exact: // it was not looked at: the next request may ask
		s.NextAsk = min(s.NextAsk, now)
	}
}

// fits reports whether what a reply left above is enough for what was denied.
func (s *Account) fits(g Grant) bool { return s.DeniedNeed > 0 && g.Remaining >= s.DeniedNeed }

// Freed takes the reply to a want that gave back what others held, and asked for nothing:
// who was denied for want of it may ask again.
func (s *Account) Freed(g Grant) {
	if s.fits(g) {
		s.DeniedNeed, s.NextAsk, s.LimitedUntil = 0, 0, 0
	}
}
