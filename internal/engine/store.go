package engine

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// Ask is a want of one holder for one counter, as a [Store] gets it. The policy's rule,
// override and shape of limit name the counter, together with the key.
type Ask struct {
	Policy *Policy
	// Key is the canonical key; it may be empty. It is the caller's again when
	// Acquire returns: a store copies what it keeps.
	Key []byte
	// Group joins the asks of one request, which are granted all or none; 0 is
	// alone. The asks of a group are adjacent and of different counters.
	Group uint32
	Op    Op
	Want  lease.Want

	// Region is the name of the region whose replica asks, for a limit that all regions
	// share; empty: the holder is none of them.
	Region string

	// Holder and Seq are for a Concurrency limit only. Holder is a hash of the name of a
	// holder that states what it has (Hold), or of one request (Take, Renew and Release, which
	// use Need for its cost and no group). It is 0 for nobody but who looks or resets. Seq is the number of the call in
	// which a holder states what it has; with 0 nothing is remembered of it.
	Holder uint64
	Seq    uint64
}

// Peeks reports whether an ask only reads what is left: it asks for nothing, charges
// nothing and reports nothing. The answer includes what the answering cache has on lease.
func (a *Ask) Peeks() bool {
	w := &a.Want
	return a.Op == Hold && w.Need == 0 && w.Want == 0 && w.Unused == 0 && w.Settled == 0 && w.Overdrawn == 0 && w.Denied == 0 && a.Holder == 0
}

// Changes reports whether an ask by no named holder changes a counter that nobody has used.
func (a *Ask) Changes() bool {
	w := &a.Want
	return w.Want > 0 || w.Overdrawn > 0 || w.Denied > 0 && a.Policy.Limit.ChargesRejected()
}

// GiveBack is the ask that returns what another one was granted.
func (a *Ask) GiveBack(g *lease.Grant) Ask {
	back := Ask{Policy: a.Policy, Key: a.Key, Holder: a.Holder, Seq: a.Seq, Want: lease.Want{Holding: a.Want.Holding}}
	switch {
	case !a.Policy.Limit.Concurrent():
		back.Want.Unused, back.Want.Lease = g.Granted, g.Lease
	case a.Op != Hold:
		back.Op = Release
	}
	return back
}

// Op is what an ask does. The zero value is Hold, which is all that holders of units do.
type Op uint8

// The operations. Take, Renew and Release are of a Concurrency limit only.
const (
	Hold    Op = iota // a holder asks for units or states, in absolute numbers, which slots it has and wants
	Take              // a request takes its cost, all or nothing
	Renew             // a request goes on holding what it has; Denied if that ran out
	Release           // a request gives back what it has

	// Look reads a counter for an operator, and goes past caches. Its want is zero, and it has no group and no
	// holder. Of the grant, Remaining is what the store itself has left, Granted the units that are out on lease or
	// were spent of such a lease, TTL until when the last lease ends, and RetryAfter until there is a unit (0: there is
	// one). Granted and RetryAfter are 0 for slots and where the store is that of another tier.
	Look
	// Reset empties the counter, and is Look. What is out on lease stays with its holders, so at most the limit and
	// Granted are admitted after it (Granted is two limits at most: reset again before such leases end, and it may
	// be more). Slots that are held stay. Caches that pass it forget their denials; others ask again
	// after lease.LongestAskAfter.
	Reset
)

// Operates reports whether what is done is for an operator, and not for a request: nothing is granted.
func (o Op) Operates() bool { return o >= Look }

// A Store keeps counters and decides on them. It is safe for concurrent use.
//
// What implementers guarantee:
//
//   - Per counter, asks are applied one after the other, each as
//     [granter.Counter.Acquire] would (for Concurrency: [AcquireSlots]), to the last
//     unit, on one clock that all callers of the store share.
//   - Each ask is applied at most once. The service has dropped repeated calls; a store
//     never sends anything twice, also not after an error.
//   - A debt that has a name (Want.Debt, made by [DebtID]) is charged once, whoever repeats
//     it, as long as it is repeated within ten minutes. granter.Counter has no names, so the
//     store takes out what it has charged before.
//   - Of a group, either every ask that can be decided is granted its need, or
//     nothing is charged: asks that lack their need are Denied, the others are OK
//     with nothing granted. What they give back and report is applied anyway. An
//     Unavailable member does not delay the others: its rule's on_failure decides on
//     it.
//   - Acquire returns by the deadline of ctx. Asks that are not decided by then,
//     or that there is no room to count, are Unavailable; the others are not
//     affected. An ask answered Unavailable may have been charged, at most once:
//     that under-admits until the charge expires.
//   - Calls over a network are traced for the spans of ctx (telemetry.Waiting); a store
//     that gathers asks of several callers traces them for all.
//   - Memory is bounded. Only a counter that equals a fresh one, of which nothing
//     is out on lease, is ever evicted; if no such counter is left, new keys are
//     Unavailable.
//   - A counter that is unknown is fresh. That admits at most one more limit for the
//     period in which it was lost.
type Store interface {
	// Acquire answers each of asks in the grant of the same index. The two have
	// the same length; what grants held before is overwritten. It does not keep
	// either of them.
	Acquire(ctx context.Context, asks []Ask, grants []lease.Grant)
}

// DefaultPatience is how long a caller without a deadline waits.
const DefaultPatience = time.Second

// GroupLen is how many of the first asks belong together: 1 for one that is alone.
func GroupLen(asks []Ask) int {
	n := 1
	for asks[0].Group != 0 && n < len(asks) && asks[n].Group == asks[0].Group {
		n++
	}
	return n
}

// AcquireSlots applies an ask for a Concurrency limit to the slots of its key.
func AcquireSlots(s *granter.Slots, now limit.Micros, a *Ask) lease.Grant {
	l, t := a.Policy.Limit, &a.Policy.Terms
	switch a.Op {
	case Take:
		return s.Take(l, t, now, a.Holder, a.Want.Need)
	case Renew:
		return s.Renew(l, t, now, a.Holder)
	case Release, Look, Reset: // who looks holds nothing
		return s.Release(l, t, now, a.Holder)
	}
	return s.Acquire(l, t, now, a.Holder, a.Seq, a.Want)
}

// AcquireUnits applies an ask for a limit on units to the counter of its key.
func AcquireUnits(c *granter.Counter, now limit.Micros, a *Ask) lease.Grant {
	l, t := a.Policy.Limit, &a.Policy.Terms
	switch a.Op {
	case Look:
		return c.Look(l, t, now)
	case Reset:
		return c.Reset(l, t, now)
	}
	return c.Acquire(l, t, now, a.Want)
}

// A Cell is one stored value that all who share a store swap by compare-and-set, with the clock of that store. It is
// safe for concurrent use.
type Cell interface {
	// Swap stores next if what is stored equals old; nil old: nothing is stored. With nil next it only reads. found is
	// what was stored before, nil for nothing: next is stored if it equals old. now is the time of the store when it
	// did that; the caller does not change it. Neither old nor next is kept, and neither is ever empty but for nil.
	//
	// It returns by the deadline of ctx. After an error it is unknown whether next was stored; it is never sent
	// twice.
	Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error)
}
