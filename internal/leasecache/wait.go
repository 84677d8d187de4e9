package leasecache

import (
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/telemetry"
)

// waiter is an ask that waits for its grant.
type waiter struct {
	want    lease.Want
	answers *answers
	at      int          // index of the grant
	ends    lease.Millis // the caller's deadline; 0: it is not in a queue
	next    bool         // for a lease of the next window, which begins soon
}

// wait lets an ask wait for its key; its give-backs are settled. If no ask of the key is
// out, this call sends one, or the agenda does as soon as the budget allows it. An ask
// whose deadline is too close for that is denied: it is no failure of the store that the
// key is asked for too often, and on_failure would let a flood pass. While the store does
// not answer nobody waits.
func (q *acquisition) wait(k key, a *engine.Ask, i int, by stage) {
	v := &k.Value
	if v.out == 0 && q.now < v.pause {
		q.unavailable(i)
		return
	}
	ends := q.deadline(by)
	free := v.out == 0 && len(v.waiting) == 0
	delay := k.asksIn(q.now, a.Want.Need)
	if v.out == 0 && q.store.tooLate(q.now, delay, ends) {
		q.grants[i] = k.outOfTime(q.now, a.Want.Need, delay)
		q.answered(lease.Refuse)
		return
	}
	w := waiter{want: onlyAsk(a.Want), answers: q.await(i, by), at: i, ends: ends}
	if w.next = k.awaitNext(q.now, w); w.next {
		v.waiting = append(v.waiting, w)
		return
	}
	q.store.waited.Add(uint64(a.Want.Waiting))
	if free && delay == 0 {
		q.asking().ask(q.now, k, []waiter{w}, lease.NoAsk, 0)
		return
	}
	v.waiting = append(v.waiting, w)
	if v.out == 0 {
		k.schedule(q.now, waited)
	}
}

// awaitNext puts the key on the agenda for when a lease of the next window begins, if that is before the
// tier above could answer and the lease has enough for all that wait. Else it is false.
func (k key) awaitNext(now lease.Millis, w waiter) bool {
	v := &k.Value
	in, units := v.relay.Account.Next(&k.Policy.Terms, now)
	if in == 0 || w.want.Next || w.want.Need == 0 || v.out > 0 || k.store.tooLate(now, in, w.ends) {
		return false
	}
	units -= w.want.Need
	for i := range v.waiting { // those that came within a trip
		units -= v.waiting[i].want.Need
	}
	if units < 0 {
		return false
	}
	if at := now + in; v.due != waited || v.dueAt > at {
		v.due, v.dueAt = waited, at
		k.store.due.add(dueKey{key: k, at: at}, in)
	}
	return true
}

// onlyAsk is a want without what has been settled already.
func onlyAsk(w lease.Want) lease.Want {
	return lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next && w.Want > 0}
}

// tooLate reports whether an ask that is sent after a delay is answered too late for a
// caller that leaves at ends. Half of the caller's time is kept for the answer, at most
// what one usually takes.
func (s *Store) tooLate(now, delay, ends lease.Millis) bool {
	left := ends - now
	return delay > 0 && delay+min(left/2, lease.Millis(s.answers.Milliseconds())) >= left
}

// outOfTime denies an ask that cannot wait until its key may be asked for.
func (k key) outOfTime(now lease.Millis, need int64, delay lease.Millis) lease.Grant {
	account, t := &k.Value.relay.Account, &k.Policy.Terms
	if t.ChargesDenied {
		account.Deny(t, now, need)
	}
	need = max(need, 1)
	after := delay
	if account.Left < need {
		after = max(after, account.Retry(t, now, need))
	}
	return lease.Grant{
		Status: lease.Denied, RetryAfter: after, AskAfter: delay,
		Limit: t.Capacity, Remaining: account.Left, Reset: max(0, account.Reset-now),
	}
}

// stage is by when an ask needs its answer.
type stage uint8

const (
	atEnd  stage = iota // when the call ends
	atHalf              // when half of its time is over: others of its group are asked for then
)

// deadline is the end of a stage.
func (q *acquisition) deadline(of stage) lease.Millis {
	if of == atHalf {
		return q.now + (q.ends-q.now)/2
	}
	return q.ends
}

// await notes that grant i comes later.
func (q *acquisition) await(i int, by stage) *answers {
	q.awaiting(by).expect(i)
	return q.answers[by]
}

func (q *acquisition) awaiting(by stage) *answers {
	if q.answers[by] == nil {
		q.answers[by] = newAnswers(q.grants, telemetry.Waiting(q.ctx))
	}
	return q.answers[by]
}

// answers are the grants that a caller waits for.
type answers struct {
	done  chan struct{}           // closed when none is missing
	spans []telemetry.SpanContext // that trace the caller; nil: none

	mu      sync.Mutex
	grants  []lease.Grant // the caller's; nil when it has gone
	missing int           // and one more until the caller has made all its asks
}

func newAnswers(grants []lease.Grant, spans []telemetry.SpanContext) *answers {
	return &answers{grants: grants, spans: spans, done: make(chan struct{}), missing: 1}
}

// expect notes that grant i comes later.
func (r *answers) expect(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[i] = lease.Grant{Status: lease.Unavailable}
	r.missing++
}

// answer hands over a grant. It is false if the caller has gone.
func (r *answers) answer(i int, g lease.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants == nil {
		return false
	}
	r.grants[i] = g
	r.arrived()
	return true
}

// expectDebt notes that the answer to a debt comes later, which is no grant.
func (r *answers) expectDebt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing++
}

// answerDebt notes that it has come.
func (r *answers) answerDebt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants != nil {
		r.arrived()
	}
}

func (r *answers) arrived() {
	if r.missing--; r.missing == 0 {
		close(r.done)
	}
}

// gone reports whether the caller has left.
func (r *answers) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants == nil
}

// wait returns when nothing is missing, or ctx ends. The caller is gone then.
func (r *answers) wait(ctx context.Context) {
	r.mu.Lock()
	r.arrived()
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.grants = nil
	r.mu.Unlock()
}
