package limiter

import (
	"context"

	"github.com/weirlimit/weir/internal/lease"
)

// Ask is a want of one holder for one counter, as a [Store] sees it. The counter
// is named by the policy's rule, override and shape of limit, and by the key.
type Ask struct {
	Policy *Policy
	// Key is the canonical key; it may be empty. It is the caller's again when
	// Acquire returns: a store copies what it keeps.
	Key []byte
	// Group joins the asks of one request, which are granted all or none; 0 is
	// alone. The asks of a group are adjacent and of different counters.
	Group uint32
	// Want is what is asked, given back and reported. For a Concurrency limit
	// Need and Waiting count slots beyond Holding, Want counts slots in all, and
	// the rest is without meaning.
	Want lease.Want
	// Returned is what of Want.Unused holders told over a network. The rest of it is the
	// caller's own word, which nothing doubles.
	Returned []Returned

	// Op, Holder, Seq and Holding are for a Concurrency limit only. Holder is a
	// hash of who holds, never 0: of a holder that states what it has (Hold), or of
	// one request (the other operations, which use Need for its cost and no group).
	// Holding is how many slots a holder has in use, as of its call number Seq; 0
	// says that it has none and remembers none.
	Op      SlotOp
	Holder  uint64
	Seq     uint64
	Holding int64

	// Former is a hash of the holder, never 0, if it has dealt with a life of the store
	// before this one, so that what it remembers (Want.Left, Want.Reset) may be of then;
	// 0: it has not.
	Former uint64
}

// Peeks reports an ask that only wants to know what is left: it asks for nothing, charges
// nothing and tells nothing. What it is told includes what whoever answers has on lease.
func (a *Ask) Peeks() bool {
	w := &a.Want
	return w.Need == 0 && w.Want == 0 && w.Unused == 0 && w.Overdrawn == 0 && w.Denied == 0 && a.Holder == 0
}

// Returned is units that a holder gave back, under a name that every copy of its call gives
// them: see [ReturnID].
type Returned struct {
	Name  uint64
	Units int64
}

// SlotOp is what an ask does to the slots of a Concurrency limit. The zero value
// is Hold.
type SlotOp uint8

// The operations.
const (
	Hold    SlotOp = iota // a holder states, in absolute numbers, what it has and wants
	Take                  // a request takes its cost, all or nothing
	Renew                 // a request goes on holding what it has; Denied if that ran out
	Release               // a request gives back what it has
)

// A Store keeps counters and decides on them. It is safe for concurrent use.
//
// What implementers guarantee:
//
//   - Per counter, asks are applied one after the other, each as
//     [lease.Counter.Acquire] would (for Concurrency: [AcquireSlots]), to the last
//     unit, on one clock that all callers of the store share.
//   - Each ask is applied at most once. The service has dropped the calls that it
//     saw before; a store never sends anything twice, also not after an error.
//   - A debt that has a name (Want.Debt) is charged once, whoever repeats it, for as long
//     as it is told again within ten minutes: lease.Counter does not know names, so the
//     store takes out what it has charged before. Want.Debt is made by [DebtID].
//   - What is given back under a name (Ask.Returned) is taken back once, whichever replica
//     brings it, for at least a minute: longer than a call is on its way. The store takes
//     out of Want.Unused what it has taken back before, and what it cannot remember: that
//     wastes units, and mints none.
//   - Of a group, either every ask that can be decided is granted its need, or
//     nothing is charged: asks that lack their need are Denied, the others are OK
//     with nothing granted. What they give back and report is applied anyway. An
//     Unavailable member does not hold up the others: its rule's on_failure
//     decides on it.
//   - Acquire returns by the deadline of ctx. Asks that are not decided by then,
//     or that there is no room to count, are Unavailable; the others are not
//     affected. An ask answered Unavailable may have been charged, at most once:
//     that under-admits until the charge expires.
//   - Memory is bounded. Only a counter that equals a fresh one, of which nothing
//     is out on lease, is ever forgotten; where no such counter is left, new keys
//     are Unavailable.
//   - A counter that is unknown is fresh. That admits at most one more limit for the
//     period in which it was lost. A store that lost all that it counted since some
//     moment has another epoch than before, and lowers a counter to what a holder
//     remembers from before ([lease.Counter.Recall]): once for each counter and holder
//     with Ask.Former, of policies that were there when it started, and only for as
//     long afterwards as a counter remembers anything. A store whose parts can be lost
//     one by one (the shards of a cluster), and a cache, need not do that; such a
//     store's epoch never changes.
type Store interface {
	// Acquire answers each of asks in the grant of the same index. The two have
	// the same length; what grants held before is overwritten. It does not keep
	// either of them.
	Acquire(ctx context.Context, asks []Ask, grants []lease.Grant)

	// Epoch is never 0 and changes when the counters were lost, in a store that
	// hears what holders remember of them.
	Epoch() uint64
}

// GroupLen is how many of the first asks belong together: 1 for one that is alone.
func GroupLen(asks []Ask) int {
	n := 1
	for asks[0].Group != 0 && n < len(asks) && asks[n].Group == asks[0].Group {
		n++
	}
	return n
}
