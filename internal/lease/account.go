package lease

import "github.com/weirlimit/weir/internal/limit"

// Lot is units of one lease. Lots of different leases are never merged: a top-up
// must not prolong older units.
type Lot struct {
	Units  int64  // unspent; 0: the lot is empty, what else it says is history
	From   Millis // spendable from then on; 0: at once
	Expiry Millis // and until then, exclusive
	TTL    Millis // how long it was granted for; only a Node reads it
	Lease  uint32 // the lease that unspent units go back to
	Local  bool   // not a lease but the holder's own share while nobody answers
}

func (l *Lot) live(now Millis) bool { return l.Units > 0 && l.From <= now && now < l.Expiry }

// spendable reports units of a lease that requests may spend now.
func (l *Lot) spendable(now Millis) bool { return l.live(now) && !l.Local }

// lapsed reports units that nobody may spend any more and that go back.
func (l *Lot) lapsed(now Millis) bool { return l.Units > 0 && now >= l.Expiry && !l.Local }

// sharing reports a share of the holder's own, spent or not, whose window runs.
func (l *Lot) sharing(now Millis) bool { return l.Local && now < l.Expiry }

// idle reports a lot that holds nothing which anybody would miss.
func (l *Lot) idle(now Millis) bool {
	if l.Local {
		return now >= l.Expiry
	}
	return l.Units == 0
}

func (l *Lot) part() Part { return Part{Units: l.Units, Lease: l.Lease, Expiry: l.Expiry} }

// Account is what a holder knows of one key. The zero value is a key never seen.
//
// Invariants: every count is >= 0; Lots[0] was granted before Lots[1] wherever
// both hold units.
type Account struct {
	Lots [2]Lot
	// Asked is when the last ask was sent; 0: never.
	Asked Millis
	// Asking is true from an ask to its reply; it lapses Terms.Timeout after
	// Asked, should whoever asked have died.
	Asking bool
	// NextAsk is the time before which a holder does not ask: after a denial, and
	// after a partial grant of a token bucket.
	NextAsk Millis
	// LimitedUntil is the time until which requests that find no units are refused
	// rather than made to wait: a grant that left nothing came not long ago.
	LimitedUntil Millis
	// Reset is when the counter above is as good as new, by its last reply.
	Reset Millis
	// RetryAt is when the counter above has something again for who was denied, or a
	// unit after a grant that left nothing, as its last reply told; 0: it told nothing.
	// See [Slot.Retry].
	RetryAt Millis
	// Left is what the last reply left above.
	Left int64
	// Spent counts units admitted since Asked: the demand that bounds a want.
	Spent int64
	// Size is the newest grant; a quarter of it left calls for a top-up.
	Size int64
	// WantLog2 is the slow start: the next want is 2^WantLog2 units. 0 to 32.
	WantLog2 uint8
	// Refused is true from a refused request until a reply that leaves half of the
	// limit or more; it says nothing once Reset has passed. It outlasts DeniedNeed:
	// where units trickle back, a flooded key is granted some by most replies.
	Refused bool
	// DeniedNeed is the least need that was denied by the last reply; 0: none was.
	DeniedNeed int64
	// Denied is the units that were refused from memory since Asked; where these are
	// charged, less what the slot's own lots paid of them.
	Denied int64
	// Overdrawn is units admitted without a lease that no reply has acknowledged: of
	// those admitted because nobody answered at most one limit, see [Slot.Overdraw].
	Overdrawn int64
	// Sealed is the part of Overdrawn that was told above.
	Sealed Debt
	// Back is how long the key is not asked for because asks fail. A [Node] leaves it
	// alone: who has nodes keeps by itself how it treats the tier above.
	Back Backoff
}

// Verdict is what becomes of a request at its holder.
type Verdict uint8

// The verdicts.
const (
	Admit      Verdict = iota // units were taken
	Refuse                    // over the limit
	Wait                      // for the answer of an ask with this request's cost as its need
	Unanswered                // by on_failure, at once: asks fail, and nobody waits for the next
)

// Asks says whether the caller should send an ask behind a decision, at once and
// with nobody waiting for it.
type Asks uint8

// The reasons to ask.
const (
	NoAsk Asks = iota
	TopUp      // for the running window, or whatever the limit has
	Ahead      // for the next window
)

// Decision is the answer of [Account.Take].
type Decision struct {
	Verdict Verdict
	Ask     Asks  // but with Wait: a request that waits asks anyway
	Taken   Taken // with Admit
}

