package lease

import (
	"github.com/weirlimit/weir/internal/limit"
)

// Sum adds units, up to the largest number that a want may state, so that repeated reports cannot overflow.
func Sum(a, b int64) int64 { return min(a+b, limit.MaxCount) }

// LongestAskAfter is the longest time from a denial to the next ask. Together with the time in which rules arrive, a limit that
// an operator raises decides within a second.
const LongestAskAfter = 800 * limit.Millisecond

// Grant is the grant of the decision d on the want w. d.TTL is cut to LongestTTL already, and d.Reset to the end of a running
// window ([limit.Limit.Runs]). d.RetryAfter is the wait for one unit if no request waits for w, or if d grants the last units
// of the running window. out is true if other holders have units on lease, which may come back.
func (t *Terms) Grant(l *limit.Limit, w *Want, d *limit.Decision, out bool) Grant {
	g := Grant{
		Status:    OK,
		Granted:   d.Granted,
		Lease:     l.PeriodID(d.Period),
		StartsIn:  CeilMillis(d.StartsIn),
		TTL:       Millis(d.TTL / limit.Millisecond),
		Limit:     t.Capacity,
		Remaining: d.Remaining,
		Reset:     CeilMillis(d.Reset),
		Block:     d.Block,
	}
	if d.Block > 0 { // units come back later, and nowhere sooner
		g.Reset, out = max(g.Reset, CeilMillis(d.RetryAfter)), false
	}
	if w.Want > 0 || d.Block > 0 {
		g.RetryAfter = CeilMillis(d.RetryAfter)
	}
	if d.Granted == 0 && w.Want > 0 {
		g.Status = Denied
		g.AskAfter = t.askAfter(d, out)
	}
	return g
}

// askAfter is after how long a denied holder may ask again: when the need would be granted if nothing changed, but early enough
// for units that other holders give back, and for a lease of the next window.
func (t *Terms) askAfter(d *limit.Decision, out bool) Millis {
	interval := limit.Micros(t.Interval) * limit.Millisecond
	after := d.RetryAfter
	if after == 0 { // too few units to grant without a need
		after = interval
	}
	after = min(after, LongestAskAfter)
	if out {
		after = min(after, interval)
	}
	lead := limit.Micros(t.Lead) * limit.Millisecond
	if lead > 0 && d.Reset > lead {
		after = min(after, d.Reset-lead)
	}
	return max(1, t.AfterDenial, CeilMillis(after))
}

// CeilMillis is a duration in whole milliseconds, rounded up, so that a wait is never too short. [limit.Never] becomes [Never].
func CeilMillis(d limit.Micros) Millis {
	if d >= limit.Never {
		return Never
	}
	return Millis((d + limit.Millisecond - 1) / limit.Millisecond)
}

// MaxDebt is how many units a holder may owe at once for a rule with on_failure f: one limit, unless f denies. An optimistic
// rule may always owe its overdraft.
func (t *Terms) MaxDebt(f OnFailure) int64 {
	most := int64(0)
	if t.Consistency == Optimistic {
		most = t.Overdraft
	}
	if f != FailureDeny {
		most = max(most, t.Capacity)
	}
	return most
}

// Lies reports whether a holder gives back more units than it can have been granted. The granter then takes none of them.
func (t *Terms) Lies(unused int64) bool { return unused > 2*t.Capacity }

// Denies is how many units are rejected with a want that a relay denies: those of all waiting requests. If the rule charges
// rejected units, it is the need alone, as at the granter.
func (w *Want) Denies(t *Terms) int64 {
	if t.ChargesRejected {
		return w.Need
	}
	return w.Waiting
}

// AfterDebt is the grant g for a child whose debt was passed on. An optimistic child overdraws by Remaining, so Remaining is at
// most that of the reply to the debt.
func (t *Terms) AfterDebt(g, above Grant) Grant {
	if t.Consistency == Optimistic {
		g.Remaining = min(g.Remaining, above.Remaining)
	}
	return g
}

// SpentAtOnce reports whether the limit counts all units of a grant from the moment of the grant. A sliding log does so for a
// grant of at most the waiting units. Unused units of such a grant go back, because the log would forget them up to a ttl
// before they are spent.
func (t *Terms) SpentAtOnce(w Want, g Grant) bool {
	return t.Trailing && g.Granted <= w.Waiting
}

// Unlimited is the limit of a grant for a key without a limit. A holder treats a limit of Unlimited-1 alike.
const Unlimited = limit.MaxCount

// MaxOverrides is how many overrides by key a holder can name at a time.
const MaxOverrides = 1024

// ofOverride is the value of holder.State.OwnLimit for the override with the number 0. Limits as large as that are cut to it.
const ofOverride = Unlimited - 1 - MaxOverrides

// OwnLimit is the value of [holder.State.OwnLimit] after a reply that decides.
func (t *Terms) OwnLimit(g *Grant) int64 {
	switch {
	case g.Override > 0:
		return ofOverride + int64(g.Override)
	case g.Limit == t.Capacity:
		return 0
	case g.Limit >= Unlimited-1:
		return Unlimited
	}
	return min(g.Limit+1, ofOverride)
}

// Override is [Grant.Override] of the reply from which [holder.State.OwnLimit] was set to own.
func Override(own int64) uint16 {
	if own <= ofOverride || own >= Unlimited {
		return 0
	}
	return uint16(own - ofOverride)
}

// Scarce is a number of units. If fewer are left at the granter after a grant that does not cover its want, the holder becomes
// partial. For a far granter it is larger, because other regions take units that come back during a round trip.
func (t *Terms) Scarce() int64 {
	switch {
	case t.Aggregator:
		return t.Ample
	case t.Pace > 0:
		return t.WantFloor()
	}
	return 0
}

// Never is [limit.Never] in milliseconds: as a RetryAfter it means that waiting does not help.
const Never = Millis(limit.Never / limit.Millisecond)

// SlotGrant is the grant of the decision d to a holder that needs so many slots in all. held is true if any slots of the key are
// held.
func (t *Terms) SlotGrant(l *limit.Limit, d *limit.HoldDecision, need int64, held bool) Grant {
	g := Grant{
		Status:    OK,
		Granted:   d.Granted,
		TTL:       Millis(d.TTL / limit.Millisecond),
		Limit:     t.Capacity,
		Remaining: d.Remaining,
	}
	if held {
		g.Reset = Millis(l.Spec().LeaseTTL / limit.Millisecond)
	}
	if d.Granted < need {
		// Slots are released at any time, not only when they run out.
		g.Status = Denied
		g.RetryAfter = max(1, CeilMillis(d.RetryAfter))
		g.AskAfter = min(g.RetryAfter, t.Interval)
	}
	return g
}
