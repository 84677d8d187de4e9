package leasecache

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
)

const (
	// mostOut is how many asks may be out behind callers at once: so many that a node of
	// the store that hangs holds up no other before it is not asked any more.
	mostOut = 16 << 10

	// sweepCalls is in how many parts the table is looked through: all of it every 2 s, so
	// that idle leases go back soon.
	sweepCalls = 20
)

// Run asks the store behind the callers and forgets idle keys, until ctx ends. It
// returns when all calls of the store have; Acquire must not be called any more then.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		s.out.Done()
		s.out.Wait()
	}()
	var tasks errgroup.Group
	tasks.Go(func() error { s.sendDue(ctx); return nil })
	tasks.Go(func() error { s.waitForDue(ctx); return nil })
	tasks.Go(func() error { table.SweepAll(ctx, sweepCalls, s.Sweep); return nil })
	return tasks.Wait()
}

// sendDue sends what is due as soon as it is, and waits for no answer.
func (s *Store) sendDue(ctx context.Context) {
	out := semaphore.NewWeighted(mostOut)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.due.wake:
		}
		b := s.takeDue()
		if b == nil {
			continue
		}
		n := int64(len(b.asks))
		if out.Acquire(ctx, n) != nil {
			b.close()
			return
		}
		s.out.Go(func() {
			defer out.Release(n)
			b.run(ctx)
		})
	}
}

// waitForDue makes due what was to be later.
func (s *Store) waitForDue(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.due.alarm:
		case <-timer.C:
		}
		if next, more := s.due.ripen(s.now()); more {
			timer.Reset(next)
		}
	}
}

// Flush sends what is due, and returns when it is answered.
func (s *Store) Flush(ctx context.Context) {
	if b := s.takeDue(); b != nil {
		b.run(ctx)
	}
}

// takeDue makes a batch of what is due; nil: nothing is.
func (s *Store) takeDue() *batch {
	s.due.ripen(s.now())
	b := s.newBatch()
	keys, asks := s.due.take()
	now := s.now()
	for _, k := range keys {
		b.askFor(now, k)
	}
	for _, a := range asks {
		b.put(a, pending{key: key{store: s}})
	}
	if len(b.asks) == 0 {
		b.close()
		return nil
	}
	return b
}

// askFor adds the ask for a key that is due.
func (b *batch) askFor(now lease.Millis, k dueKey) {
	k.shard.Lock()
	defer k.shard.Unlock()
	v := &k.Value
	if v.due == none || v.dueAt != k.at {
		return
	}
	why := v.due
	v.due = none
	if why == ending {
		k.topUp(now)
		return
	}
	if k.Policy.Terms.Far && why == waited { // a lease of the next window may have begun
		k.answerWaiting(now)
		if v.due == waited && v.dueAt > now {
			return
		}
		v.due = none
	}
	if now >= k.at && v.budget.wait(now, k.pace(now), why.leaves()) > 0 {
		k.schedule(now, why) // others asked meanwhile
		return
	}
	if v.out > 0 && why != waited { // the reply brings this up again
		return
	}
	if queue := v.takeQueue(); len(queue) > 0 {
		for i := range queue {
			if w := &queue[i]; w.next { // which was not enough, after all
				b.store.waited.Add(uint64(w.want.Waiting))
				w.next = false
			}
		}
		b.ask(now, k.key, queue, lease.NoAsk, 0)
		return
	}
	if v.out > 0 { // somebody has asked meanwhile, and reported what there was
		return
	}
	t := &k.Policy.Terms
	if along := v.relay.Account.AskAlong(t, now); why == report && along != lease.NoAsk && !b.store.draining.Load() {
		b.ask(now, k.key, nil, along, 0)
	} else if why == report && k.reports(now) {
		w, _ := v.relay.Account.Report(t, now)
		b.add(now, k.key, nil, w, 0)
	} else if behind := v.relay.Top(t, now); why != report && behind != lease.NoAsk && !b.store.draining.Load() {
		b.ask(now, k.key, nil, behind, 0)
	}
}

// takeQueue takes those who wait and can be asked for together: all for the running
// window, or all for the next. Those who have gone are left out.
func (c *cached) takeQueue() (queue []waiter) {
	rest := c.waiting[:0]
	for _, w := range c.waiting {
		switch {
		case w.answers.gone():
		case len(queue) == 0 || queue[0].want.Next == w.want.Next:
			queue = append(queue, w)
		default:
			rest = append(rest, w)
		}
	}
	clear(c.waiting[len(rest):])
	c.waiting = rest
	return queue
}

// Sweep looks through such a part of every shard, 0 to 1: idle keys give back what they
// have, and are forgotten when a new entry would do the same.
func (s *Store) Sweep(part float64) {
	if s.draining.Load() {
		return
	}
	s.table.Sweep(part, func(shard *table.Shard[cached], n int) {
		now := s.now()
		s.scan(shard, n, func(k key) { k.forget(now) })
	})
}

// scan visits the next n entries of a shard, which is locked.
func (s *Store) scan(shard *table.Shard[cached], n int, visit func(k key)) {
	shard.Scan(n, func(e *table.Entry[cached]) { visit(key{store: s, shard: shard, hash: e.Hash(), Entry: e}) })
}

// forget removes the entry of a key if a new one would do the same, which would take back
// less while leases run that were cut from this one. An idle key that has something to
// report is put on the agenda.
func (k key) forget(now lease.Millis) bool {
	v := &k.Value
	switch {
	case v.busy() || !v.budget.idle(now) || now < v.pause: // a new entry may ask at once
	case !v.exact.lasts(now) && v.slots.idle(now) && v.relay.Account.Idle(&k.Policy.Terms, now) && !v.relay.Lends(now):
		k.shard.Remove(k.Entry)
		return true
	case k.reports(now):
		k.schedule(now, report)
	}
	return false
}

// reports reports whether the key has something to report. It asks a copy of its account:
// reporting takes it out.
func (k key) reports(now lease.Millis) bool {
	account := k.Value.relay.Account
	_, ok := account.Report(&k.Policy.Terms, now)
	return ok || len(k.Value.back) > 0
}
