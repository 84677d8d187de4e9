package front

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter/table"
)

const (
	// drainCalls is how many calls are out at once while a front is drained, of some
	// mostDue asks each: half of what a node of the store queues by default.
	drainCalls = 8
	// drainStep is how many entries are looked at under one lock.
	drainStep = 64
	// drainPoll is how often to look whether the calls of others have ended.
	drainPoll = time.Millisecond
)

// Drained is what became of the units that a front had.
type Drained struct {
	Units int64 // given back
	Lost  int64 // the store did not confirm that it has them: they are nobody's until their leases end
	Owed  int64 // admitted without a lease, and the store did not confirm that it knows
}

// Drain gives back what is on lease here, so that others have it at once and not
// when the leases have ended, and reports what is to be reported. It is called beside
// [Store.Run], after the last Acquire has returned; from then on nothing is asked for
// ahead. It returns when that and what was asked before is answered, or ctx ends.
// What it has sent it does not send again.
//
// Slots of a Concurrency limit are not held here: requests and holders have them, and
// keep them.
func (s *Store) Drain(ctx context.Context) Drained {
	s.draining.Store(true)
	d := drain{store: s}
	for quiet := false; !quiet && ctx.Err() == nil; {
		quiet = s.open.Load() == 0 // else what is out may bring more after this round
		d.round(ctx)
		s.settleDown(ctx)
	}
	left := Drained{Units: d.units.Load(), Lost: d.lost.Load()}
	s.walk(func(_ *table.Shard[cached], e *table.Entry[cached]) {
		left.Lost += e.Value.holds()
		left.Owed += e.Value.node.Account.Overdrawn
	}, func() bool { return true })
	return left
}

// drain is a drain under way.
type drain struct {
	store       *Store
	units, lost atomic.Int64
}

// round sends what is due and what every key has, and returns when it is answered.
func (d *drain) round(ctx context.Context) {
	s := d.store
	var calls errgroup.Group
	calls.SetLimit(drainCalls)
	send := func(b *batch) {
		calls.Go(func() error { d.send(ctx, b); return nil })
	}
	for b := s.takeDue(); b != nil; b = s.takeDue() {
		send(b)
	}
	b := s.newBatch()
	s.walk(func(shard *table.Shard[cached], e *table.Entry[cached]) {
		b.giveUp(s.now(), shard, e)
	}, func() bool {
		if len(b.asks) >= mostDue {
			send(b)
			b = s.newBatch()
		}
		return ctx.Err() == nil
	})
	send(b)
	_ = calls.Wait()
}

// send makes one call of all asks of a batch, and counts what was given back.
func (d *drain) send(ctx context.Context, b *batch) {
	defer b.close()
	if len(b.asks) == 0 {
		return
	}
	d.store.asked.Add(uint64(len(b.asks)))
	ctx, cancel := context.WithTimeout(ctx, d.store.timeout)
	defer cancel()
	for i, g := range b.decide(ctx, 0, len(b.asks)) {
		if units := b.asks[i].Want.Unused; g.Status == lease.OK || g.Status == lease.Denied {
			d.units.Add(units)
		} else {
			d.lost.Add(units)
		}
	}
}

// giveUp puts all that a key has into a batch, with an ask for each lease, and what
// it has to report. The shard is locked.
func (b *batch) giveUp(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	c := &e.Value
	c.unlease(&e.Policy.Terms)
	var w lease.Want
	if c.out == 0 { // else it has been told
		w, _ = c.node.Account.Report(&e.Policy.Terms, now)
	}
	says := w.Overdrawn > 0 || w.Denied > 0 && e.Policy.Limit.ChargesDenied()
	for says || len(c.back) > 0 {
		b.add(now, shard, e, nil, w, 0)
		w, says = lease.Want{}, false
	}
}

// holds is how many units a key has, of any lease.
func (c *cached) holds() (units int64) {
	for i := range c.node.Account.Lots {
		if lot := &c.node.Account.Lots[i]; !lot.Local {
			units += lot.Units
		}
	}
	for _, p := range c.back {
		units += p.units
	}
	return units
}

// settleDown waits until nothing is out any more.
func (s *Store) settleDown(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for s.open.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// walk shows all entries, a few under one lock, and in between, without one, asks
// whether to go on. Nothing else may look through the table.
func (s *Store) walk(visit func(*table.Shard[cached], *table.Entry[cached]), next func() bool) {
	shards := s.table.Shards()
	for i := range shards {
		shard := &shards[i]
		for seen, made := 0, 1; seen < made; seen += drainStep {
			shard.Lock()
			made = shard.Made()
			shard.Scan(min(drainStep, made-seen), func(e *table.Entry[cached]) { visit(shard, e) })
			shard.Unlock()
			if !next() {
				return
			}
		}
	}
}
