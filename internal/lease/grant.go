package lease

import (
	"github.com/weirlimit/weir/internal/limit"
)

// Sum adds units up to the largest number that a want may state: what requests, or the holders
// below, report again and again must not come round.
func Sum(a, b int64) int64 { return min(a+b, limit.MaxCount) }

// LongestAskAfter is when the holder of a denied key may ask again at the latest: with what a change of rules takes to
// arrive, a limit that an operator raises decides within a second.
const LongestAskAfter = 800 * limit.Millisecond

// Grant is the grant of the decision d on the want w, for whoever keeps a [granter.Counter]
// elsewhere. d.TTL is cut to LongestTTL already, d.Reset to the end of a running window ([limit.Limit.Runs]); d.RetryAfter is that of a single unit if no
// request waits for w, or if d is a grant of the running window that leaves nothing. out is
// true if other holders have units on lease, which may come back.
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
	}
	if w.Want > 0 {
		g.RetryAfter = CeilMillis(d.RetryAfter)
	}
	if d.Granted == 0 && w.Want > 0 {
		g.Status = Denied
		g.AskAfter = t.askAfter(d, out)
	}
	return g
}

// askAfter is when a denied holder may ask again: when the need would be granted if nothing
// changed, but soon enough to get what comes back from others, and a lease on the next
// window.
func (t *Terms) askAfter(d *limit.Decision, out bool) Millis {
	interval := limit.Micros(t.Interval) * limit.Millisecond
	after := d.RetryAfter
	if after == 0 { // too little to share out ahead, but a need would get it
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

// CeilMillis is a duration in whole milliseconds, rounded up, so that whoever waits for it
// is never too early. [limit.Never] becomes [Never].
func CeilMillis(d limit.Micros) Millis {
	if d >= limit.Never {
		return Never
	}
	return Millis((d + limit.Millisecond - 1) / limit.Millisecond)
}

// MaxDebt is how many units a holder may owe at once by a rule that fails in the way f: one limit where that
// admits anything, and of an Optimistic rule what it admits ahead of the answer.
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

// Lies reports whether a holder claims to give back more units than it can have been
// granted. Then none of them are taken back.
func (t *Terms) Lies(unused int64) bool { return unused > 2*t.Capacity }

// Denies is how many units are refused with a want that a relay denies: those of all requests that
// wait. Where they are charged, one denial charges its need alone, as the tier above does.
func (w *Want) Denies(t *Terms) int64 {
	if t.ChargesDenied {
		return w.Need
	}
	return w.Waiting
}

// AfterDebt is the grant g for a child whose debt was passed on. An optimistic child
// overdraws by Remaining, so that is at most what the reply to its debt has left.
func (t *Terms) AfterDebt(g, above Grant) Grant {
	if t.Consistency == Optimistic {
		g.Remaining = min(g.Remaining, above.Remaining)
	}
	return g
}

// SpentAtOnce reports whether the limit counts all of a grant from the moment of the
// grant, as a sliding log does with a grant of no more than what waits. Spare units of it
// go back: the log would forget them up to a ttl too early.
func (t *Terms) SpentAtOnce(w Want, g Grant) bool {
	return t.Trailing && g.Granted <= w.Waiting
}

// Unlimited is the limit of a grant for a key without one. A holder takes a key's own limit for
// this that is as large, or one unit less.
const Unlimited = limit.MaxCount

// MaxOverrides is how many overrides by key a holder can name at a time.
const MaxOverrides = 1024

// ofOverride is what holder.State.OwnLimit is for the override with the number 0. A limit in its place would be
// as large, nearly, as limits can be.
const ofOverride = Unlimited - 1 - MaxOverrides

// OwnLimit is what a reply that decides states for [holder.State.OwnLimit].
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

// Override is [Grant.Override] of the reply that stated this for [holder.State.OwnLimit].
func Override(own int64) uint16 {
	if own <= ofOverride || own >= Unlimited {
		return 0
	}
	return uint16(own - ofOverride)
}

// Scarce is below how many units left above a grant that does not cover a want is the last one for a while,
// where units trickle back. Far above, what comes back or trickles in is shared with others, and a trip takes
// longer than a client likes.
func (t *Terms) Scarce() int64 {
	switch {
	case t.Far:
		return t.Ample
	case t.Pace > 0:
		return t.WantFloor()
	}
	return 0
}

// Never is [limit.Never] in milliseconds: as a RetryAfter it means that waiting does not help.
const Never = Millis(limit.Never / limit.Millisecond)

// SlotGrant is the grant of the decision d to a holder that needs so many slots in all,
// for whoever keeps granter.Slots elsewhere. held is true if any slots of the key are held.
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