// Taken is where the units of an admitted request came from, so that they can go
// back there when another rule denies the request.
type Taken struct {
	Parts     [2]Part
	Overdrawn int64 // units that no lease covers
	Unowed    int64 // of these, what is not owed for: the debt is one limit already, see [Slot.Overdraw]
	Local     bool  // they came from the holder's own share, see [Slot.TakeLocal]
}

// Part is units of one lease; 0 units are no part.
type Part struct {
	Units  int64
	Lease  uint32
	Expiry Millis // of the lot they came from
}

// Available is how many units the slot can admit now.
func (s *Account) Available(now Millis) int64 {
	var n int64
	for i := range s.Lots {
		if s.Lots[i].live(now) && !s.Lots[i].Local {
			n += s.Lots[i].Units
		}
	}
	return n
}

// Lapsed is how many units the slot may not spend any more and has not given back yet. Of
// a window that is over none count.
func (s *Account) Lapsed(t *Terms, now Millis) (units int64) {
	for i := range s.Lots {
		if lot := &s.Lots[i]; lot.lapsed(now) && (t.Window == 0 || now < s.Reset && lot.Expiry > s.Reset-Millis(t.Window/limit.Millisecond)) {
			units += lot.Units
		}
	}
	return units
}

// Held is how many units the tier above gets back with the next asks on behalf of who
// waits: the slot's own, but for those of another window.
func (s *Account) Held(t *Terms, now Millis) int64 {
	return s.Available(now) + s.Lapsed(t, now)
}

// Unlearn forgets what was told of the counter above: it is to be judged by another count.
func (s *Account) Unlearn() {
	s.NextAsk, s.LimitedUntil, s.RetryAt = 0, 0, 0
	s.Left, s.Reset, s.DeniedNeed, s.Refused = 0, 0, 0, false
}

// Overhear takes the reply to somebody who judges the same counter by the terms of another
// count. What is left by the slot's own count follows from what is left by the other, unless
// that is nothing: then it is known to be no more than the one count is above the other.
func (s *Account) Overhear(t, other *Terms, now Millis, g Grant) {
	more := t.Capacity - other.Capacity
	if g.Remaining > 0 {
		s.Left = max(0, g.Remaining+more)
	} else {
		s.Left = max(0, min(s.Left, more))
	}
	if g.Reset > 0 {
		s.Reset = now + g.Reset
	}
	if s.Left > 0 {
		s.LimitedUntil = 0
	}
	if s.Left > 0 && s.Left >= s.DeniedNeed {
		s.DeniedNeed, s.NextAsk = 0, 0
	}
}

// underWay reports whether an ask of any sharer of this slot is still out.
func (s *Account) underWay(t *Terms, now Millis) bool {
	return s.Asking && now < s.Asked+t.Timeout
}

// Take decides a request of cost units, cost >= 0, and takes them if it can.
// A caller that shares the slot with others must commit the changed slot before
// it acts on the decision.
func (s *Account) Take(t *Terms, now Millis, cost int64) Decision {
	switch {
	case cost <= 0:
		return Decision{}
	case t.Consistency == Exact:
		return s.takeExact(t, now, cost)
	case s.Available(now) >= cost:
		taken := s.spend(now, cost)
		return Decision{Ask: s.askBehind(t, now), Taken: taken}
	case s.refused(t, now, cost-s.Held(t, now)):
		s.Deny(t, now, cost)
		return Decision{Verdict: Refuse, Ask: s.askBehind(t, now)}
	case s.Back.Off(now), s.Back.quiet(now):
		return Decision{Verdict: Unanswered, Ask: s.askBehind(t, now)}
	case t.Consistency == Optimistic && s.mayOverdraw(t, now, cost):
		s.Overdrawn += cost
		s.Spent += cost
		return Decision{Ask: s.askBehind(t, now), Taken: Taken{Overdrawn: cost}}
	}
	return Decision{Verdict: Wait}
}

// mayOverdraw reports whether an optimistic holder admits ahead of the answer. It
// does not where the answer is known: what it overdrew beyond the limit once must
// not be followed by more in the same window.
func (s *Account) mayOverdraw(t *Terms, now Millis, cost int64) bool {
	known := now < s.Reset && s.Left < cost
	known = known || t.Window > 0 && s.Reset > 0 && now >= s.Reset && s.Sealed.Number >= s.Reset // it did since the flip
	return s.Overdrawn+cost <= t.Overdraft && !known && !s.Remembered(now, cost)
}

