package edge

import (
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// wait begins the wait of a request of which some hits are undecided, unless asking
// for them decides it. The deadline is by the shortest timeout among those that are
// asked for.
func (d *decider) wait(now lease.Millis, r *Request) {
	if d.port.Trace != nil {
		r.trace = strings.Clone(uplink.TraceParent(d.port.Trace()))
	}
	r.keepKeys()
	r.Outcome, r.deadline = Wait, now+wire.LongestDuration
	for i := range r.hits {
		if h := &r.hits[i]; h.verdict == holder.Wait && !d.uplink.Lane(h.policy).Open {
			r.deadline = min(r.deadline, now+h.policy.Terms.Timeout)
		}
	}
	if !d.askNext(now, r) {
		return
	}
	if r.undecided == 0 {
		d.admit(now, r)
		return
	}
	for i := range r.hits {
		if h := &r.hits[i]; h.verdict == holder.Wait {
			h.policy.Counts.Waited++
		}
	}
	r.waiting = len(d.waiting)
	d.waiting = append(d.waiting, r)
}

// askNext asks for the undecided hits of a request: for all at once, unless those
// that will likely be rejected have to come first. Those whose region does not
// answer are decided at once. False if that denied the request.
func (d *decider) askNext(now lease.Millis, r *Request) bool {
	if !d.failUndecided(now, r, false) {
		return false
	}
	first, group := d.suspects(r)
	for i := range r.hits {
		h := &r.hits[i]
		if h.verdict != holder.Wait || first && !h.suspect {
			continue
		}
		v := d.ask(now, h, waiter{request: r, serial: r.serial, hit: i, cost: h.cost})
		if v != holder.Wait && !d.decided(now, r, i, v) {
			return false
		}
		if a := d.asks.pending[h.key.Hash]; group && a != nil {
			a.closed = true
		}
	}
	return true
}

// suspects decides how to ask for a request if some of its undecided hits were denied
// lately and others were not, so that nothing of the others is taken for a request
// that will likely be rejected: in one group, which the region decides as a
// whole, or, where others wait for the same keys, for the suspects first.
func (d *decider) suspects(r *Request) (first, group bool) {
	lane, suspects, others, apart := -1, false, false, false
	for i := range r.hits {
		h := &r.hits[i]
		if h.verdict != holder.Wait {
			continue
		}
		if lane < 0 {
			lane = h.policy.Lane
		}
		suspects, others = suspects || h.suspect, others || !h.suspect
		apart = apart || h.policy.Lane != lane || d.asks.pending[h.key.Hash] != nil
	}
	mixed := suspects && others
	return mixed && apart, mixed && !apart
}

// ask makes v, whose hit is h, wait for the answer to an ask for its key. Another
// verdict is that of a key that cannot be asked for now.
func (d *decider) ask(now lease.Millis, h *hit, v waiter) holder.Verdict {
	h.asked = true
	a := d.asks.pending[h.key.Hash]
	switch {
	case a == nil && d.asks.full():
		return d.fail(now, h)
	case a == nil:
		want, right := d.right(now, h, v.cost)
		switch right {
		case holder.Reject:
			return holder.Reject
		case holder.Unanswered:
			return d.take(now, h)
		}
		a = d.asks.begin(now, h.policy, h.key, want)
		a.asked = append(a.asked, v)
	case a.flying || a.closed:
		a.queue = append(a.queue, v)
		return holder.Wait
	default:
		a.asked = append(a.asked, v)
	}
	if v.request != nil {
		d.uplink.Lane(h.policy).MarkUrgent()
	}
	return holder.Wait
}

// revisit decides by on_failure the requests that have waited for as long as they may, unless the tick
// is late, and asks again for those that wait and of which nothing is asked for.
func (d *decider) revisit(now lease.Millis, late bool) {
	for i := 0; i < len(d.waiting); {
		r, goesOn := d.waiting[i], false
		if late || now < r.deadline {
			goesOn = d.resume(now, r)
		} else {
			goesOn = d.failUndecided(now, r, true)
		}
		if !d.finish(now, r, goesOn) {
			i++
		}
	}
}

// failUndecided decides by on_failure what is undecided of a request: all of it, or what
// waits for a tier that does not answer. False if that denied the request.
func (d *decider) failUndecided(now lease.Millis, r *Request, all bool) bool {
	for i := range r.hits {
		h := &r.hits[i]
		if h.verdict == holder.Wait && (all || d.uplink.Lane(h.policy).Open) && !d.decided(now, r, i, d.fail(now, h)) {
			return false
		}
	}
	return true
}

// end ends a request, however it ended.
func (d *decider) end(now lease.Millis, r *Request) {
	d.settleBy(now, r, &settle.Response{Ends: true})
	r.leaveSheds()
	if r.Outcome == Wait {
		d.unwait(r)
		r.Outcome = Deny
		d.refundAll(now, r)
	}
	for i := range r.hits {
		d.slots.leave(now, &r.hits[i])
	}
	for i := range r.shadows {
		d.slots.leave(now, r.shadows[i])
	}
	r.serial++
}
