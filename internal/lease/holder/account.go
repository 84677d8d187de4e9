package holder

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Lease is units that were granted. Those of different leases are never merged: a top-up
// must not prolong older units.
type Lease struct {
	Units  int64        // unspent; 0: the lot is empty, and its other fields have no meaning
	From   lease.Millis // spendable from then on; 0: at once
	Expiry lease.Millis // and until then, exclusive
	TTL    lease.Millis // how long it was granted for; only a Relay reads it
	Lease  uint32       // the lease that unspent units go back to
	Local  bool         // not a lease but the holder's own share while nobody answers
}

// Spendable reports units of a lease that requests may spend now.
func (l *Lease) Spendable(now lease.Millis) bool {
	return l.Units > 0 && !l.Local && l.From <= now && now < l.Expiry
}

// lapsed reports units that nobody may spend any more and that go back.
func (l *Lease) lapsed(now lease.Millis) bool { return l.Units > 0 && now >= l.Expiry && !l.Local }

// Sharing reports a share of the holder's own, spent or not, whose window runs.
func (l *Lease) Sharing(now lease.Millis) bool { return l.Local && now < l.Expiry }

// idle reports a lot that can be forgotten without loss.
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
	// Asking is true from an ask to its reply. It ends Terms.Timeout after Asked at the
	// latest: whoever asked may have died.
	Asking bool
	// Ends is when PhasePartial or PhaseDenied ends. For one more lease interval, rejected requests trigger an ask
	// instead of waiting for it, see [State.Refuses].
	Phase Phase
	Ends  lease.Millis
	// Least is the least need that is refused in PhaseDenied. It outlasts the phase while asks fail; 0: none.
	Least int64
	// Reset is when the counter above is as good as new, by its last reply.
	Reset lease.Millis
	// RetryAt is when the counter above has units again for the request that it denied,
	// or one unit after a grant that left nothing, by its last reply; 0: not known. See
	// [State.Retry].
	RetryAt lease.Millis
	// RetryFor is the largest cost for which RetryAt is not too early; without meaning if that is 0.
	RetryFor int64
	// Left is how many units the tier above had left by its last reply.
	Left int64
	// OwnLimit is 1 more than the limit of the key, by the last reply, where that is not the
	// rule's; 0: it is; [lease.Unlimited]: it has none. Of an override with a name see [lease.Override].
	OwnLimit int64
	// Spent counts units admitted since Asked: the demand that bounds a want.
	Spent int64
	// Size is the newest grant; a quarter of it left calls for a top-up.
	Size int64
	// WantLog2 is the slow start: the next want is 2^WantLog2 units. 0 to 31.
	WantLog2 uint8
	// Refused is true from a refused request until a reply that leaves half of the
	// limit or more; it has no meaning once Reset has passed. It outlasts Denied:
	// where units trickle back, most replies grant a flooded key some of them.
	Refused bool
	// Denied is the units that were refused from memory since Asked, at most limit.MaxCount;
	// where these are charged, without those that the leases have paid for.
	Denied int64
	// Overdrawn is units admitted without a lease that no reply has acknowledged: of
	// those admitted because nobody answered at most one limit, see [State.Owe].
	Overdrawn int64
	// Sealed is the part of Overdrawn that was reported to the tier above.
	Sealed Debt
	// Back is for how long the key is not asked for after asks that failed. A relay does not use
	// it: the owner of the relays decides for all keys when to ask the tier above.
	Back Backoff
}

// Verdict is what becomes of a request at its holder.
type Verdict uint8

// The verdicts.
const (
	Admit      Verdict = iota // units were taken
	Refuse                    // over the limit
	Wait                      // for the answer of an ask with this request's cost as its need
	Unanswered                // on_failure decides at once: asks fail, and no request waits for the next
)

// Asks is whether the caller should send an ask after a decision, at once and with no
// request waiting for it.
type Asks uint8

// The reasons to ask.
const (
	NoAsk Asks = iota
	TopUp      // for the running window, or whatever the limit has
	Ahead      // for the next window
)

// decision is the answer of [State.Take].
type decision struct {
	Verdict Verdict
	Ask     Asks  // not with Wait: a request that waits asks anyway
	Taken   Taken // with Admit
}

