package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
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
	closed  bool     // it travels in a group: who comes before it is sent waits for the next one
	grouped bool     // it travelled in a group, whose other wants are decided with it
	repeats int      // how often it was asked again at once, see mostRepeats
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

// askAll makes the undecided hits of a request wait, for as long as those of them may that
// are asked for. False if that denied the request.
func (w *Worker) askAll(now lease.Millis, r *Request) bool {
	r.Outcome = Wait
	r.deadline = now + bridge.LongestDuration
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && !h.policy.line.open {
			r.deadline = min(r.deadline, now+h.policy.terms.Timeout)
		}
	}
	return w.askNext(now, r)
}

// askNext asks for the undecided hits of a request: for all at once, unless those
// that will likely be refused have to come first. Those whose tier above is known
// to be failing are decided at once. False if that denied the request.
func (w *Worker) askNext(now lease.Millis, r *Request) bool {
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && h.policy.line.open && !w.decided(now, r, i, w.fail(now, h)) {
			return false
		}
	}
	first, group := w.suspects(r)
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided || first && !h.suspect {
			continue
		}
		v := w.wait(now, h, waiter{request: r, serial: r.serial, hit: i, cost: h.cost})
		if v != lease.Wait && !w.decided(now, r, i, v) {
			return false
		}
		if a := w.asks[h.key.Hash]; group && a != nil {
			a.closed = true
		}
	}
	return true
}

// suspects says how to ask for a request of whose undecided hits some were denied
// lately and others were not, so that nothing of the others is taken for a request
// that will likely be refused: in one group, which the tier above decides as a
// whole, or, where others wait for the same keys, for the suspects first.
func (w *Worker) suspects(r *Request) (first, group bool) {
	var line *line
	suspects, others, apart := false, false, false
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided {
			continue
		}
		if line == nil {
			line = h.policy.line
		}
		suspects, others = suspects || h.suspect, others || !h.suspect
		apart = apart || h.policy.line != line || w.asks[h.key.Hash] != nil
	}
	mixed := suspects && others
	return mixed && apart, mixed && !apart
}

// resume goes on with a request that has been granted all that it asked for: what
// was left for later is taken, or asked for. False if that denied the request.
func (w *Worker) resume(now lease.Millis, r *Request) bool {
	if r.undecided == 0 {
		return true
	}
	for i := range r.hits {
		if h := &r.hits[i]; h.state == undecided && h.asked {
			return true // its answer is still to come
		}
	}
	for i := range r.hits {
		h := &r.hits[i]
		if h.state != undecided {
			continue
		}
		v := lease.Refuse
		if !w.refusedBefore(now, h) {
			v = w.take(now, h)
		}
		if v != lease.Wait && !w.decided(now, r, i, v) {
			return false
		}
	}
	return w.askNext(now, r)
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

// wait makes v, whose hit is h, wait for the answer to an ask for its key. Another
// verdict is that of a key that cannot be asked for now.
func (w *Worker) wait(now lease.Millis, h *hit, v waiter) lease.Verdict {
	h.asked = true
	a := w.asks[h.key.Hash]
	switch {
	case a == nil && len(w.asks) >= mostAsks:
		return w.fail(now, h)
	case a == nil:
		want, right := w.prepare(now, h, v.cost)
		switch right {
		case taken:
			return lease.Refuse
		case leftAlone:
			return w.take(now, h)
		}
		a = w.gather(now, h.policy, h.key, want)
		a.asked = append(a.asked, v)
	case a.flying || a.closed:
		a.queue = append(a.queue, v)
		return lease.Wait
	default:
		a.asked = append(a.asked, v)
	}
	h.policy.line.urgent = h.policy.line.urgent || v.request != nil
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
func (w *Worker) prepare(now lease.Millis, h *hit, waiting int64) (lease.Want, right) {
	p := h.policy
	plain := lease.Want{Need: h.cost, Waiting: waiting, Want: waiting}
	if p.concurrency() {
		return plain, granted // stated when it is sent
	}
	denied := int64(p.denials.forget(h.key.Hash))
	for range table.Tries {
		e := w.open(p, h.key)
		e.Denied += denied
		if p.exact() && e.Take(&p.terms, now, h.cost).Verdict == lease.Refuse {
			w.describe(now, h, e, lease.Refuse)
			w.rememberDenial(now, h, e)
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

// state brings the want up to those who still wait when it is sent. The least need goes
// up: a costly request must not deny those that fit. Who comes to more units than one want
// may have waits for the next.
func (a *ask) state() {
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
	a.want.Next = a.want.Next && need == 0 // who waits, waits for this window
	a.want.Want = max(a.want.Want, waiting)
	if a.policy.terms.Consistency == lease.Exact {
		a.want.Want = waiting
	}
}

// again asks once more for those who came while the ask was in flight, or ends it.
func (w *Worker) again(now lease.Millis, a *ask) {
	a.asked, a.queue = append(a.asked[:0], a.queue...), a.queue[:0]
	a.flying, a.closed, a.grouped = false, false, false
	for {
		a.asked = w.retake(now, a, a.asked)
		if len(a.asked) == 0 {
			break
		}
		if a.policy.line.open {
			w.failWaiters(now, a)
			break
		}
		h := a.asked[0].of(a)
		if want, right := w.prepare(now, &h, 0); right == granted {
			a.want = want
			a.policy.line.gather(now, a)
			a.policy.line.urgent = true
			return
		}
	}
	w.endAsk(a)
}

// retake decides waiters anew by what the key has now, and returns those who still
// wait. Of those whom a denial would refuse one asks, and the others are refused.
func (w *Worker) retake(now lease.Millis, a *ask, waiters []waiter) []waiter {
	still, probing := waiters[:0], false
	for _, v := range waiters {
		if !v.live() {
			continue
		}
		h := v.of(a)
		verdict := w.take(now, &h)
		if verdict == lease.Wait && h.probes && probing {
			verdict, h.report.Remaining = lease.Refuse, 0
			h.retry(now, now+whileAsking)
		}
		if verdict == lease.Wait {
			probing = probing || h.probes
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
