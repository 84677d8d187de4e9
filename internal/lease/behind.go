package lease

// askBehind decides whether to ask while no request waits: a quarter of the newest
// lease or less is left, or the window ends soon and none of the next is held. What is left
// must last for the trip of that ask and of a top-up after it.
func (a *Account) askBehind(t *Terms, now Millis) Asks {
	ending := a.ending(t, now)
	switch {
	case a.UnderWay(t, now) || a.Back.Off(now):
		return NoAsk
	case t.Far && a.Rate+a.Spent+a.Denied == 0: // not in use: each reply would bring the next ask
		return NoAsk
	case now < a.NextAsk && ending && now >= a.aheadAt(t):
		return Ahead
	case now < a.NextAsk:
		return NoAsk
	}
	available := a.lasting(t, now)
	low := 4*available <= a.Size || available <= a.reserve(t)
	rest := a.Reset - now
	if t.Far && t.Lead > 0 && rest > 0 && rest <= 2*a.trip { // no second ask is answered before the flip
		low = rest > a.trip && available <= unevenly(a.during(rest))
	}
	switch {
	case ending && (t.Far && rest <= a.trip || !low && available > 5*a.soon(t)/2 || now < a.LimitedUntil):
		return Ahead
	case low, ending:
		return TopUp
	}
	return NoAsk
}

// ending reports whether the window ends soon and none of the next is held.
func (a *Account) ending(t *Terms, now Millis) bool {
	return t.Lead > 0 && a.Reset > now && now >= a.leadAt(t) && !a.holdsNext(t, now)
}

// leadAt is from when the next window is asked for.
func (a *Account) leadAt(t *Terms) Millis { return a.Reset - min(t.Lead, 2*(t.Interval+a.trip)) }

// aheadAt is from when a far holder asks for the next window, though it pauses with others: what
// denied it is over then. If that ask is denied too, the next is sent when it is answered and half a
// pause is over.
func (a *Account) aheadAt(t *Terms) Millis {
	if !t.Far || a.DeniedNeed == 0 {
		return max(a.leadAt(t), a.NextAsk)
	}
	return max(a.leadAt(t), a.Asked+a.FarPause(t)/2)
}

// AskAlong decides what to ask for when a report is due. Where the tier above is
// far, the next ask would have to wait for its reply.
func (a *Account) AskAlong(t *Terms, now Millis) Asks {
	switch {
	case !t.Far || t.Consistency == Exact || a.Spent == 0 || now < a.NextAsk:
		return NoAsk
	case a.ending(t, now):
		return Ahead
	case a.lasting(t, now) <= a.stock(t):
		return TopUp
	}
	return NoAsk
}

// RenewAt is when to look again whether to ask behind, though no request comes: for an account
// that is in use a lot ends, or the window, or next to none is left and the pause ends. Never if
// none of these will.
func (a *Account) RenewAt(t *Terms, now Millis) Millis {
	at := Never
	if !t.Far || a.Spent+a.Denied == 0 {
		return at
	}
	if now < a.NextAsk && a.lasting(t, a.NextAsk) <= a.reserve(t) {
		at = a.NextAsk
	}
	if t.Lead > 0 && now < a.aheadAt(t) && a.aheadAt(t) < a.Reset && !a.holdsNext(t, now) {
		at = min(at, a.aheadAt(t))
	}
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) {
			if until := a.lastsUntil(t, now, lot); until >= now {
				at = min(at, until+1)
			}
		}
	}
	return at
}

// Next is how long until a lease of the next window begins, and how many units it has, if that is sooner
// than an ask for the running one would be answered far above; 0: it is not.
func (a *Account) Next(t *Terms, now Millis) (in Millis, units int64) {
	for i := range a.Lots {
		if in := a.Lots[i].From - now; t.Far && a.Lots[i].Units > 0 && in > 0 && in <= a.trip {
			return in, a.Lots[i].Units
		}
	}
	return 0, 0
}

// lasting is how many units the account can admit when an ask sent now is answered. For a
// near granter it is how many it can admit now.
func (a *Account) lasting(t *Terms, now Millis) int64 {
	units := a.Available(now)
	if !t.Far {
		return units
	}
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) && now > a.lastsUntil(t, now, lot) {
			units -= lot.Units
		}
	}
	return units
}

// lastsUntil is until when an ask of a far relay is answered before the lot ends, with the part of
// its ttl to spare that leases are cut from.
func (a *Account) lastsUntil(t *Terms, now Millis, lot *Lot) Millis {
	if a.endsWithWindow(t, now, lot) {
		return Never
	}
	return lot.Expiry - quartersToCut*lot.TTL/4 - 5*a.trip/4
}

// holdsNext reports a lease on a window that has not begun, or no room for one. A far holder
// makes room.
func (a *Account) holdsNext(t *Terms, now Millis) bool {
	old, young := &a.Lots[0], &a.Lots[1]
	return !t.Far && old.Units > 0 && young.Units > 0 || old.Units > 0 && old.From > now || young.Units > 0 && young.From > now
}

// endsWithWindow reports whether the window of a lot ends when the lot does. That end
// is known to within a trip.
func (a *Account) endsWithWindow(t *Terms, now Millis, lot *Lot) bool {
	return t.Window > 0 && now < a.Reset && lot.Expiry >= a.Reset-a.trip-2
}

// close closes the gap at a flip: a lease of the running window lasts until one of the next
// begins. By its ttl it would end as much earlier as a trip to the granter takes, and the
// requests of that time would wait.
func (a *Account) close(t *Terms, now Millis) {
	for i := range a.Lots {
		old, young := &a.Lots[i], &a.Lots[1-i]
		if old.spendable(now) && a.follows(t, now, old, young) {
			old.Expiry = max(old.Expiry, young.From)
		}
	}
}

// closed is when a lease ends that a reply brings, given when it ends by its ttl: see close. Where it
// travels long that may be over.
func (a *Account) closed(t *Terms, now, ends Millis, g Grant) Millis {
	for i := range a.Lots {
		if next := &a.Lots[i]; t.Far && g.StartsIn == 0 && a.follows(t, now, &Lot{Expiry: ends}, next) {
			return max(ends, next.From)
		}
	}
	return ends
}

// follows reports whether next is a lease of the window that begins when the one of lot ends, but for
// the gap of a trip. A larger gap is not that: a clock has stepped.
func (a *Account) follows(t *Terms, now Millis, lot, next *Lot) bool {
	return next.Units > 0 && next.From > now && a.endsWithWindow(t, now, lot) && next.From-lot.Expiry <= longestTrip
}
