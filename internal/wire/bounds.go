package wire

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Bounds on what a granter takes. A sender keeps within them: a want beyond them is
// answered as unavailable, alone or with its group.
const (
	MaxRuleName = 64        // bytes
	MaxKey      = 8192      // bytes: sixteen parts of the longest kind
	MaxPop      = 128       // bytes; more are not used
	MaxGroup    = 64        // wants of one group
	MaxUnits    = 1<<32 - 1 // of any number of units
)

const (
	// LongestDuration is the longest time that a holder takes from a grant; no limit
	// has a longer period.
	LongestDuration lease.Millis = 400 * 24 * 3600 * 1000
	// longestAskAfter is the longest time for which a denial keeps a holder from asking.
	longestAskAfter lease.Millis = 1000
)

// Bound cuts what a holder sends to the bounds. The names are its own business.
func (w *Want) Bound() {
	w.Need, w.Waiting, w.Want.Want = bounded(w.Need), bounded(w.Waiting), bounded(w.Want.Want)
	w.Soon = min(bounded(w.Soon), w.Want.Want-w.Waiting)
	w.Unused, w.Overdrawn, w.Denied = bounded(w.Unused), bounded(w.Overdrawn), bounded(w.Denied)
	w.Holding = bounded(w.Holding)
}

// Check is the first field of a want that a granter refuses, "" if there is none.
func (w *Want) Check() (field string) {
	need, waiting, want := uint64(w.Need), uint64(w.Waiting), uint64(w.Want.Want)
	switch {
	case len(w.Rule) > MaxRuleName:
		return "rule"
	case len(w.Key) > MaxKey:
		return "key"
	case need > waiting: // need <= waiting <= want
		return "need"
	case waiting > want:
		return "waiting"
	case want > MaxUnits:
		return "want"
	case uint64(w.Soon) > want-waiting:
		return "soon"
	case uint64(w.Unused) > MaxUnits:
		return "unused"
	case uint64(w.Overdrawn) > MaxUnits:
		return "overdrawn"
	case uint64(w.Denied) > MaxUnits:
		return "denied"
	case uint64(w.Holding) > MaxUnits:
		return "holding"
	}
	return ""
}

// For is what is wanted of a counter of a limit. What is given back to a counter of another
// shape is dropped: that counter is not in use any more.
func (w *Want) For(l *limit.Limit) lease.Want {
	want := w.Want
	if w.Shape != l.Fingerprint() {
		want.Unused = 0
	}
	return want
}

// Bounded is a grant as a holder takes it, whatever its granter sent: no status counts as
// unavailable. period is that of the limit: no lease begins later than with the next window.
func (g *Grant) Bounded(period lease.Millis) lease.Grant {
	b := g.Grant
	b.Granted, b.Limit, b.Remaining = units(g.Granted), units(g.Limit), units(g.Remaining)
	b.StartsIn, b.TTL = min(duration(g.StartsIn), period), duration(g.TTL)
	b.RetryAfter, b.Reset = duration(g.RetryAfter), duration(g.Reset)
	b.AskAfter = min(duration(g.AskAfter), longestAskAfter)
	if b.Status == 0 {
		b.Status = lease.Unavailable
	}
	return b
}

// duration and units take what is negative for the large number that it was.
func duration(d lease.Millis) lease.Millis {
	return lease.Millis(min(uint64(d), uint64(LongestDuration)))
}

func units(n int64) int64 { return int64(min(uint64(n), MaxUnits)) }

func bounded(units int64) int64 { return min(max(units, 0), MaxUnits) }
