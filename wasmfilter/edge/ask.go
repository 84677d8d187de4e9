package edge

import (
	"github.com/weirlimit/weir/internal/lease"
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
	asked   []waiter // whom the want is for
	queue   []waiter // who came while it was in flight
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

// askAll makes the undecided hits of a request wait. Those whose tier above is
// known to be failing are decided at once. False if that denied the request.
func (w *Worker) askAll(now lease.Millis, r *Request) bool {
	r.Outcome = Wait
	r.deadline = now + mostDuration
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && h.policy.line.open && !w.decided(now, r, i, w.fail(now, h)) {
			return false
		}
	}
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided {
			continue
		}
		r.deadline = min(r.deadline, now+h.policy.terms.Timeout)
		v := waiter{request: r, serial: r.serial, hit: i, cost: h.cost}
		if !w.wait(now, h.policy, h.key, v) && !w.decided(now, r, i, w.full(h)) {
			return false
		}
	}
	return true
}

// decided notes the verdict on a hit that was undecided; false if it denies the
// request.
func (w *Worker) decided(now lease.Millis, r *Request, i int, v lease.Verdict) bool {
	r.undecided--
	if v == lease.Refuse {
		w.deny(now, r, i)
		return false
	}
	r.hits[i].state = admitted
	return true
}

// wait makes v wait for the answer to an ask for its key. False if the key has no
// room in the table.
func (w *Worker) wait(now lease.Millis, p *policy, key table.Key, v waiter) bool {
	a := w.asks[key.Hash]
	switch {
	case a == nil:
		want, ok := w.prepare(now, p, key, v.cost, v.cost)
		if !ok {
			return false
		}
		a = w.gather(now, p, key, want)
		a.asked = append(a.asked, v)
	case a.flying:
		a.queue = append(a.queue, v)
		return true
	default:
		a.asked = append(a.asked, v)
	}
	p.line.urgent = p.line.urgent || v.request != nil
	return true
}

// prepare takes the right to ask for a key, with its want. False if the key has no
// room in the table.
func (w *Worker) prepare(now lease.Millis, p *policy, key table.Key, need, waiting int64) (lease.Want, bool) {
	plain := lease.Want{Need: need, Waiting: waiting, Want: waiting}
	if p.concurrency() {
		return plain, true // stated when it is sent
	}
	denied := int64(p.denials.forget(key.Hash))
	for range table.Tries {
		e := w.open(p, key)
		e.Denied += denied
		want := e.Ask(&p.terms, now, need, waiting, lease.NoAsk)
		switch p.table.Commit(now) {
		case table.Stored:
			return want, true
		case table.Full:
			return want, false
		case table.Failed:
			return plain, true
		}
	}
	return plain, true
}

// gather puts an ask for a key on the line; it travels with the next call.
func (w *Worker) gather(now lease.Millis, p *policy, key table.Key, want lease.Want) *ask {
	a := w.newAsk()
	a.policy, a.want = p, want
	a.key = table.Key{Hash: key.Hash, Rule: key.Rule, Text: append(a.key.Text[:0], key.Text...)}
	a.holding = w.holdings[key.Hash]
	w.asks[key.Hash] = a
	p.line.gather(now, a)
	return a
}

// state brings the want up to those who still wait when it is sent.
func (a *ask) state() {
	var need, waiting int64
	live := a.asked[:0]
	for _, v := range a.asked {
		if !v.live() {
			continue
		}
		if waiting += v.cost; need == 0 {
			need = v.cost
		}
		live = append(live, v)
	}
	a.asked = live
	a.want.Need, a.want.Waiting = need, waiting
	a.want.Next = a.want.Next && need == 0 // who waits, waits for this window
	a.want.Want = max(a.want.Want, waiting)
	if a.policy.terms.Consistency == lease.Exact {
		a.want.Want = waiting
	}
}

// again asks once more for those who came while the ask was in flight, or ends it.
func (w *Worker) again(now lease.Millis, a *ask) {
	a.asked, a.queue = append(a.asked[:0], a.queue...), a.queue[:0]
	a.flying = false
	a.asked = w.retake(now, a, a.asked)
	if len(a.asked) == 0 {
		w.endAsk(a)
		return
	}
	if a.policy.line.open {
		w.failWaiters(now, a)
		w.endAsk(a)
		return
	}
	want, ok := w.prepare(now, a.policy, a.key, a.asked[0].cost, 0)
	if !ok {
		for _, v := range a.asked {
			h := v.of(a)
			w.answer(now, v, &h, w.full(&h))
		}
		w.endAsk(a)
		return
	}
	a.want = want
	a.policy.line.gather(now, a)
	a.policy.line.urgent = true
}

// retake decides waiters anew by what the key has now, and returns those who still
// wait.
func (w *Worker) retake(now lease.Millis, a *ask, waiters []waiter) []waiter {
	still := waiters[:0]
	for _, v := range waiters {
		if !v.live() {
			continue
		}
		h := v.of(a)
		verdict := w.take(now, &h)
		if verdict == lease.Wait {
			still = append(still, v)
			continue
		}
		w.answer(now, v, &h, verdict)
	}
	return still
}

func (w *Worker) newAsk() *ask {
	if n := len(w.spareAsks); n > 0 {
		a := w.spareAsks[n-1]
		w.spareAsks = w.spareAsks[:n-1]
		return a
	}
	return &ask{}
}

// endAsk forgets an ask that nobody waits for any more.
func (w *Worker) endAsk(a *ask) {
	delete(w.asks, a.key.Hash)
	if len(w.spareAsks) < 256 {
		*a = ask{key: table.Key{Text: a.key.Text[:0]}, asked: a.asked[:0], queue: a.queue[:0]}
		w.spareAsks = append(w.spareAsks, a)
	}
}
