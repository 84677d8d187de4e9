package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// RenewAt is when the owner of a cross-region relay calls Prefetch again if no request comes: when a lot or the
// window ends, or when the pause ends and next to no units are left. It is [lease.Never] if none of these will
// happen.
func (r *Relay) RenewAt(t *lease.Terms, now lease.Millis) lease.Millis {
	at, a := lease.Never, &r.Holder
	if !t.Aggregator || a.Spent+a.Denied == 0 {
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

// lasting is how many units a cross-region relay can still grant when an ask that is sent now is answered.
func (r *Relay) lasting(t *lease.Terms, now lease.Millis) int64 {
	units := r.Holder.Available(now)
	for i := range r.Holder.Leases {
		if lot := &r.Holder.Leases[i]; lot.Spendable(now) && now > r.lastsUntil(t, now, lot) {
			units -= lot.Units
		}
	}
	return units
}

// lastsUntil is the last time at which a cross-region relay can ask and is answered before the lot ends. It leaves
// the part of the ttl that a lease cut from the lot must still have.
func (r *Relay) lastsUntil(t *lease.Terms, now lease.Millis, lot *holder.Lease) lease.Millis {
	if r.endsWithWindow(t, now, lot) {
		return lease.Never
	}
	return lot.Expiry - quartersToCut*lot.TTL/4 - 5*r.trip/4
}

// endsWithWindow reports whether a lot ends with its window, whose end is known to within a round trip.
func (r *Relay) endsWithWindow(t *lease.Terms, now lease.Millis, lot *holder.Lease) bool {
	return t.Window > 0 && now < r.Holder.Reset && lot.Expiry >= r.Holder.Reset-r.trip-2
}

// close prolongs a lease of the running window of a cross-region relay until its lease of the next window begins. By
// its ttl it would end one trip to the granter earlier, and the requests of that time would wait.
func (r *Relay) close(t *lease.Terms, now lease.Millis) {
	for i := range r.Holder.Leases {
		old, young := &r.Holder.Leases[i], &r.Holder.Leases[1-i]
		if old.Spendable(now) && r.follows(t, now, old, young) {
			old.Expiry = max(old.Expiry, young.From)
		}
	}
}

// closed is [Relay.close] for a lease in a reply that ends at ends by its ttl. That time may be over when the reply
// arrives.
func (r *Relay) closed(t *lease.Terms, now, ends lease.Millis, g lease.Grant) lease.Millis {
	for i := range r.Holder.Leases {
		if next := &r.Holder.Leases[i]; t.Aggregator && g.StartsIn == 0 && r.follows(t, now, &holder.Lease{Expiry: ends}, next) {
			return max(ends, next.From)
		}
	}
	return ends
}

// follows reports whether next is a lease of the window after that of lot. A gap of more than a trip between them
// means that a clock has stepped.
func (r *Relay) follows(t *lease.Terms, now lease.Millis, lot, next *holder.Lease) bool {
	return next.Units > 0 && next.From > now && r.endsWithWindow(t, now, lot) && next.From-lot.Expiry <= lease.LongestTrip
}
