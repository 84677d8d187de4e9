package front

import (
	"bytes"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

const (
	// mostOut is how many asks may be out behind callers at once: so many that a node
	// that hangs holds up no other before the store leaves it alone. Of them mostDue
	// are sent at once.
	mostOut = 16 << 10
	mostDue = 256
	// mostReturns bounds the give-backs that wait; more are dropped, which wastes
	// their units and no more.
	mostReturns = 10_000

	sweepInterval = 100 * time.Millisecond
	sweepRounds   = 20 // the whole table every 2 s, so that idle leases go back soon
)

// reason is why a key is on the agenda.
type reason uint8

const (
	none   = reason(lease.NoAsk)
	topUp  = reason(lease.TopUp)
	ahead  = reason(lease.Ahead)
	waited = ahead + 1 // somebody waits
	report = ahead + 2 // an idle node has something to give back or to tell
)

// leaves is how many asks of a budget are left for others who wait.
func (r reason) leaves() int64 {
	if r == waited {
		return 0
	}
	return kept
}

// agenda is what is to be sent to the store behind the callers. It is safe for
// concurrent use; add is called under the lock of the entry's shard.
type agenda struct {
	wake  chan struct{} // something is due
	alarm chan struct{} // something will be due before the rest of later

	mu      sync.Mutex
	keys    []dueKey // due
	later   laterKeys
	returns []limiter.Ask // units and slots of keys of which nothing is remembered
}

// dueKey is a key on the agenda. It counts only while its entry says that it is
// due just then: a later place may have been changed for an earlier one, or the entry
// may be another key's by now.
type dueKey struct {
	shard *table.Shard[cached]
	entry *table.Entry[cached]
	at    lease.Millis // on the front's clock
	when  time.Time    // the same, for waiting
}

// laterKeys is a heap of keys by when they are due.
type laterKeys []dueKey

func (l laterKeys) Len() int           { return len(l) }
func (l laterKeys) Less(i, j int) bool { return l[i].when.Before(l[j].when) }
func (l laterKeys) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *laterKeys) Push(k any)        { *l = append(*l, k.(dueKey)) }
func (l *laterKeys) Pop() any {
	last := len(*l) - 1
	k := (*l)[last]
	(*l)[last] = dueKey{}
	*l = (*l)[:last]
	return k
}

// add puts a key on the agenda, for when its budget allows an ask and the store is
// not to be left alone. A key is there once; who waits comes before what does not.
func (d *agenda) add(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], why reason) {
	v := &e.Value
	if v.due == waited || v.due != none && why != waited || v.out > 0 && why != waited {
		return
	}
	delay := max(v.budget.wait(now, v.pace(now, e.Policy), why.leaves()), v.away-now, 0)
	if v.due != none && v.dueAt <= now+delay {
		v.due = why
		return
	}
	v.due, v.dueAt = why, now+delay
	k := dueKey{shard: shard, entry: e, at: v.dueAt}
	d.mu.Lock()
	defer d.mu.Unlock()
	if delay == 0 {
		d.keys = append(d.keys, k)
		ring(d.wake)
		return
	}
	k.when = time.Now().Add(time.Duration(delay) * time.Millisecond)
	heap.Push(&d.later, k)
	if d.later[0].entry == e {
		ring(d.alarm)
	}
}

// giveBack notes that an ask was granted units which nobody uses, for a key of which nothing
// is remembered.
func (d *agenda) giveBack(a *limiter.Ask, g lease.Grant) {
	p := part{units: g.Granted, lease: g.Lease}
	d.say(p.ask(a.Policy, a.Key))
}

// say notes an ask that only tells something.
func (d *agenda) say(a limiter.Ask) {
	a.Key = bytes.Clone(a.Key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.returns) < mostReturns {
		d.returns = append(d.returns, a)
	}
	ring(d.wake)
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take takes what is due, as much as is sent at once.
func (d *agenda) take() (keys []dueKey, returns []limiter.Ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.keys), mostDue)
	keys, d.keys = slices.Clone(d.keys[:n]), slices.Delete(d.keys, 0, n)
	n = min(len(d.returns), mostDue)
	returns, d.returns = slices.Clone(d.returns[:n]), slices.Delete(d.returns, 0, n)
	if len(d.keys)+len(d.returns) > 0 {
		ring(d.wake)
	}
	return keys, returns
}

