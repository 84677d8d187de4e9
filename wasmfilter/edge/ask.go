package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// ask is a key that this worker asks the region for: first gathered, to travel
// with the next call, then in flight. There is at most one per key.
type ask struct {
	policy  *policy
	key     table.Key // its text is the ask's own
	holding *holding  // concurrency; nil otherwise
	want    lease.Want
	flying  bool
	closed  bool     // it travels in a group: a hit that comes before it is sent waits for the next one
	grouped bool     // it travelled in a group, whose other wants are decided with it
	repeats int      // how often it was asked again at once, see mostRepeats
	asked   []waiter // whom the want is for
	queue   []waiter // those who came while it was in flight
}

// waiter is a hit that waits for an answer.
type waiter struct {
	request *Request // nil: of a shadow rule, nobody really waits
	serial  uint32
	hit     int
	cost    int64
}

// live reports whether the answer still matters: the request was not decided
// otherwise, nor used for another one.
func (v *waiter) live() bool {
	return v.request == nil || v.request.serial == v.serial && v.request.Outcome == Wait
}

// of returns the hit that waits, with the ask's own copy of its key: the request's
// is gone by now.
func (v *waiter) of(a *ask) hit {
	h := hit{policy: a.policy, cost: v.cost}
	if v.request != nil {
		h = v.request.hits[v.hit]
	}
	h.key = a.key
	return h
}

// update brings the want up to those who still wait when it is sent. The least need goes
// up: a costly request must not deny those that fit. Waiters beyond the units that one want
// may have wait for the next.
func (a *ask) update() {
	var need, waiting int64
	live := a.asked[:0]
	for _, v := range a.asked {
		switch {
		case !v.live():
			continue
		case waiting+v.cost > wire.MaxUnits:
			a.queue = append(a.queue, v)
			continue
		case need == 0 || v.cost < need:
			need = v.cost
		}
		waiting += v.cost
		live = append(live, v)
	}
	a.asked = live
	a.want.Need, a.want.Waiting = need, waiting
	a.want.Next = a.want.Next && need == 0 // a request waits for this window
	a.want.Want = max(a.want.Want, waiting)
	if a.policy.terms.Consistency == lease.Exact {
		a.want.Want = waiting
	}
}

// late reports whether a request that waits for the ask has much less time left than the
// lane has for a call. A call ends with the time of the first request that it is for, and
// those that have come just now must not lose theirs.
func (a *ask) late(now lease.Millis) bool {
	for i := range a.asked {
		if v := &a.asked[i]; v.request != nil && v.live() && 8*(v.request.deadline-now) < 7*a.policy.lane.timeout {
			return true
		}
	}
	return false
}

// group returns the number that joins the wants of one request that waits for
// several keys, if nobody else waits for these; 0 otherwise. A request that waits for
// more than a group may have is decided in parts, each of them all or nothing.
func (a *ask) group(groups *uint32, f *flight) uint32 {
	if len(a.asked) != 1 || a.asked[0].request == nil || a.asked[0].request.undecided < 2 {
		return 0
	}
	r := a.asked[0].request
	if r.groupOf != f || r.grouped == wire.MaxGroup {
		*groups++
		r.groupOf, r.group, r.grouped = f, *groups, 0
	}
	r.grouped++
	return r.group
}
