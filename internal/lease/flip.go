package lease

// RenewAt is when to look again whether to ask behind, though no request comes: for a far relay
// that is in use a lot ends, or the window, or next to none is left and the pause ends. Never if
// none of these will.
func (r *Relay) RenewAt(t *Terms, now Millis) Millis {
	at, a := Never, &r.Account
	if !t.Far || a.Spent+a.Denied == 0 {
		return at
	}
	if now < r.askAt && r.lasting(t, r.askAt) <= r.reserve(t) {
		at = r.askAt
	}
	if t.Lead > 0 && now < r.aheadAt(t) && r.aheadAt(t) < a.Reset && !r.holdsNext(now) {
		at = min(at, r.aheadAt(t))
	}
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) {
			if until := r.lastsUntil(t, now, lot); until >= now {
				at = min(at, until+1)
			}
		}
	}
	return at
}

// Next is how long until a lease of the next window begins, and how many units it has, if that is sooner
// than an ask for the running one would be answered far above; 0: it is not.
func (r *Relay) Next(t *Terms, now Millis) (in Millis, units int64) {
	for i := range r.Account.Lots {
		if in := r.Account.Lots[i].From - now; t.Far && r.Account.Lots[i].Units > 0 && in > 0 && in <= r.trip {
			return in, r.Account.Lots[i].Units
		}
	}
	return 0, 0
}

// lasting is how many units a far relay can admit when an ask sent now is answered.
func (r *Relay) lasting(t *Terms, now Millis) int64 {
	units := r.Account.Available(now)
	for i := range r.Account.Lots {
		if lot := &r.Account.Lots[i]; lot.spendable(now) && now > r.lastsUntil(t, now, lot) {
			units -= lot.Units
		}
	}
	return units
}

// lastsUntil is until when an ask of a far relay is answered before the lot ends, with the part of
// its ttl to spare that leases are cut from.
func (r *Relay) lastsUntil(t *Terms, now Millis, lot *Lot) Millis {
	if r.endsWithWindow(t, now, lot) {
		return Never
	}
	return lot.Expiry - quartersToCut*lot.TTL/4 - 5*r.trip/4
}

// endsWithWindow reports whether the window of a lot ends when the lot does. That end
// is known to within a trip.
func (r *Relay) endsWithWindow(t *Terms, now Millis, lot *Lot) bool {
	return t.Window > 0 && now < r.Account.Reset && lot.Expiry >= r.Account.Reset-r.trip-2
}

// close closes the gap at a flip far below: a lease of the running window lasts until one of the next
// begins. By its ttl it would end as much earlier as a trip to the granter takes, and the
// requests of that time would wait.
func (r *Relay) close(t *Terms, now Millis) {
	for i := range r.Account.Lots {
		old, young := &r.Account.Lots[i], &r.Account.Lots[1-i]
		if old.spendable(now) && r.follows(t, now, old, young) {
			old.Expiry = max(old.Expiry, young.From)
		}
	}
}

// closed is when a lease ends that a reply brings, given when it ends by its ttl: see close. Where it
// travels long that may be over.
func (r *Relay) closed(t *Terms, now, ends Millis, g Grant) Millis {
	for i := range r.Account.Lots {
		if next := &r.Account.Lots[i]; t.Far && g.StartsIn == 0 && r.follows(t, now, &Lot{Expiry: ends}, next) {
			return max(ends, next.From)
		}
	}
	return ends
}

// follows reports whether next is a lease of the window that begins when the one of lot ends, but for
// the gap of a trip. A larger gap is not that: a clock has stepped.
func (r *Relay) follows(t *Terms, now Millis, lot, next *Lot) bool {
	return next.Units > 0 && next.From > now && r.endsWithWindow(t, now, lot) && next.From-lot.Expiry <= longestTrip
}
