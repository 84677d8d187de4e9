package lease

import "github.com/weirlimit/weir/internal/limit"

// lent is what a node has handed out of one lease and did not get back. What was spent
// counts too, since nobody reports it.
type lent struct {
	lease uint32
	units int64  // at most twice the capacity, as of a [Counter]
	until Millis // when the last of it ends; 0: never was any
}

// lendMemory is how long after that units still come back: holders look through their
// idle keys at leisure.
const lendMemory = Millis(leaseMemory / limit.Millisecond)

// lentOf is what the node has handed out of a lease; nil if it has cut none of it lately.
func (n *Relay) lentOf(now Millis, lease uint32) *lent {
	for i := range n.lent {
		if l := &n.lent[i]; l.lease == lease && l.until > 0 && now < l.until+lendMemory {
			return l
		}
	}
	return nil
}

// lend notes units that are handed out. Of more leases than it can note the node takes
// nothing back: it goes up.
func (n *Relay) lend(t *Terms, now Millis, lease uint32, units int64, until Millis) {
	if units == 0 {
		return
	}
	l := n.lentOf(now, lease)
	if l == nil {
		if l = &n.lent[0]; n.lent[1].until < l.until {
			l = &n.lent[1]
		}
		*l = lent{lease: lease}
	}
	l.units = min(l.units+units, 2*t.Capacity)
	l.until = max(l.until, until, 1)
}

// Lies reports whether so many units cannot have been granted: what says that they come
// back is not believed at all.
func (t *Terms) Lies(unused int64) bool { return unused > 2*t.Capacity }
