package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Lease is a lot of granted units. Lots of different leases are never merged, because a top-up must not prolong older units.
type Lease struct {
	Units  int64        // unspent; 0: the lot is empty, and the other fields have no meaning
	From   lease.Millis // when the units may first be spent; 0: at once
	Expiry lease.Millis // when they may no longer be spent
	TTL    lease.Millis // the duration of the grant; only a relay reads it
	Lease  uint32       // the lease to which unspent units go back
	Local  bool         // not a lease but the holder's own share, see [State.takeLocal]
}

// Spendable reports whether requests may spend units of the lot now.
func (l *Lease) Spendable(now lease.Millis) bool {
	return l.Units > 0 && !l.Local && l.From <= now && now < l.Expiry
}

// lapsed reports whether the lot has units that may no longer be spent and go back.
func (l *Lease) lapsed(now lease.Millis) bool { return l.Units > 0 && now >= l.Expiry && !l.Local }

// Sharing reports whether the lot is the holder's own share, used or not, of a window that runs.
func (l *Lease) Sharing(now lease.Millis) bool { return l.Local && now < l.Expiry }

// idle reports whether the lot can be dropped without loss.
func (l *Lease) idle(now lease.Millis) bool { return !l.Sharing(now) && (l.Local || l.Units == 0) }

// Part is the units of the lot.
func (l *Lease) Part() Part { return Part{Units: l.Units, Lease: l.Lease, Expiry: l.Expiry} }

// State is what a holder keeps of one key. The zero value is a key never used.
//
// Invariants: every count is >= 0; Leases[0] was granted before Leases[1] wherever
// both hold units.
type State struct {
	Leases [2]Lease
	// Asked is when the last ask was sent; 0: never.
	Asked lease.Millis
	// Asking is true from an ask to its reply, at most until Terms.Timeout after Asked: the process that asked may have
	// died.
	Asking bool
	// Ends is when PhasePartial or PhaseDenied ends. For one more lease interval, rejected requests trigger an ask
	// instead of waiting for it, see [State.Rejects].
	Phase Phase
	Ends  lease.Millis
	// Least is the smallest need that PhaseDenied rejects; 0: none. It outlasts the phase while asks fail.
	Least int64
	// Reset is when the granter's counter is as good as new, by the last reply.
	Reset lease.Millis
	// RetryAt is when the granter has units for the need that it denied, or one unit after a grant that left nothing, by
	// the last reply; 0: unknown. See [State.Retry].
	RetryAt lease.Millis
	// RetryFor is the largest cost for which RetryAt is not too early; without meaning if that is 0.
	RetryFor int64
	// Left is how many units the granter had left, by the last reply.
	Left int64
	// OwnLimit is the limit of the key plus 1, by the last reply, if the key has another limit than the rule; 0: it has
	// that of the rule; [lease.Unlimited]: it has none. For an override with a name see [lease.Override].
	OwnLimit int64
	// Spent is how many units were admitted since Asked. It bounds the next want.
	Spent int64
	// Size is the size of the newest grant. A top-up is due when a quarter of it is left.
	Size int64
	// WantLog2 is the state of the slow start, 0 to 31: the next want is 2^WantLog2 units.
	WantLog2 uint8
	// Rejected is true from a rejected request until a reply that leaves at least half of the limit. After Reset it has no
	// meaning. It outlasts PhaseDenied: if units trickle back, most replies grant a flooded key some of them.
	Rejected bool
	// Denied is how many units were rejected without an ask since Asked, at most limit.MaxCount. If the rule charges
	// rejected units, units that were taken from leases for them are not included.
	Denied int64
	// Overdrawn is how many units were admitted without a lease and are not acknowledged by a reply. Because of
	// on_failure it grows to at most one limit, see [State.Owe].
	Overdrawn int64
	// Sealed is the part of Overdrawn that was reported to the granter.
	Sealed Debt
	// Back is the back-off after failed asks. A relay does not use it: the owner of the relays backs off for all keys.
	Back Backoff
}

// Verdict is the decision of a holder on a request.
type Verdict uint8

// The verdicts.
const (
	Admit      Verdict = iota // units were taken
	Reject                    // over the limit
	Wait                      // for the reply to an ask with the request's cost as its need
	Unanswered                // on_failure decides at once, because asks fail
)

// Asks tells the caller whether to send an ask at once, for which no request waits.
type Asks uint8

// The reasons to ask.
const (
	NoAsk Asks = iota
	TopUp      // for the running window, or for a limit without windows
	Ahead      // for the next window
)

// decision is the answer of [State.Take].
type decision struct {
	Verdict Verdict
	Ask     Asks  // not with Wait: a request that waits asks anyway
	Taken   Taken // with Admit
}

// Taken is where the units of an admitted request came from, for [State.Refund].
type Taken struct {
	Parts     [2]Part
	Overdrawn int64 // units that no lease covers
	Unowed    int64 // how many of these are not added to the debt, which is one limit already, see [State.Owe]
	Local     bool  // the units came from the holder's own share, see [State.takeLocal]
}

// Beyond is what goes back if so many of the units were used.
func (k Taken) Beyond(used int64) Taken {
	for i := range k.Parts {
		n := min(used, k.Parts[i].Units)
		k.Parts[i].Units -= n
		used -= n
	}
	k.Overdrawn -= min(used, k.Overdrawn)
	k.Unowed = min(k.Unowed, k.Overdrawn)
	return k
}

// Part is units of one lease; 0 units are no part.
type Part struct {
	Units  int64
	Lease  uint32
	Expiry lease.Millis // of the lot they came from
}

// Available is how many units the holder can admit now.
func (a *State) Available(now lease.Millis) int64 {
	var n int64
	for i := range a.Leases {
		if a.Leases[i].Spendable(now) {
			n += a.Leases[i].Units
		}
	}
	return n
}

