package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// RenewAt is when to look again whether to ask behind, though no request comes: for a far relay
// that is in use a lot ends, or the window, or next to none is left and the pause ends. Never if
// none of these will.
func (r *Relay) RenewAt(t *lease.Terms, now lease.Millis) lease.Millis {
	at, a := lease.Never, &r.Holder
	if !t.Far || a.Spent+a.Denied == 0 {
		return at
	}
	if now < r.askAt && r.lasting(t, r.askAt) <= r.reserve(t) {
		at = r.askAt
	}
	if t.Lead > 0 && now < r.aheadAt(t) && r.aheadAt(t) < a.Reset && !r.holdsNext(now) {
		at = min(at, r.aheadAt(t))
	}
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) {
			if until := r.lastsUntil(t, now, lot); until >= now {
				at = min(at, until+1)
			}
		}
	}
	return at
}

// Next is how long until a lease of the next window begins, and how many units it has, if that is sooner
// than an ask for the running one would be answered far above; 0: it is not.
func (r *Relay) Next(t *lease.Terms, now lease.Millis) (in lease.Millis, units int64) {
	for i := range r.Holder.Leases {
		if in := r.Holder.Leases[i].From - now; t.Far && r.Holder.Leases[i].Units > 0 && in > 0 && in <= r.trip {
			return in, r.Holder.Leases[i].Units
		}
	}
	return 0, 0
}

// lasting is how many units a far relay can admit when an ask sent now is answered.
func (r *Relay) lasting(t *lease.Terms, now lease.Millis) int64 {
	units := r.Holder.Available(now)
	for i := range r.Holder.Leases {
		if lot := &r.Holder.Leases[i]; lot.Spendable(now) && now > r.lastsUntil(t, now, lot) {
			units -= lot.Units
		}
	}
	return units
}

// lastsUntil is until when an ask of a far relay is answered before the lot ends, with the part of
// its ttl to spare that leases are cut from.
func (r *Relay) lastsUntil(t *lease.Terms, now lease.Millis, lot *holder.Lease) lease.Millis {
	if r.endsWithWindow(t, now, lot) {
		return lease.Never
	}
	return lot.Expiry - quartersToCut*lot.TTL/4 - 5*r.trip/4
}

// endsWithWindow reports whether the window of a lot ends when the lot does. That end
// is known to within a trip.
func (r *Relay) endsWithWindow(t *lease.Terms, now lease.Millis, lot *holder.Lease) bool {
	return t.Window > 0 && now < r.Holder.Reset && lot.Expiry >= r.Holder.Reset-r.trip-2
}

// close closes the gap at a flip far below: a lease of the running window lasts until one of the next
// begins. By its ttl it would end as much earlier as a trip to the granter takes, and the
// requests of that time would wait.
func (r *Relay) close(t *lease.Terms, now lease.Millis) {
	for i := range r.Holder.Leases {
		old, young := &r.Holder.Leases[i], &r.Holder.Leases[1-i]
		if old.Spendable(now) && r.follows(t, now, old, young) {
			old.Expiry = max(old.Expiry, young.From)
		}
	}
}

// closed is when a lease ends that a reply brings, given when it ends by its ttl: see close. Where it
// travels long that may be over.
func (r *Relay) closed(t *lease.Terms, now, ends lease.Millis, g lease.Grant) lease.Millis {
	for i := range r.Holder.Leases {
		if next := &r.Holder.Leases[i]; t.Far && g.StartsIn == 0 && r.follows(t, now, &holder.Lease{Expiry: ends}, next) {
			return max(ends, next.From)
		}
	}
	return ends
}

// follows reports whether next is a lease of the window that begins when the one of lot ends, but for
// the gap of a trip. A larger gap is not that: a clock has stepped.
func (r *Relay) follows(t *lease.Terms, now lease.Millis, lot, next *holder.Lease) bool {
	return next.Units > 0 && next.From > now && r.endsWithWindow(t, now, lot) && next.From-lot.Expiry <= lease.LongestTrip
}
