package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// maxAsks bounds the keys that a worker asks for at once, some 300 bytes each: more than
// a region that answers in time leaves waiting. Requests for more take on_failure.
const maxAsks = 1 << 14

// asks are the keys that this worker asks the region for.
type asks struct {
	uplink *uplink.Uplink
	slots  *slots

	pending map[uint64]*ask // by hash of the key
	free    []*ask
}

// full reports whether no other key may be asked for.
func (s *asks) full() bool { return len(s.pending) >= maxAsks }

// may reports whether an ask for a key could leave now.
func (s *asks) may(p *rulebook.Policy, key table.Key) bool {
	return s.pending[key.Hash] == nil && !s.full() && !s.uplink.Lane(p).Open
}

// begin puts an ask for a key on its lane; it travels with the next call.
func (s *asks) begin(now lease.Millis, p *rulebook.Policy, key table.Key, want lease.Want) *ask {
	var a *ask
	if n := len(s.free); n > 0 {
		a, s.free = s.free[n-1], s.free[:n-1]
	} else {
		a = &ask{slots: s.slots}
	}
	a.policy, a.want = p, want
	a.key = table.Key{Hash: key.Hash, Rule: key.Rule, Text: append(a.key.Text[:0], key.Text...)}
	a.holding = s.slots.holdings[key.Hash]
	s.pending[key.Hash] = a
	s.uplink.Lane(p).Gather(now, a)
	return a
}

// end forgets an ask that no hit waits for any more.
func (s *asks) end(a *ask) {
	delete(s.pending, a.key.Hash)
	if len(s.free) < 256 {
		*a = ask{slots: s.slots, key: table.Key{Text: a.key.Text[:0]}, asked: a.asked[:0], queue: a.queue[:0]}
		s.free = append(s.free, a)
	}
}

// ask is a key that this worker asks the region for, with the hits that wait for it. There
// is at most one per key.
type ask struct {
	slots   *slots
	policy  *rulebook.Policy
	key     table.Key // its text is the ask's own
	holding *holding  // concurrency; nil otherwise
	want    lease.Want
	flying  bool
	closed  bool     // it travels in a group: a hit that comes before it is sent waits for the next one
	grouped bool     // it travelled in a group, whose other wants are decided with it
	repeats int      // how often it was asked again at once, see maxRepeats
	asked   []waiter // hits that the want is for
	queue   []waiter // hits that came while it was in flight
}

// waiter is a hit that waits for an answer.
type waiter struct {
	request *Request // nil: of a shadow rule, whose request has gone on
	serial  uint32
	hit     int
	cost    int64

	reserved *hit // of a shadow rule with count: what the answer grants is a reservation of that request
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

// Length implements [uplink.Ask].
func (a *ask) Length() int { return len(a.policy.Rule.Name) + len(a.key.Text) }

// Deadline implements [uplink.Ask].
func (a *ask) Deadline() lease.Millis {
	first := lease.Never
	for i := range a.asked {
		if v := &a.asked[i]; v.request != nil && v.live() {
			first = min(first, v.request.deadline)
		}
	}
	return first
}

// Leave implements [uplink.Ask].
func (a *ask) Leave(now lease.Millis, f *uplink.Flight) wire.Want {
	a.flying = true
	a.update()
	for i := range a.asked {
		if r := a.asked[i].request; r != nil {
			f.Trace(r.trace)
		}
	}
	m := a.named(now)
	m.Group = a.group(f)
	a.grouped = m.Group != 0
	return m
}

// named is the want as it travels. What is wanted of slots is stated when it is sent.
func (a *ask) named(now lease.Millis) wire.Want {
	if a.holding == nil {
		return a.policy.Named(a.key, &a.want)
	}
	states := a.slots.state(now, a.holding, &a.policy.Terms, a.want.Need, a.want.Waiting)
	states.Want = max(states.Want, states.Waiting)
	m := a.policy.Named(a.key, &states)
	m.SetWorker(a.slots.pop.Number)
	return m
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
	if a.policy.Terms.Consistency == lease.Exact {
		a.want.Want = waiting
	}
}

// group returns the number that joins the wants of one request that waits for
// several keys, if no other request waits for these; 0 otherwise. A request that waits for
// more than a group may have is decided in parts, each of them all or nothing.
func (a *ask) group(f *uplink.Flight) uint32 {
	if len(a.asked) != 1 || a.asked[0].request == nil || a.asked[0].request.undecided < 2 {
		return 0
	}
	r := a.asked[0].request
	if r.groupOf != f || r.grouped == wire.MaxGroup {
		r.groupOf, r.group, r.grouped = f, f.NextGroup(), 0
	}
	r.grouped++
	return r.group
}