// Held is how many units of the holder go back to the granter with the next asks for waiting requests, without units of
// another window.
func (a *State) Held(t *lease.Terms, now lease.Millis) (units int64) {
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) || lot.lapsed(now) &&
			(t.Window == 0 || now < a.Reset && lot.Expiry > a.Reset-lease.Millis(t.Window/limit.Millisecond)) {
			units += lot.Units
		}
	}
	return units
}

// Forget forgets the last reply of the granter's counter, before another count judges the key.
func (a *State) Forget() {
	a.VoidDenials()
	a.Left, a.Reset, a.RetryAt = 0, 0, 0
}

// VoidDenials forgets the denials, and the failures of asks, of another version of the rules.
func (a *State) VoidDenials() {
	a.Phase, a.Least, a.Rejected, a.Back = PhaseNone, 0, false, Backoff{}
}

// UnderWay reports whether an ask for this account is unanswered. Several workers may share the account.
func (a *State) UnderWay(t *lease.Terms, now lease.Millis) bool {
	return a.Asking && now < a.Asked+t.Timeout
}

// Take decides a request of cost units, cost >= 0, and takes the units if it admits the request. A caller that shares the
// state with other workers must commit the changed state before it acts on the decision.
func (a *State) Take(t *lease.Terms, now lease.Millis, cost int64) decision {
	switch {
	case cost <= 0:
		return decision{}
	case t.Consistency == lease.Exact:
		return a.takeExact(t, now, cost)
	case a.Available(now) >= cost:
		taken := a.spend(now, cost)
		return decision{Ask: a.Prefetch(t, now), Taken: taken}
	case a.Rejects(t, now, cost-a.Held(t, now)):
		a.Deny(t, now, cost)
		return decision{Verdict: Reject, Ask: a.Prefetch(t, now)}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.Prefetch(t, now)}
	case t.Consistency == lease.Optimistic && a.mayOverdraw(t, now, cost):
		a.Overdrawn += cost
		a.Spent = lease.Sum(a.Spent, cost)
		return decision{Ask: a.Prefetch(t, now), Taken: Taken{Overdrawn: cost}}
	}
	return decision{Verdict: Wait}
}

// mayOverdraw reports whether an optimistic holder admits a request before the reply. It does not if the reply is known:
// after it has overdrawn beyond the limit, it must not do so again in the same window.
func (a *State) mayOverdraw(t *lease.Terms, now lease.Millis, cost int64) bool {
	known := now < a.Reset && a.Left < cost
	known = known || t.Window > 0 && a.Reset > 0 && now >= a.Reset && a.Sealed.Number >= a.Reset // it has overdrawn since the window began
	return a.Overdrawn+cost <= t.Overdraft && !known && !a.remembered(now, cost)
}

// takeExact asks for every request. After a denial it rejects requests until Ends. Then one request at a time asks, and the
// other requests are rejected, see [State.Sends].
func (a *State) takeExact(t *lease.Terms, now lease.Millis, cost int64) decision {
	switch {
	case a.Phase == PhaseDenied && cost >= a.Least && now < a.Ends:
		a.Deny(t, now, cost)
		return decision{Verdict: Reject}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.Prefetch(t, now)}
	}
	return decision{Verdict: Wait}
}

// spend takes cost units from the spendable lots, from the older one first. The caller has checked that the units are there.
func (a *State) spend(now lease.Millis, cost int64) (taken Taken) {
	a.Spent = lease.Sum(a.Spent, cost)
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) {
			n := min(cost, lot.Units)
			taken.Parts[i] = Part{n, lot.Lease, lot.Expiry}
			lot.Units -= n
			cost -= n
		}
	}
	if a.Available(now) == 0 {
		a.Grow()
	}
	return taken
}

// Sublet takes a quarter of a spendable lot for one worker that shares the account, as if the quarter was spent. The worker
// gives the rest of it back by [State.Refund]. The part has 0 units if a quarter is less than leastSublet.
func (a *State) Sublet(now lease.Millis) Part {
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) && lot.Units >= 4*leastSublet {
			n := lot.Units / 4
			lot.Units -= n
			a.Spent = lease.Sum(a.Spent, n)
			return Part{n, lot.Lease, lot.Expiry}
		}
	}
	return Part{}
}

// leastSublet is the least that [State.Sublet] takes.
const leastSublet = 2

// Refund puts back what [State.Take] took, because another rule denied the request. It returns the units whose lot was
// replaced since; the caller gives them back to the granter.
func (a *State) Refund(t *lease.Terms, taken Taken) (back [2]Part) {
	a.Overdrawn = max(a.Sealed.Units, a.Overdrawn+taken.Unowed-taken.Overdrawn) // the granter may have charged what was reported
	a.Spent = max(0, a.Spent-taken.Overdrawn)
	for i, p := range taken.Parts {
		if lot := &a.Leases[i]; taken.Local && lot.Local {
			lot.Units += taken.Overdrawn
		}
		if p.Units == 0 {
			continue
		}
		a.Spent = max(0, a.Spent-p.Units)
		if lot := a.lotOf(p.Lease, p.Expiry); lot != nil {
			lot.Units += p.Units
		} else {
			back[i] = a.returned(t, p)
		}
	}
	return back
}

// lotOf finds the lot that units came from, if it has not been replaced.
func (a *State) lotOf(lease uint32, expiry lease.Millis) *Lease {
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Lease == lease && lot.Expiry == expiry && !lot.Local {
			return lot
		}
	}
	return nil
}

// Grow and shrink are the slow start.
func (a *State) Grow() { a.WantLog2 = min(a.WantLog2+1, 31) }

func (a *State) shrink() { a.WantLog2 -= min(a.WantLog2, 1) }
