// Package bridge translates between the wants and grants of package lease and those
// of package wire, for both sides of a call:
//
//	holder:  WantToWire, HoldingToWire   GrantFromWire
//	granter: WantFromWire, OutOfRange    GrantToWire
//
// What one side writes the other reads unchanged, as far as it is within the bounds
// of the protocol. Beyond them a holder writes the bound, a granter refuses the want,
// and a holder that reads a grant cuts it to what it can work with. The names in a
// want (rule, variant, override, key, group) and of a debt are the callers' business.
package bridge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

const (
	// LongestDuration is the longest time that a holder takes from a grant; no limit
	// has a longer period.
	LongestDuration lease.Millis = 400 * 24 * 3600 * 1000
	// longestAskAfter is the longest time for which a denial keeps a holder from asking.
	longestAskAfter lease.Millis = 1000
)

// WantToWire is a want for units of a limit.
func WantToWire(l *limit.Limit, w *lease.Want) wire.Want {
	return wire.Want{
		Need:      bounded(w.Need),
		Waiting:   bounded(w.Waiting),
		Want:      bounded(w.Want),
		Soon:      min(bounded(w.Soon), bounded(w.Want)-bounded(w.Waiting)),
		Unused:    bounded(w.Unused),
		Lease:     leaseToWire(l, w.Lease),
		Overdrawn: bounded(w.Overdrawn),
		Debt:      w.Debt,
		Denied:    bounded(w.Denied),
		Fresh:     w.Fresh,
		Next:      w.Next,
		Left:      bounded(w.Left),
		ResetMs:   uint64(w.Reset),
	}
}

// HoldingToWire is the want of one worker of a holder for concurrency slots, of which
// the requests that wait need so many. The lease is the worker's number.
func HoldingToWire(worker uint64, w *lease.SlotWant, waiting int64) wire.Want {
	return wire.Want{
		Need:    bounded(w.Need),
		Waiting: bounded(waiting),
		Want:    bounded(max(w.Want, waiting)),
		Holding: bounded(w.Holding),
		Lease:   worker,
	}
}

// OutOfRange is the first field of a want that is out of range, "" if none is.
func OutOfRange(m *wire.Want) (field string) {
	switch {
	case len(m.Rule) > wire.MaxRuleName:
		return "rule"
	case len(m.Key) > wire.MaxKey:
		return "key"
	case m.Need > m.Waiting: // need <= waiting <= want
		return "need"
	case m.Waiting > m.Want:
		return "waiting"
	case m.Want > wire.MaxUnits:
		return "want"
	case m.Soon > m.Want-m.Waiting:
		return "soon"
	case m.Unused > wire.MaxUnits:
		return "unused"
	case m.Overdrawn > wire.MaxUnits:
		return "overdrawn"
	case m.Denied > wire.MaxUnits:
		return "denied"
	case m.Holding > wire.MaxUnits:
		return "holding"
	case !returnsUnused(m):
		return "returned"
	}
	return ""
}

// returnsUnused reports whether what came from holders of the holder has names, and is
// part of what is unused.
func returnsUnused(m *wire.Want) bool {
	var sum uint64
	for _, r := range m.Returned {
		if r.Name == 0 || r.Units > wire.MaxUnits {
			return false
		}
		sum += r.Units
	}
	return sum <= m.Unused
}

// WantFromWire is a want that is not [OutOfRange], and how many slots its holder
// states that it holds. What is given back to a counter of another shape, or
// remembered of it, is dropped: that counter is not in use any more.
func WantFromWire(l *limit.Limit, m *wire.Want) (w lease.Want, holding int64) {
	w = lease.Want{
		Need:      int64(m.Need),
		Waiting:   int64(m.Waiting),
		Want:      int64(m.Want),
		Soon:      int64(m.Soon),
		Unused:    int64(m.Unused),
		Lease:     uint32(m.Lease),
		Overdrawn: int64(m.Overdrawn),
		Debt:      m.Debt,
		Denied:    int64(m.Denied),
		Fresh:     m.Fresh,
		Next:      m.Next,
		Left:      int64(min(m.Left, uint64(limit.MaxCount))),
		Reset:     lease.Millis(min(m.ResetMs, uint64(lease.Never))),
	}
	if uint32(m.Lease>>32) != l.Fingerprint() {
		w.Unused, w.Reset = 0, 0
	}
	return w, int64(m.Holding)
}

// GrantToWire is a grant of units of a limit. A grant of slots has no lease: its
// caller repeats the lease of the want.
func GrantToWire(l *limit.Limit, g *lease.Grant) wire.Grant {
	return wire.Grant{
		Status:       wire.Status(g.Status),
		Granted:      uint64(g.Granted),
		Lease:        leaseToWire(l, g.Lease),
		StartsInMs:   uint64(g.StartsIn),
		TTLMs:        uint64(g.TTL),
		RetryAfterMs: durationToWire(g.RetryAfter),
		AskAfterMs:   uint64(g.AskAfter),
		Limit:        uint64(g.Limit),
		Remaining:    uint64(g.Remaining),
		ResetMs:      durationToWire(g.Reset),
		StillOwed:    g.StillOwed,
	}
}

// GrantFromWire is a grant, whatever its granter sent: an unknown status counts as
// unavailable. period is that of the limit: no lease begins later than with the next
// window.
func GrantFromWire(m *wire.Grant, period lease.Millis) lease.Grant {
	g := lease.Grant{
		Status:     lease.Status(m.Status),
		Granted:    units(m.Granted),
		Lease:      uint32(m.Lease),
		StartsIn:   min(duration(m.StartsInMs), period),
		TTL:        duration(m.TTLMs),
		RetryAfter: duration(m.RetryAfterMs),
		AskAfter:   min(duration(m.AskAfterMs), longestAskAfter),
		Limit:      units(m.Limit),
		Remaining:  units(m.Remaining),
		Reset:      duration(m.ResetMs),
		StillOwed:  m.StillOwed,
	}
	if m.Status < wire.StatusOK || m.Status > wire.StatusUnknownRule {
		g.Status = lease.Unavailable
	}
	return g
}

// leaseToWire names a lease: the shape of the counter that was charged, and the period.
func leaseToWire(l *limit.Limit, period uint32) uint64 {
	return uint64(l.Fingerprint())<<32 | uint64(period)
}

// durationToWire has a value of its own for what never comes.
func durationToWire(d lease.Millis) uint64 {
	if d >= lease.Never {
		return wire.NeverMs
	}
	return uint64(d)
}

func duration(ms uint64) lease.Millis { return lease.Millis(min(ms, uint64(LongestDuration))) }
func units(n uint64) int64            { return int64(min(n, wire.MaxUnits)) }
func bounded(units int64) uint64      { return uint64(min(max(units, 0), wire.MaxUnits)) }
