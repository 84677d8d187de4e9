package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// quartersToCut is how many quarters of its ttl a lot must have left for leases to be cut
// from it. With less the relay asks above, and uses the lot if that grants nothing. Where
// that is far a short lease is better than to wait: the relay asks behind.
const quartersToCut = 1

// cut grants a child part of one lot: of the older one that has what it needs and at least so many quarters of its time
// left, and covers all requests that wait unless nothing is left above. Where neither has enough, both together may, if
// their units go back to the same lease.
func (r *Relay) cut(t *lease.Terms, now lease.Millis, w lease.Want, quarters lease.Millis) (lease.Grant, bool) {
	switch {
	case t.Consistency == lease.Exact:
		return lease.Grant{}, false
	case t.Far && !w.Next:
		return r.cutFar(t, now, w, quarters)
	}
	units := w.Need
	if w.Waiting > w.Need && quarters > 0 && !r.Holder.Refuses(t, now, 1) {
		units = w.Waiting
	}
	var both int64
	lots := 0
	rest := lease.Never
	for i := range r.Holder.Leases {
		lot := &r.Holder.Leases[i]
		lasts := lot.Expiry - now - 1 // now is rounded down
		least := max(1, quarters*lot.TTL/4)
		if lot.Local || lot.Units == 0 || (lot.From > now) != w.Next || lasts < least {
			continue
		}
		lots++
		both, rest = both+lot.Units, min(rest, lasts)
		if lot.Units < max(units, 1) {
			continue
		}
		share := lot.Units
		if n := max(r.askers.Count(), 1); !t.Refills {
			need := min(r.during(t.Interval), lot.Units) // to halve small lots again and again costs calls
			share = max(share/(2*n), need/n)
		}
		granted := min(w.Want, lot.Units, max(w.Waiting, share))
		if granted > 0 {
			if granted < w.Want && !t.Refills { // lots are too small
				r.Holder.Grow()
			}
			lot.Units -= granted
			return r.granted(t, now, granted, lot, lasts), true
		}
	}
	old, young := &r.Holder.Leases[0], &r.Holder.Leases[1]
	if lots < 2 || w.Need == 0 || both < units || old.Lease != young.Lease {
		return lease.Grant{}, false
	}
	young.Units -= units - old.Units
	old.Units = 0
	return r.granted(t, now, units, young, rest), true
}

// cutFar grants a child units of both lots together, for as long as the first of them lasts: they are
// small, as the tier above is far. If they are of different leases it grants from the older one, or
// from the younger one if the older one has less than the need. A quarter stays for the other workers
// of a child. Their requests may come while this answer is on its way, and would have to wait for the
// tier above. Where children refuse requests nothing stays: each of these would come and take one
// unit.
func (r *Relay) cutFar(t *lease.Terms, now lease.Millis, w lease.Want, quarters lease.Millis) (lease.Grant, bool) {
	var lots [2]*holder.Lease
	var units int64
	lasts := lease.Never
	for i := range r.Holder.Leases {
		lot := &r.Holder.Leases[i]
		rest := lot.Expiry - now - 1 // now is rounded down
		if !lot.Spendable(now) || rest < quarters*lot.TTL/4 {
			continue
		}
		if lots[0] != nil && lots[0].Lease != lot.Lease {
			if units >= max(w.Need, 1) {
				continue
			}
			lots[0], units, lasts = nil, 0, lease.Never // one grant is of one lease
		}
		lots[0], lots[1] = lot, lots[0]
		units, lasts = units+lot.Units, min(lasts, rest)
	}
	share := units
	if n := max(r.askers.Count(), 1); !t.Refills {
		share = max(units/(2*n), withMargin(r.during(t.Interval))/n)
	}
	if r.Holder.Denied == 0 {
		share = min(share, units-units/4)
	}
	granted := min(w.Want, units, max(w.Waiting, share))
	if granted < max(w.Need, 1) {
		return lease.Grant{}, false
	}
	young, old := lots[0], lots[1]
	left := granted
	if old != nil {
		left = max(0, granted-old.Units)
		old.Units -= granted - left
	}
	young.Units -= left
	return r.granted(t, now, granted, young, lasts), true
}

// granted is the grant of units that were cut from a lot, for so long.
func (r *Relay) granted(t *lease.Terms, now lease.Millis, units int64, lot *holder.Lease, lasts lease.Millis) lease.Grant {
	r.Holder.Spent = lease.Sum(r.Holder.Spent, units)
	if r.Holder.Available(now) == 0 {
		r.Holder.Grow()
	}
	r.lend(t, now, lot.Lease, units, now+lasts)
	g := r.report(t, now)
	g.Granted, g.Lease, g.TTL, g.StartsIn = units, lot.Lease, lasts, max(0, lot.From-now)
	if g.Remaining == 0 && g.StartsIn == 0 {
		g.RetryAfter = r.Holder.Retry(t, now, 1)
	}
	return g
}
