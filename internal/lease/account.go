package lease

import "github.com/weirlimit/weir/internal/limit"

// Lot is units of one lease. Lots of different leases are never merged: a top-up
// must not prolong older units.
type Lot struct {
	Units  int64  // unspent; 0: the lot is empty, and its other fields have no meaning
	From   Millis // spendable from then on; 0: at once
	Expiry Millis // and until then, exclusive
	TTL    Millis // how long it was granted for; only a Relay reads it
	Lease  uint32 // the lease that unspent units go back to
	Local  bool   // not a lease but the holder's own share while nobody answers
}

// spendable reports units of a lease that requests may spend now.
func (l *Lot) spendable(now Millis) bool {
	return l.Units > 0 && !l.Local && l.From <= now && now < l.Expiry
}

// lapsed reports units that nobody may spend any more and that go back.
func (l *Lot) lapsed(now Millis) bool { return l.Units > 0 && now >= l.Expiry && !l.Local }

// Sharing reports a share of the holder's own, spent or not, whose window runs.
func (l *Lot) Sharing(now Millis) bool { return l.Local && now < l.Expiry }

// idle reports a lot that can be forgotten without loss.
func (l *Lot) idle(now Millis) bool { return !l.Sharing(now) && (l.Local || l.Units == 0) }

// Part is the units of the lot.
func (l *Lot) Part() Part { return Part{Units: l.Units, Lease: l.Lease, Expiry: l.Expiry} }

// Account is what a holder keeps of one key. The zero value is a key never used.
//
// Invariants: every count is >= 0; Lots[0] was granted before Lots[1] wherever
// both hold units.
type Account struct {
	Lots [2]Lot
	// Asked is when the last ask was sent; 0: never.
	Asked Millis
	// Asking is true from an ask to its reply. It ends Terms.Timeout after Asked at the
	// latest: whoever asked may have died.
	Asking bool
	// NextAsk is the time before which a holder does not ask: the end of a denial, or of the
	// pause after an ask that got less than it wanted, whichever is later.
	NextAsk Millis
	// LimitedUntil is the time until which requests that find no units are refused
	// rather than made to wait: a grant that left nothing came not long ago.
	LimitedUntil Millis
	// Reset is when the counter above is as good as new, by its last reply.
	Reset Millis
	// RetryAt is when the counter above has units again for the request that it denied,
	// or one unit after a grant that left nothing, by its last reply; 0: not known. See
	// [Account.Retry].
	RetryAt Millis
	// Left is how many units the tier above had left by its last reply.
	Left int64
	// OwnLimit is 1 more than the limit of the key, by the last reply, where that is not the
	// rule's; 0: it is.
	OwnLimit int64
	// Spent counts units admitted since Asked: the demand that bounds a want.
	Spent int64
	// trip is how long the last ask was on its way, there and back.
	trip Millis
	// Rate is the demand lately, in units per second: those admitted, refused and waiting.
	Rate int64
	// Size is the newest grant; a quarter of it left calls for a top-up.
	Size int64
	// WantLog2 is the slow start: the next want is 2^WantLog2 units. 0 to 31.
	WantLog2 uint8
	// Refused is true from a refused request until a reply that leaves half of the
	// limit or more; it has no meaning once Reset has passed. It outlasts DeniedNeed:
	// where units trickle back, most replies grant a flooded key some of them.
	Refused bool
	// Replicas is how many replicas of a region ask far above for the same keys. The owner of
	// the account sets it. Less than 2 counts as 2, more than mostReplicas as so many.
	Replicas uint8
	// DeniedNeed is the least need that was denied by the last reply; 0: none was.
	DeniedNeed int64
	// Denied is the units that were refused from memory since Asked, at most limit.MaxCount;
	// where these are charged, without those that the account's own lots have paid for.
	Denied int64
	// Overdrawn is units admitted without a lease that no reply has acknowledged: of
	// those admitted because nobody answered at most one limit, see [Account.overdraw].
	Overdrawn int64
	// Sealed is the part of Overdrawn that was reported to the tier above.
	Sealed Debt
	// Back is how long the key is not asked for because asks fail. A [Relay] does not use
	// it: the owner of the relays decides for all keys when to ask the tier above.
	Back Backoff
}

// Sum adds units up to the largest number that a want may state: what requests, or the holders
// below, report again and again must not come round.
func Sum(a, b int64) int64 { return min(a+b, limit.MaxCount) }

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

// decision is the answer of [Account.Take].
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
	Unowed    int64 // of these, what is not added to the debt: that is one limit already, see [Account.overdraw]
	Local     bool  // they came from the holder's own share, see [Account.takeLocal]
}

// Part is units of one lease; 0 units are no part.
type Part struct {
	Units  int64
	Lease  uint32
	Expiry Millis // of the lot they came from
}

// Available is how many units the account can admit now.
func (a *Account) Available(now Millis) int64 {
	var n int64
	for i := range a.Lots {
		if a.Lots[i].spendable(now) {
			n += a.Lots[i].Units
		}
	}
	return n
}

// Held is how many units go back to the tier above with the next asks for requests that
// wait: those of the account, without those of another window.
func (a *Account) Held(t *Terms, now Millis) (units int64) {
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) || lot.lapsed(now) &&
			(t.Window == 0 || now < a.Reset && lot.Expiry > a.Reset-Millis(t.Window/limit.Millisecond)) {
			units += lot.Units
		}
	}
	return units
}

