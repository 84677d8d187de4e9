package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// askAll makes the undecided hits of a request wait. The deadline is by the shortest
// timeout among those that are asked for. False if that denied the request.
func (d *decider) askAll(now lease.Millis, r *Request) bool {
	r.Outcome = Wait
	r.deadline = now + bridge.LongestDuration
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && !h.policy.lane.Open {
			r.deadline = min(r.deadline, now+h.policy.terms.Timeout)
		}
	}
	return d.askNext(now, r)
}

// askNext asks for the undecided hits of a request: for all at once, unless those
// that will likely be refused have to come first. Those whose tier above does not
// answer are decided at once. False if that denied the request.
func (d *decider) askNext(now lease.Millis, r *Request) bool {
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && h.policy.lane.Open && !d.decided(now, r, i, d.fail(now, h)) {
			return false
		}
	}
	first, group := d.suspects(r)
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided || first && !h.suspect {
			continue
		}
		v := d.ask(now, h, waiter{request: r, serial: r.serial, hit: i, cost: h.cost})
		if v != lease.Wait && !d.decided(now, r, i, v) {
			return false
		}
		if a := d.uplink.asks[h.key.Hash]; group && a != nil {
			a.closed = true
		}
	}
	return true
}

// suspects decides how to ask for a request of whose undecided hits some were denied
// lately and others were not, so that nothing of the others is taken for a request
// that will likely be refused: in one group, which the tier above decides as a
// whole, or, where others wait for the same keys, for the suspects first.
func (d *decider) suspects(r *Request) (first, group bool) {
	var lane *lane
	suspects, others, apart := false, false, false
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided {
			continue
		}
		if lane == nil {
			lane = h.policy.lane
		}
		suspects, others = suspects || h.suspect, others || !h.suspect
		apart = apart || h.policy.lane != lane || d.uplink.asks[h.key.Hash] != nil
	}
	mixed := suspects && others
	return mixed && apart, mixed && !apart
}

// ask makes v, whose hit is h, wait for the answer to an ask for its key. Another
// verdict is that of a key that cannot be asked for now.
func (d *decider) ask(now lease.Millis, h *hit, v waiter) lease.Verdict {
	h.asked = true
	a := d.uplink.asks[h.key.Hash]
	switch {
	case a == nil && d.uplink.full():
		return d.fail(now, h)
	case a == nil:
		want, right := d.prepare(now, h, v.cost)
		switch right {
		case taken:
			return lease.Refuse
		case leftAlone:
			return d.take(now, h)
		}
		a = d.uplink.gather(now, h.policy, h.key, want)
		a.asked = append(a.asked, v)
	case a.flying || a.closed:
		a.queue = append(a.queue, v)
		return lease.Wait
	default:
		a.asked = append(a.asked, v)
	}
	h.policy.lane.urgent = h.policy.lane.urgent || v.request != nil
	return lease.Wait
}

// right is whether a key may be asked for.
type right uint8

const (
	granted   right = iota
	taken           // a denied exact rule: another worker asks on behalf of all
	leftAlone       // asks for the key fail, and another worker tries whether they still do
)

// prepare takes the right to ask for the key of h, and makes the want. A key that has
// no place in the table asks for no more than is waited for.
func (d *decider) prepare(now lease.Millis, h *hit, waiting int64) (lease.Want, right) {
	p := h.policy
	plain := lease.Want{Need: h.cost, Waiting: waiting, Want: waiting}
	if p.concurrency {
		return plain, granted // stated when it is sent
	}
	denied := int64(p.denials.forget(h.key.Hash))
	for range table.Tries {
		e := d.accounts.open(p, h.key)
		e.Denied += denied
		if p.exact && e.Take(&p.terms, now, h.cost).Verdict == lease.Refuse {
			h.describe(now, e, lease.Refuse)
			h.rememberDenial(now, e)
			return plain, taken
		}
		if e.Back.Off(now) {
			return plain, leftAlone
		}
		want := e.Ask(&p.terms, now, h.cost, waiting, lease.NoAsk)
		switch p.table.Commit(now) {
		case table.Stored:
			return want, granted
		case table.Full, table.Failed:
			return plain, granted
		}
	}
	return plain, granted
}

// expire decides the requests that have waited for as long as they may.
func (d *decider) expire(now lease.Millis) {
	for i := 0; i < len(d.waiting); {
		r := d.waiting[i]
		if now < r.deadline {
			i++
			continue
		}
		d.expireOne(now, r)
	}
}

// expireOne decides what is undecided of a request by on_failure.
func (d *decider) expireOne(now lease.Millis, r *Request) {
	for i := range r.hits {
		h := &r.hits[i]
		if h.state == undecided && !d.decided(now, r, i, d.fail(now, h)) {
			d.finish(now, r)
			return
		}
	}
	d.admit(r)
	d.finish(now, r)
}

// end ends a request, however it ended.
func (d *decider) end(now lease.Millis, r *Request) {
	if r.Outcome == Wait {
		d.unwait(r)
		r.Outcome = Deny
		d.untakeAll(now, r)
	}
	for i := range r.hits {
		d.slots.leave(now, &r.hits[i])
	}
	for i := range r.shadows {
		d.slots.leave(now, &r.shadows[i])
	}
	r.serial++
}