// Taken is where the units of an admitted request came from, so that they can go
// back there when another rule denies the request.
type Taken struct {
	Parts     [2]Part
	Overdrawn int64 // units that no lease covers
	Unowed    int64 // of these, what is not added to the debt: that is one limit already, see [State.Owe]
	Local     bool  // they came from the holder's own share, see [State.takeLocal]
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

// Held is how many units go back to the tier above with the next asks for requests that
// wait: those of the holder, without those of another window.
func (a *State) Held(t *lease.Terms, now lease.Millis) (units int64) {
	for i := range a.Leases {
		if lot := &a.Leases[i]; lot.Spendable(now) || lot.lapsed(now) &&
			(t.Window == 0 || now < a.Reset && lot.Expiry > a.Reset-lease.Millis(t.Window/limit.Millisecond)) {
			units += lot.Units
		}
	}
	return units
}

// Forget forgets the last reply of the counter above, before another count judges the key.
func (a *State) Forget() {
	a.VoidDenials()
	a.Left, a.Reset, a.RetryAt = 0, 0, 0
}

// VoidDenials forgets the denials, and the failures of asks, of another version of the rules.
func (a *State) VoidDenials() {
	a.Phase, a.Least, a.Refused, a.Back = PhaseNone, 0, false, Backoff{}
}

// UnderWay reports whether an ask of anybody who shares this account is unanswered.
func (a *State) UnderWay(t *lease.Terms, now lease.Millis) bool {
	return a.Asking && now < a.Asked+t.Timeout
}

// Take decides a request of cost units, cost >= 0, and takes them if it can.
// A caller that shares the state with others must commit the changed state before
// it acts on the decision.
func (a *State) Take(t *lease.Terms, now lease.Millis, cost int64) decision {
	switch {
	case cost <= 0:
		return decision{}
	case t.Consistency == lease.Exact:
		return a.takeExact(t, now, cost)
	case a.Available(now) >= cost:
		taken := a.spend(now, cost)
		return decision{Ask: a.Prefetch(t, now), Taken: taken}
	case a.Refuses(t, now, cost-a.Held(t, now)):
		a.Deny(t, now, cost)
		return decision{Verdict: Refuse, Ask: a.Prefetch(t, now)}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.Prefetch(t, now)}
	case t.Consistency == lease.Optimistic && a.mayOverdraw(t, now, cost):
		a.Overdrawn += cost
		a.Spent = lease.Sum(a.Spent, cost)
		return decision{Ask: a.Prefetch(t, now), Taken: Taken{Overdrawn: cost}}
	}
	return decision{Verdict: Wait}
}

// mayOverdraw reports whether an optimistic holder admits before the answer. It does not
// where the answer is known: after it has overdrawn beyond the limit once, it must not do
// so again in the same window.
func (a *State) mayOverdraw(t *lease.Terms, now lease.Millis, cost int64) bool {
	known := now < a.Reset && a.Left < cost
	known = known || t.Window > 0 && a.Reset > 0 && now >= a.Reset && a.Sealed.Number >= a.Reset // it has overdrawn since the window began
	return a.Overdrawn+cost <= t.Overdraft && !known && !a.remembered(now, cost)
}

// takeExact asks for every request. After a denial it refuses from memory until
// Ends; then one request at a time probes, and the others stay refused.
func (a *State) takeExact(t *lease.Terms, now lease.Millis, cost int64) decision {
	denied := a.Phase == PhaseDenied && cost >= a.Least
	switch {
	case denied && now < a.Ends:
		a.Deny(t, now, cost)
		return decision{Verdict: Refuse}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.Prefetch(t, now)}
	case denied:
		a.Ends = now + t.Interval
	}
	return decision{Verdict: Wait}
}

// spend takes cost units from the live lots, the older first. The caller has
// checked that they are there.
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

// Sublet takes a quarter of a lot that may be spent now for one of those who share the account, as if
// it was spent: the others find enough. What is left of it goes back by Refund. No part if a quarter is
// less than the least that is worth it.
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
// replaced since; the caller gives them back to the tier above.
func (a *State) Refund(t *lease.Terms, taken Taken) (back [2]Part) {
	a.Overdrawn = max(a.Sealed.Units, a.Overdrawn+taken.Unowed-taken.Overdrawn) // the tier above may have charged what was reported
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