// Unlearn forgets what is known of the counter above, before another count judges the key.
func (a *Account) Unlearn() {
	a.NextAsk, a.LimitedUntil, a.RetryAt = 0, 0, 0
	a.Left, a.Reset, a.DeniedNeed, a.Refused = 0, 0, 0, false
}

// UnderWay reports whether an ask of anybody who shares this account is unanswered.
func (a *Account) UnderWay(t *Terms, now Millis) bool {
	return a.Asking && now < a.Asked+t.Timeout
}

// Take decides a request of cost units, cost >= 0, and takes them if it can.
// A caller that shares the account with others must commit the changed account before
// it acts on the decision.
func (a *Account) Take(t *Terms, now Millis, cost int64) decision {
	switch {
	case cost <= 0:
		return decision{}
	case t.Consistency == Exact:
		return a.takeExact(t, now, cost)
	case a.Available(now) >= cost:
		taken := a.spend(now, cost)
		return decision{Ask: a.askBehind(t, now), Taken: taken}
	case a.refused(t, now, cost-a.Held(t, now)):
		a.Deny(t, now, cost)
		return decision{Verdict: Refuse, Ask: a.askBehind(t, now)}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.askBehind(t, now)}
	case t.Consistency == Optimistic && a.mayOverdraw(t, now, cost):
		a.Overdrawn += cost
		a.Spent = Sum(a.Spent, cost)
		return decision{Ask: a.askBehind(t, now), Taken: Taken{Overdrawn: cost}}
	}
	return decision{Verdict: Wait}
}

// mayOverdraw reports whether an optimistic holder admits before the answer. It does not
// where the answer is known: after it has overdrawn beyond the limit once, it must not do
// so again in the same window.
func (a *Account) mayOverdraw(t *Terms, now Millis, cost int64) bool {
	known := now < a.Reset && a.Left < cost
	known = known || t.Window > 0 && a.Reset > 0 && now >= a.Reset && a.Sealed.Number >= a.Reset // it has overdrawn since the window began
	return a.Overdrawn+cost <= t.Overdraft && !known && !a.remembered(now, cost)
}

// takeExact asks for every request. After a denial it refuses from memory until
// NextAsk; then one request at a time probes, and the others stay refused.
func (a *Account) takeExact(t *Terms, now Millis, cost int64) decision {
	denied := a.DeniedNeed > 0 && cost >= a.DeniedNeed
	switch {
	case denied && now < a.NextAsk:
		a.Deny(t, now, cost)
		return decision{Verdict: Refuse}
	case a.Back.Off(now), a.Back.quiet(now):
		return decision{Verdict: Unanswered, Ask: a.askBehind(t, now)}
	case denied:
		a.NextAsk = now + t.Interval
	}
	return decision{Verdict: Wait}
}

// refused reports whether a request that finds too few units is over the limit, by what is
// known of the tier above. missing is how many units that tier would have to add to what
// the account holds. A denial is remembered with its need: a request that needs less may
// still ask. After a grant that was less than wanted, a request may ask that fits into what
// is left, if that is more than trickles back between two asks.
func (a *Account) refused(t *Terms, now Millis, missing int64) bool {
	switch {
	case missing <= 0: // the units exist, and only have to be given back first
		return false
	case now < a.LimitedUntil:
		return true
	case now >= a.NextAsk:
		return false
	case a.DeniedNeed > 0:
		return missing >= a.DeniedNeed
	}
	return a.Left < max(missing, t.Ample)
}

// LeastRefused is the least cost that is refused from memory until the denial ends or a
// lease arrives.
func (a *Account) LeastRefused(t *Terms, now Millis) int64 {
	switch held := a.Held(t, now); {
	case a.DeniedNeed > 0:
		return a.DeniedNeed + held
	case a.Left >= t.Ample && t.Consistency != Exact:
		return a.Left + held + 1
	default:
		return held + 1
	}
}

// spend takes cost units from the live lots, the older first. The caller has
// checked that they are there.
func (a *Account) spend(now Millis, cost int64) (taken Taken) {
	a.Spent = Sum(a.Spent, cost)
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.spendable(now) {
			n := min(cost, lot.Units)
			taken.Parts[i] = Part{n, lot.Lease, lot.Expiry}
			lot.Units -= n
			cost -= n
		}
	}
	if a.Available(now) == 0 {
		a.grow()
	}
	return taken
}

// Untake puts back what [Account.Take] took: another rule denied the request. Units whose
// lot has been replaced since are returned: the caller gives them back to the tier above.
func (a *Account) Untake(t *Terms, taken Taken) (back [2]Part) {
	a.Overdrawn = max(a.Sealed.Units, a.Overdrawn+taken.Unowed-taken.Overdrawn) // the tier above may have charged what was reported
	a.Spent = max(0, a.Spent-taken.Overdrawn)
	for i, p := range taken.Parts {
		if lot := &a.Lots[i]; taken.Local && lot.Local {
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
func (a *Account) lotOf(lease uint32, expiry Millis) *Lot {
	for i := range a.Lots {
		if lot := &a.Lots[i]; lot.Lease == lease && lot.Expiry == expiry && !lot.Local {
			return lot
		}
	}
	return nil
}

// grow and shrink are the slow start.
func (a *Account) grow()   { a.WantLog2 = min(a.WantLog2+1, 31) }
func (a *Account) shrink() { a.WantLog2 -= min(a.WantLog2, 1) }