// ripen makes due what was to be later and is now, by either clock, and says how
// long until the next; false: nothing is left.
func (d *agenda) ripen(now lease.Millis) (next time.Duration, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.later) > 0 {
		if next = time.Until(d.later[0].when); next > 0 && d.later[0].at > now {
			return next, true
		}
		d.keys = append(d.keys, heap.Pop(&d.later).(dueKey))
		ring(d.wake)
	}
	return 0, false
}

// Run asks the store behind the callers and forgets idle keys, until ctx ends. It
// returns when all calls of the store have; Acquire must not be called any more then.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		s.out.Done()
		s.out.Wait()
	}()
	var tasks errgroup.Group
	tasks.Go(func() error { s.send(ctx); return nil })
	tasks.Go(func() error { s.waitForDue(ctx); return nil })
	tasks.Go(func() error { s.sweep(ctx); return nil })
	return tasks.Wait()
}

// send sends what is due as soon as it is, and waits for no answer.
func (s *Store) send(ctx context.Context) {
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
	keys, returns := s.due.take()
	now := s.now()
	for _, k := range keys {
		s.askFor(b, now, k)
	}
	for _, r := range returns {
		b.say(r)
	}
	if len(b.asks) == 0 {
		b.close()
		return nil
	}
	return b
}

// askFor puts a key that is due into a batch.
func (s *Store) askFor(b *batch, now lease.Millis, k dueKey) {
	k.shard.Lock()
	defer k.shard.Unlock()
	c := &k.entry.Value
	if c.due == none || c.dueAt != k.at {
		return
	}
	why := c.due
	c.due = none
	if now >= k.at && c.budget.wait(now, c.pace(now, k.entry.Policy), why.leaves()) > 0 {
		s.due.add(now, k.shard, k.entry, why) // others asked meanwhile
		return
	}
	if c.visited(k.entry.Policy) { // the reply brings this up again
		return
	}
	if queue := c.line(); len(queue) > 0 {
		b.ask(now, k.shard, k.entry, queue, lease.NoAsk, 0)
		return
	}
	if s.inviteGuests(now, k.shard, k.entry, true); c.out > 0 { // somebody has asked meanwhile, and told what there was to tell
		return
	}
	if why == report && c.tells(&k.entry.Policy.Terms, now) {
		w, _ := c.node.Account.Report(&k.entry.Policy.Terms, now)
		b.add(now, k.shard, k.entry, nil, w, 0)
	} else if behind := c.node.Top(&k.entry.Policy.Terms, now); why != report && behind != lease.NoAsk && !s.draining.Load() {
		b.ask(now, k.shard, k.entry, nil, behind, 0)
	}
}

// line takes those who wait and can be asked for together: all for the running
// window, or all for the next. Who has gone is left out.
func (c *cached) line() (queue []waiter) {
	rest := c.waiting[:0]
	for _, w := range c.waiting {
		switch {
		case w.reply.gone():
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

// sweep looks through the table for keys to forget.
func (s *Store) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Sweep(1.0 / sweepRounds)
		}
	}
}

// Sweep looks through such a part of every shard, 0 to 1: idle nodes give back
// what they have, and are forgotten when they know nothing that matters.
func (s *Store) Sweep(part float64) {
	if s.draining.Load() {
		return
	}
	s.table.Sweep(part, func(shard *table.Shard[cached], n int) {
		now := s.now()
		shard.Scan(n, func(e *table.Entry[cached]) { s.forget(now, shard, e) })
	})
}

// forget removes a key that knows nothing which matters. Of one that is idle and has
// something to tell it sees that it does.
func (s *Store) forget(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) bool {
	c := &e.Value
	switch {
	case c.busy() || !c.budget.idle(now) || now < c.away: // a new entry may ask at once
	case c.node.Account.Idle(&e.Policy.Terms, now):
		shard.Remove(e)
		return true
	case c.tells(&e.Policy.Terms, now):
		s.due.add(now, shard, e, report)
	}
	return false
}

// tells reports whether a key has something to report. It asks a copy of its slot:
// reporting takes it out.
func (c *cached) tells(t *lease.Terms, now lease.Millis) bool {
	slot := c.node.Account
	_, ok := slot.Report(t, now)
	return ok || len(c.back) > 0
}
