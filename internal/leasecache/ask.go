package leasecache

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/telemetry"
)

// batch is asks that are sent to the store at once: each in a call of its own, or with
// its group. Keys live on different nodes, of which one may hang: a call ends when all of
// it is decided, and a caller that waits for one key must not wait for another. Until it
// runs a batch belongs to one goroutine at a time.
type batch struct {
	store    *Store
	asks     []engine.Ask
	pending  []pending
	patience time.Duration // how long a group may take; single keys may take the store's timeout
}

// pending is an ask that waits for its reply.
type pending struct {
	key    // without an entry: the ask was passed on as it is
	sent   lease.Millis
	queue  []waiter     // who is answered, in order; those who want nothing read what is left
	debt   uint64       // of the relay itself, by its own number
	back   int64        // units of the key that go back with it, beside the account's own
	before []engine.Ask // are sent before it, in calls of their own
}

// asking is the call's batch.
func (q *acquisition) asking() *batch {
	if q.batch == nil {
		q.batch = q.store.newBatch()
	}
	return q.batch
}

func (s *Store) newBatch() *batch {
	s.open.Add(1)
	return &batch{store: s, patience: s.config.Timeout}
}

// close ends a batch that is answered, or will not be sent.
func (b *batch) close() { b.store.open.Add(-1) }

// ask asks for a key on behalf of those who wait, or of the relay itself. The shard is locked.
func (b *batch) ask(now lease.Millis, k key, queue []waiter, behind holder.Asks, group uint32) {
	k.Value.relay.Replicas = k.store.beside()
	var w lease.Want
	if len(queue) == 0 || slices.ContainsFunc(queue, func(w waiter) bool { return w.want.Want > 0 }) {
		w = k.Value.relay.Ask(&k.Policy.Terms, now, wants(queue), behind)
	} else { // all only read: what goes back is left when they are answered
		w, _ = k.Value.relay.Holder.Report(&k.Policy.Terms, now)
	}
	b.add(now, k, queue, w, group)
}

// add adds an ask for a key. The shard is locked.
func (b *batch) add(now lease.Millis, k key, queue []waiter, w lease.Want, group uint32) {
	v := &k.Value
	v.out++
	debt := w.Debt
	w.Debt = engine.DebtID(b.store.id[:], debt)
	back := int64(0)
	a := engine.Ask{Policy: k.Policy, Key: k.Key(), Group: group, Want: w}
	if v.keepsBack(now) {
		v.detachBack(&a)
	} else {
		back = v.attachBack(&a)
	}
	b.put(a, pending{key: k, sent: now, queue: queue, debt: debt, back: back})
}

// pass adds an ask as it is, but for its key, which is the caller's and may be needed
// for longer than the caller stays.
func (b *batch) pass(a *engine.Ask, queue ...waiter) {
	passed := *a
	passed.Key = bytes.Clone(a.Key)
	b.put(passed, pending{key: key{store: b.store}, queue: queue})
}

// take adds an ask for a request's slots, as it is.
func (b *batch) take(now lease.Millis, k key, a *engine.Ask, w waiter) {
	k.Value.out++
	k.Value.relay.Holder.Sends(slotTerms(a), now, a.Want)
	taken := *a
	taken.Key = k.Key()
	b.put(taken, pending{key: k, sent: now, queue: []waiter{w}})
}

func (b *batch) put(a engine.Ask, p pending) {
	b.asks = append(b.asks, a)
	b.pending = append(b.pending, p)
}

// send asks the store. A call for a single key may take the store's timeout, also when
// this caller leaves earlier: others may wait for the same answer, and a client that
// hangs up must not make them ask again.
func (q *acquisition) send() {
	b := q.batch
	if b == nil {
		return
	}
	q.batch = nil
	if deadline, ok := q.ctx.Deadline(); ok {
		left := time.Until(deadline)
		b.patience = min(b.patience, max(left-left/10, q.store.config.Answers))
	}
	go b.run(context.WithoutCancel(q.ctx))
}

// run asks the store, hands out each answer as it comes, and returns when all have.
func (b *batch) run(ctx context.Context) {
	defer b.close()
	b.store.asked.Add(uint64(len(b.asks)))
	ctx, cancel := context.WithTimeout(ctx, b.store.config.Timeout)
	defer cancel()
	var calls sync.WaitGroup
	for first, next := 0, 0; next < len(b.asks); first = next {
		next = first + engine.GroupLen(b.asks[first:])
		if next == len(b.asks) { // the last one, or the only
			b.decide(ctx, first, next)
		} else {
			calls.Go(func() { b.decide(ctx, first, next) })
		}
	}
	calls.Wait()
}

// decide makes one call of the store, and applies the answers.
func (b *batch) decide(ctx context.Context, first, next int) []lease.Grant {
	if next-first > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.patience)
		defer cancel()
	}
	grants := make([]lease.Grant, next-first)
	ctx = telemetry.WithWaiting(ctx, b.spans(first, next))
	for _, a := range b.pending[first].before {
		b.store.config.Store.Acquire(ctx, []engine.Ask{a}, grants[:1])
	}
	b.store.config.Store.Acquire(ctx, b.asks[first:next], grants)
	now := b.store.config.Now()
	for i := range grants {
		b.pending[first+i].reply(now, &b.asks[first+i], grants[i])
	}
	return grants
}

// spans are those of the callers that wait for asks.
func (b *batch) spans(first, next int) (spans []telemetry.SpanContext) {
	for i := first; i < next; i++ {
		for _, w := range b.pending[i].queue {
			if w.answers.spans != nil {
				spans = telemetry.Join(spans, w.answers.spans)
			}
		}
	}
	return spans
}

func wants(queue []waiter) []lease.Want {
	out := make([]lease.Want, len(queue))
	for i := range queue {
		out[i] = queue[i].want
	}
	return out
}
