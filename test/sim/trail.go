package sim

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/limit"
)

// trail is what a sliding log has admitted, as far as a trailing window may still count it.
// A waiting request counts from when it was charged, so the order is known afterwards.
type trail struct {
	entries []charged
	first   int   // of the window that ends with the last entry that was checked
	next    int   // the first entry that was not checked; those before it are in order
	sum     int64 // of the entries from first to next
}

// charged is units of a sliding log at the time from which they count.
type charged struct {
	at    limit.Micros
	units int64
}

func (t *trail) add(at limit.Micros, units int64) { t.entries = append(t.entries, charged{at, units}) }

// checkLog checks every trailing window of a sliding log that ends by then.
func (ref *referee) checkLog(a *account, t *trail, until limit.Micros) {
	bound, period := a.most+ref.allowance(a)+ref.apart(a), a.rule.Limit.Spec().Period
	slices.SortStableFunc(t.entries[t.next:], func(x, y charged) int { return cmp.Compare(x.at, y.at) })
	for ; t.next < len(t.entries) && t.entries[t.next].at <= until; t.next++ {
		c := t.entries[t.next]
		for t.sum += c.units; t.entries[t.first].at <= c.at-period; t.first++ {
			t.sum -= t.entries[t.first].units
		}
		if t.sum > bound {
			ref.fail(1, "%v: %d admitted in a trailing window of at most %d", a.key, t.sum, bound)
		}
	}
}

// forget drops the entries that no window will count that is still to be checked.
func (t *trail) forget() {
	t.entries = slices.Delete(t.entries, 0, t.first)
	t.next -= t.first
	t.first = 0
}
