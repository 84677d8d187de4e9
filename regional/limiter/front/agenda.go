package front

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

const (
	// calls is how many calls of the store may be made behind at once, and mostDue
	// how many asks go into one: what gathers meanwhile travels in the next.
	calls   = 4
	mostDue = 256
	// mostReturns bounds the give-backs that wait; more are dropped, which wastes
	// their units and no more.
	mostReturns = 10_000

	sweepInterval = 100 * time.Millisecond
	sweepRounds   = 20 // the whole table every 2 s, so that idle leases go back soon
	roomStep      = 16
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

// agenda is what is to be sent to the store behind the callers. It is safe for
// concurrent use; add and giveBack are called under the lock of the entry's shard.
type agenda struct {
	wake chan struct{}

	mu      sync.Mutex
	keys    []dueKey // each at most once: its entry's due says so
	returns []giveBack
}

type dueKey struct {
	shard *table.Shard[cached]
	entry *table.Entry[cached]
}

// giveBack is units whose lease no node holds any more.
type giveBack struct {
	policy *limiter.Policy
	key    []byte
	part   lease.Part
}

func (d *agenda) add(shard *table.Shard[cached], e *table.Entry[cached], why reason) {
	if e.Value.due != none || e.Value.out > 0 && why != waited {
		return
	}
	e.Value.due = why
	d.mu.Lock()
	d.keys = append(d.keys, dueKey{shard, e})
	d.mu.Unlock()
	d.ring()
}

func (d *agenda) giveBack(e *table.Entry[cached], p lease.Part) {
	d.mu.Lock()
	if len(d.returns) < mostReturns {
		d.returns = append(d.returns, giveBack{e.Policy, slices.Clone(e.Key()), p})
	}
	d.mu.Unlock()
	d.ring()
}

func (d *agenda) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take takes what is due, as much as fits into one call.
func (d *agenda) take() (keys []dueKey, returns []giveBack) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.keys), mostDue)
	keys, d.keys = slices.Clone(d.keys[:n]), slices.Delete(d.keys, 0, n)
	n = min(len(d.returns), mostDue)
	returns, d.returns = slices.Clone(d.returns[:n]), slices.Delete(d.returns, 0, n)
	if len(d.keys)+len(d.returns) > 0 {
		d.ring()
	}
	return keys, returns
}

// Run asks the store behind the callers and forgets idle keys, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var tasks errgroup.Group
	for range calls {
		tasks.Go(func() error { s.send(ctx); return nil })
	}
	tasks.Go(func() error { s.sweep(ctx); return nil })
	return tasks.Wait()
}

func (s *Store) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.due.wake:
			s.Flush(ctx)
		}
	}
}

// Flush sends what is due, in one call.
func (s *Store) Flush(ctx context.Context) {
	keys, returns := s.due.take()
	b := &batch{store: s}
	now := s.now()
	for _, k := range keys {
		s.askFor(b, now, k)
	}
	for _, r := range returns {
		b.returns(r)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	b.run(ctx)
}

// askFor puts a key that is due into a batch.
func (s *Store) askFor(b *batch, now lease.Millis, k dueKey) {
	k.shard.Lock()
	defer k.shard.Unlock()
	c := &k.entry.Value
	why := c.due
	c.due = none
	queue := c.line()
	switch {
	case len(queue) == 0 && c.out > 0: // somebody has asked meanwhile, and told what there was to tell
	case len(queue) > 0:
		b.ask(now, k.shard, k.entry, queue, lease.NoAsk, 0)
	case why == topUp || why == ahead:
		b.ask(now, k.shard, k.entry, nil, lease.Asks(why), 0)
	case why == report:
		if w, ok := c.node.Slot.Report(now); ok {
			b.add(now, k.shard, k.entry, nil, w, 0)
		}
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
	s.table.Sweep(part, func(shard *table.Shard[cached], n int) { s.scan(shard, s.now(), n) })
}

// scan looks at the next n keys of a shard.
func (s *Store) scan(shard *table.Shard[cached], now lease.Millis, n int) (forgotten int) {
	shard.Scan(n, func(e *table.Entry[cached]) {
		c := &e.Value
		switch {
		case c.busy():
		case c.node.Slot.Idle(&e.Policy.Terms, now):
			shard.Remove(e)
			forgotten++
		case tells(c.node.Slot, now):
			s.due.add(shard, e, report)
		}
	})
	return forgotten
}

// tells reports whether a slot has something to report. It is a copy: reporting
// takes it out.
func tells(slot lease.Slot, now lease.Millis) bool {
	_, ok := slot.Report(now)
	return ok
}