// takeExact asks for every request. After a denial it refuses from memory until
// NextAsk; then one request at a time probes, and the others stay refused.
func (s *Account) takeExact(t *Terms, now Millis, cost int64) Decision {
	denied := s.DeniedNeed > 0 && cost >= s.DeniedNeed
	switch {
	case denied && now < s.NextAsk:
		s.Deny(t, now, cost)
		return Decision{Verdict: Refuse}
	case s.Back.quiet(now):
		return Decision{Verdict: Unanswered, Ask: s.askBehind(t, now)}
	case s.Back.Off(now):
		return Decision{Verdict: Unanswered}
	case denied:
		s.NextAsk = now + t.Interval
	}
	return Decision{Verdict: Wait}
}

// refused reports whether a request that finds too few units is over the limit by what
// is known of the tier above, which would have to add so many, missing, to what the slot
// holds. A denial remembers its need: who is cheaper, or holds a part, may still ask. So
// may who fits into what is left after a grant that was less than wanted, if that is
// more than trickles back between two asks.
func (s *Account) refused(t *Terms, now Millis, missing int64) bool {
	switch {
	case missing <= 0: // it is there, and only has to be given back first
		return false
	case now < s.LimitedUntil:
		return true
	case now >= s.NextAsk:
		return false
	case s.DeniedNeed > 0:
		return missing >= s.DeniedNeed
	}
	return s.Left < max(missing, t.Ample)
}

// LeastRefused is the least cost that is refused from memory as long as the denial of one
// of so many units stands, and no lease comes.
func (s *Account) LeastRefused(t *Terms, now Millis) int64 {
	switch held := s.Held(t, now); {
	case s.DeniedNeed > 0:
		return s.DeniedNeed + held
	case s.Left >= t.Ample && t.Consistency != Exact:
		return s.Left + held + 1
	default:
		return held + 1
	}
}

// spend takes cost units from the live lots, the older first. The caller has
// checked that they are there.
func (s *Account) spend(now Millis, cost int64) (taken Taken) {
	s.Spent += cost
	for i := range s.Lots {
		if lot := &s.Lots[i]; lot.live(now) && !lot.Local {
			n := min(cost, lot.Units)
			taken.Parts[i] = Part{n, lot.Lease, lot.Expiry}
			lot.Units -= n
			cost -= n
		}
	}
	if s.Available(now) == 0 {
		s.grow()
	}
	return taken
}

// Untake puts back what a Take took: another rule denied the request. Units
// whose lot has been replaced since do not fit any more: they are returned, for
// the caller to give back.
func (s *Account) Untake(t *Terms, taken Taken) (back [2]Part) {
	s.Overdrawn = max(s.Sealed.Units, s.Overdrawn+taken.Unowed-taken.Overdrawn) // what was told may be charged by now
	s.Spent = max(0, s.Spent-taken.Overdrawn)
	for i, p := range taken.Parts {
		if lot := &s.Lots[i]; taken.Local && lot.Local {
			lot.Units += taken.Overdrawn
		}
		if p.Units == 0 {
			continue
		}
		s.Spent = max(0, s.Spent-p.Units)
		if lot := s.lotOf(p.Lease, p.Expiry); lot != nil {
			lot.Units += p.Units
		} else {
			back[i] = s.returned(t, p)
		}
	}
	return back
}

// lotOf finds the lot that units came from, if it has not been replaced.
func (s *Account) lotOf(lease uint32, expiry Millis) *Lot {
	for i := range s.Lots {
		if lot := &s.Lots[i]; lot.Lease == lease && lot.Expiry == expiry && !lot.Local {
			return lot
		}
	}
	return nil
}

// askBehind says whether to ask while nobody waits: a quarter of the newest
// lease or less is left, or the window ends soon and none of the next is held.
func (s *Account) askBehind(t *Terms, now Millis) Asks {
	if now < s.NextAsk || s.underWay(t, now) || s.Back.Off(now) {
		return NoAsk
	}
	low := 4*s.Available(now) <= s.Size
	ending := t.Lead > 0 && s.Reset > now && s.Reset-now <= t.Lead && !s.holdsNext(now)
	switch {
	case ending && (!low || now < s.LimitedUntil):
		return Ahead
	case low:
		return TopUp
	}
	return NoAsk
}

// holdsNext reports a lease on a window that has not begun, or no room for one.
func (s *Account) holdsNext(now Millis) bool {
	a, b := &s.Lots[0], &s.Lots[1]
	return a.Units > 0 && b.Units > 0 || a.Units > 0 && a.From > now || b.Units > 0 && b.From > now
}

// grow and shrink are the slow start.
func (s *Account) grow()   { s.WantLog2 = min(s.WantLog2+1, 32) }
func (s *Account) shrink() { s.WantLog2 -= min(s.WantLog2, 1) }
