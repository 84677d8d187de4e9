package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// lane is the way to the tier above for all rules with the same timeout, enforced
// and shadow rules apart: what is to travel, and the breaker of its calls. While the
// breaker is open a lane makes no calls but probes.
type lane struct {
	timeout lease.Millis
	shadow  bool
	port    *Port

	gathered []*ask
	since    lease.Millis // when the first of what has gathered did
	urgent   bool         // requests wait for what has gathered
	returns  []report     // units to give back that are in no account any more
	soon     bool         // some of returns were taken for requests that were refused
	findings []report     // what the background scan found
	flying   int          // calls in flight

	lease.Breaker
	took lease.Millis // about the longest of the last answers
}

// report is a want that asks for nothing.
type report struct {
	policy *policy // in a call: of the account that takes the answer; nil: none does
	key    table.Key
	want   lease.Want
}

// gather puts an ask on the lane.
func (l *lane) gather(now lease.Millis, a *ask) {
	if len(l.gathered) == 0 {
		l.since = now
	}
	l.gathered = append(l.gathered, a)
}

// Asks for which no request waits gather for a moment: a call costs as much as some
// thirty wants do, and a holder tops up with a quarter of a lease left.
const (
	gatherFor  = lease.Millis(10)
	gatherMost = 64
)

// due reports whether what has gathered should travel. A worker with few requests, a quiet one,
// lets nothing gather: its next chance to send may come too late.
func (l *lane) due(now lease.Millis, quiet bool) bool {
	n := len(l.gathered)
	return n > 0 && (quiet || l.urgent || n >= gatherMost || now >= l.since+gatherFor)
}

// giveBack returns units with the next call.
func (l *lane) giveBack(p *policy, key table.Key, part lease.Part) {
	if part.Units == 0 {
		return
	}
	key.Text = append([]byte(nil), key.Text...)
	l.queue(&l.returns, report{p, key, lease.Want{Unused: part.Units, Lease: part.Lease}})
}

// returnSoon returns units that were taken for a request that was refused: others
// lack them meanwhile. They leave with the next call, at the latest when those in
// flight are answered.
func (l *lane) returnSoon(p *policy, key table.Key, part lease.Part) {
	l.soon = l.soon || part.Units > 0
	l.giveBack(p, key, part)
}

// queue puts a report into a list for the next call.
func (l *lane) queue(list *[]report, r report) {
	if len(*list) < mostReturns {
		*list = append(*list, r)
	} else {
		l.port.Counts.Lost += uint64(r.want.Unused)
	}
}

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
	asked   []waiter // hits that the want is for
	queue   []waiter // hits that came while it was in flight
}

// waiter is a hit that waits for an answer.
type waiter struct {
	request *Request // nil: of a shadow rule, whose request has gone on
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

// update fits the want to the hits that still wait when it is sent. It states the least
// need: a costly request must not deny those that fit. Waiters beyond the units that one want
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
// several keys, if no other request waits for these; 0 otherwise. A request that waits for
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
