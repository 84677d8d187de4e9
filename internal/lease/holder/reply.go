package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// Apply takes the reply to want w, which was sent at sent. The unused units of g.Granted, which no waiting request took,
// become a lot. jitter is a factor in percent, 90 to 110, that keeps holders from asking in step.
// The caller gives the returned units, for which there is no room, back before the next ask of this account.
func (a *State) Apply(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant, unused int64, jitter lease.Percent) Part {
	if w.Want > 0 {
		a.Asking = false
	}
	if !a.Back.replied(t, now, g.Status, jitter) {
		a.Phase = PhaseNone
		return Part{}
	}
	a.paid(w, g)
	if g.StartsIn == 0 {
		a.learn(t, now, w, g)
	}
	if w.Want == 0 {
		return Part{}
	}
	a.follow(t, now, w, g)
	a.learnRetry(now, &w, &g)
	a.penalize(t, now, w, g)
	rest := Part{Units: unused, Lease: g.Lease, Expiry: sent + g.TTL}
	if g.Granted == 0 || t.Consistency == lease.Exact {
		return a.returned(t, rest)
	}
	a.Size = g.Granted
	a.Spent = lease.Sum(a.Spent, g.Granted-unused)
	if unused == 0 {
		a.Grow()
		return Part{}
	}
	if t.SpentAtOnce(w, g) {
		return a.returned(t, rest)
	}
	lot := Lease{Units: unused, Expiry: rest.Expiry, TTL: g.TTL, Lease: g.Lease}
	if g.StartsIn > 0 {
		lot.From = now + 1 + g.StartsIn // now is rounded down
	}
	return a.returned(t, a.store(now, lot))
}

// learn takes the state of the granter's counter from a reply. Rejected becomes true if waiting requests get nothing. It
// becomes false when at least half of the limit is left, or when the counter has begun anew.
func (a *State) learn(t *lease.Terms, now lease.Millis, w lease.Want, g lease.Grant) {
	if t.ChargesRejected && !a.owesPenalty(t, now) { // they belong to a window that is over
		a.Denied = 0
	}
	decided := g.Granted > 0 || g.Status == lease.Denied
	rejected := decided && g.Granted < w.Waiting || a.Rejected && now < a.Reset
	a.Rejected = rejected && 2*g.Remaining < t.Capacity
	left := g.Remaining
	if t.Consistency == lease.Optimistic && t.Window > 0 && now < a.Reset { // an older reply may come after a newer one
		left = min(left, a.Left)
	}
	a.Left, a.OwnLimit = left, t.OwnLimit(&g)
	if g.Reset > 0 || now < a.Reset { // otherwise the reply only shows that the window is over
		a.Reset = now + g.Reset
	}
	if a.Least > 0 { // units have come back since the denial
		a.Least = max(a.Least, g.Remaining+1)
	}
}

// returned adds units that go back to the units that the granter has left. An optimistic holder does not add them, because it
// overdraws by Left.
func (a *State) returned(t *lease.Terms, p Part) Part {
	if p.Units > 0 && t.Consistency != lease.Optimistic {
		a.Left += p.Units
		if a.Least > 0 {
			a.Least += p.Units
		}
	}
	return p
}

// store puts a new lot behind the older one. It returns the units for which there is no place: those of a third lease, or of
// a lease that ended on its way to the holder.
func (a *State) store(now lease.Millis, lot Lease) Part {
	i := a.Place(now)
	if i < 0 || now >= lot.Expiry {
		return lot.Part()
	}
	old := a.Leases[i]
	if i == 0 {
		a.Leases[0] = a.Leases[1]
	}
	a.Leases[1] = lot
	if old.Local {
		return Part{}
	}
	return old.Part()
}

// Place is the index of the lot to replace, or -1: an empty lot, otherwise a lapsed one, otherwise the holder's own share,
// which is not needed when a lease arrives.
func (a *State) Place(now lease.Millis) int {
	place, best := -1, 3
	for i := range a.Leases {
		rank := 3
		switch lot := &a.Leases[i]; {
		case lot.Units == 0 && !lot.Sharing(now):
			rank = 0
		case now >= lot.Expiry:
			rank = 1
		case lot.Local:
			rank = 2
		}
		if rank < best {
			place, best = i, rank
		}
	}
	return place
}

// ApplyGroupDenied takes the reply to an ask of a group in which another want was denied: this want was neither granted
// nor denied. The next request of an exact rule may ask.
func (a *State) ApplyGroupDenied(t *lease.Terms, now, sent lease.Millis, w lease.Want, g lease.Grant) {
	a.Asking = false
	a.Apply(t, now, sent, lease.Want{Overdrawn: w.Overdrawn, Debt: w.Debt}, g, 0, 100)
	if t.Consistency == lease.Exact && a.Phase == PhaseDenied {
		a.Ends = min(a.Ends, now)
	}
}
