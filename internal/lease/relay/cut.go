package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// quartersToCut is how many quarters of its ttl a lot must have left for leases to be cut
// from it. With less the relay asks its granter, and uses the lot if that grants nothing. Where
// that is far a short lease is better than to wait: the relay asks behind.
const quartersToCut = 1

// cut grants a child a part of the lots that last for at least so many quarters of their time. Two lots of the same lease
// are one, for as long as the first of them lasts. Of two leases the older one is used if it has enough.
func (r *Relay) cut(t *lease.Terms, now lease.Millis, w lease.Want, quarters lease.Millis) (lease.Grant, bool) {
	if t.Consistency == lease.Exact {
		return lease.Grant{}, false
	}
	least := r.least(t, now, w, quarters)
	var lots [2]*holder.Lease // the younger one first
	var units int64
	lasts := lease.Never
	for i := range r.Holder.Leases {
		lot := &r.Holder.Leases[i]
		rest := lot.Expiry - now - 1 // now is rounded down
		if lot.Local || lot.Units == 0 || (lot.From > now) != w.Next || rest < max(1, quarters*lot.TTL/4) {
			continue
		}
		if lots[0] != nil && lots[0].Lease != lot.Lease {
			if units >= least {
				continue
			}
			lots[0], units, lasts = nil, 0, lease.Never // one grant is of one lease
		}
		lots[0], lots[1] = lot, lots[0]
		units, lasts = units+lot.Units, min(lasts, rest)
	}
	granted := min(w.Want, units, max(w.Waiting, r.share(t, units)))
	if granted < least {
		return lease.Grant{}, false
	}
	if granted < w.Want && !t.Refills && !t.Aggregator { // lots are too small
		r.Holder.Grow()
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

// least is how many units a grant to a want has at least: its need, or all that waits if more may be left at the granter and the
// answer is near. The child would reject the others.
func (r *Relay) least(t *lease.Terms, now lease.Millis, w lease.Want, quarters lease.Millis) int64 {
	if w.Waiting > w.Need && quarters > 0 && !t.Aggregator && !r.Holder.Rejects(t, now, 1) {
		return w.Waiting
	}
	return max(w.Need, 1)
}

// share is how many of so many units one child gets without a request that waits: half of its part, or its part of what
// requests need in a lease interval if that is more. Of a bucket it is all. If the granter is far, a quarter stays for
// the other workers of a child: their requests may come while the answer is on its way, and would wait for a round trip.
// Where children reject requests nothing stays, because each of these would come and take one unit.
func (r *Relay) share(t *lease.Terms, units int64) int64 {
	share, soon := units, min(r.during(t.Interval), units)
	if t.Aggregator {
		soon = withMargin(r.during(t.Interval))
	}
	if n := max(r.askers.Count(), 1); !t.Refills {
		share = max(units/(2*n), soon/n) // to halve small lots again and again costs calls
	}
	if t.Aggregator && r.Holder.Denied == 0 {
		share = min(share, units-units/4)
	}
	return share
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
