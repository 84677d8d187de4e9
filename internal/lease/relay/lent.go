package relay

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// lent is how many units of one lease a relay has lent and did not get back, including spent units, which are not reported.
type lent struct {
	lease uint32
	units int64        // at most twice the capacity, as of a [granter.Counter]
	until lease.Millis // when the last of it ends; 0: none was handed out
}

// lentOf is the record of a lease that the relay has lent of, or nil.
func (r *Relay) lentOf(now lease.Millis, of uint32) *lent {
	for i := range r.lent {
		if l := &r.lent[i]; l.lease == of && l.until > 0 && now < l.until+lease.Millis(granter.LeaseMemory/limit.Millisecond) {
			return l
		}
	}
	return nil
}

// lend records units that are lent. The relay records two leases; units of other leases go back to its granter. So do
// all units of a token bucket and of an exact rule, for which the relay holds no lease that could take them.
func (r *Relay) lend(t *lease.Terms, now lease.Millis, of uint32, units int64, until lease.Millis) {
	if units == 0 || t.Refills || t.Consistency == lease.Exact {
		return
	}
	l := r.lentOf(now, of)
	if l == nil {
		if l = &r.lent[0]; r.lent[1].until < l.until {
			l = &r.lent[1]
		}
		*l = lent{lease: of}
	}
	l.units = min(l.units+units, 2*t.Capacity)
	l.until = max(l.until, until, 1)
}

// lends reports whether a lease that the relay has cut still runs.
func (r *Relay) lends(now lease.Millis) bool { return now < max(r.lent[0].until, r.lent[1].until) }
