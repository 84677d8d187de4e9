package leasecache

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

// mostParts is how many parts a key may have to give back. Units of more are lost, and
// come back when their charge expires.
const mostParts = 8

// back is units of one lease that are unused, or that were reserved and count.
type back struct {
	unused, settled int64
	lease           uint32
}

// giveBack notes units that go back to the store: the relay has no lease to put them into.
func (k key) giveBack(now lease.Millis, p holder.Part) {
	if p.Units > 0 && !k.Policy.Terms.Lies(p.Units) {
		k.Value.keepBack(&k.Policy.Terms, p)
		k.reportBack(now)
	}
}

// settle notes units of reservations that count. Only the store knows of them.
func (k key) settle(now lease.Millis, w *lease.Want) {
	if w.Settled > 0 {
		k.Value.keep(&k.Policy.Terms, back{settled: w.Settled, lease: w.Lease})
		k.reportBack(now)
	}
}

// keepsBackFor is for how long after its last use a key keeps what is to be given back while the store does not answer. Then
// an ask takes it along, which loses it if the store does not answer that either.
const keepsBackFor lease.Millis = 10_000

// keepsBack reports whether asks for the key take nothing along that is to be given back.
func (c *cached) keepsBack(now lease.Millis) bool { return c.pause != 0 && now < c.used+keepsBackFor }

// sendsBack reports whether the next ask for the key takes something along that is to be given back.
func (c *cached) sendsBack(now lease.Millis) bool { return len(c.back) > 0 && !c.keepsBack(now) }

// reportBack is report for what is to be given back.
func (k key) reportBack(now lease.Millis) {
	if k.Value.sendsBack(now) {
		k.report(now)
	}
}

// keepBack keeps a part until an ask goes out.
func (c *cached) keepBack(t *lease.Terms, p holder.Part) {
	c.keep(t, back{unused: p.Units, lease: p.Lease})
}

// keep keeps units until an ask goes out. They are joined only if the sum is as credible as each of them.
func (c *cached) keep(t *lease.Terms, more back) {
	for i := range c.back {
		if b := &c.back[i]; b.lease == more.lease && !t.Lies(b.unused+more.unused) {
			b.unused, b.settled = b.unused+more.unused, lease.Sum(b.settled, more.settled)
			c.relay.Back += more.unused
			return
		}
	}
	if len(c.back) < mostParts {
		c.back = append(c.back, more)
		c.relay.Back += more.unused
	}
}

// attachBack puts what is to be given back into an ask, as much as fits: of one lease, and no
// more than the store accepts. The units count as on their way until the ask is answered.
func (c *cached) attachBack(a *engine.Ask) (units int64) {
	w := &a.Want
	for i, p := range c.back {
		if w.Unused == 0 || p.lease == w.Lease && !a.Policy.Terms.Lies(w.Unused+p.unused) {
			w.Unused, w.Settled, w.Lease = w.Unused+p.unused, p.settled, p.lease
			c.back = slices.Delete(c.back, i, i+1)
			return p.unused
		}
	}
	return 0
}

// detachBack takes what an ask gives back out of it, to be kept.
func (c *cached) detachBack(a *engine.Ask) {
	w := &a.Want
	if w.Unused+w.Settled > 0 {
		c.keep(&a.Policy.Terms, back{w.Unused, w.Settled, w.Lease})
		w.Unused, w.Settled, w.Lease = 0, 0, 0
	}
}

// unlease takes all units out of the leases that have begun by then, to be given back.
func (c *cached) unlease(t *lease.Terms, begun lease.Millis) {
	for i := range c.relay.Holder.Leases {
		if lot := &c.relay.Holder.Leases[i]; lot.Units > 0 && lot.From <= begun && !lot.Local {
			c.keepBack(t, lot.Part())
			*lot = holder.Lease{}
		}
	}
}

// giveAllBack sends [key.takeAllBack] to the store.
func (k key) giveAllBack(now lease.Millis) {
	for _, a := range k.takeAllBack(now) {
		k.store.askSoon(a)
	}
}

// takeAllBack takes what the key has on lease, and what was rejected from memory if that is charged: an ask for each lease
// that gives it back, and one that reports the rejections.
func (k key) takeAllBack(now lease.Millis) (asks []engine.Ask) {
	v, t := &k.Value, &k.Policy.Terms
	add := func(w lease.Want) {
		asks = append(asks, engine.Ask{Policy: k.Policy, Key: bytes.Clone(k.Key()), Want: w})
	}
	v.unlease(t, lease.Never)
	for _, p := range v.back {
		v.relay.Back -= p.unused
		add(lease.Want{Unused: p.unused, Settled: p.settled, Lease: p.lease})
	}
	v.back = nil
	if denied := v.relay.Holder.TakeDenied(t, now); denied > 0 && t.ChargesRejected {
		add(lease.Want{Denied: denied})
	}
	return asks
}

// While a cache is drained so many calls are out at once, of some drainAsks each: half of what a node of the store
// queues by default.
const drainCalls, drainAsks = 8, 256

// Drained is what became of the units that a cache had.
type Drained struct {
	Units int64 // given back
	Lost  int64 // the store did not confirm the give-back: nobody has them until their leases end
	Owed  int64 // admitted without a lease, and the store did not confirm the debt
}

// Drain returns the unspent leases, so that others have them at once and not when the
// leases have ended, and reports what is to be reported. It is called beside [Store.Run],
// after the last Acquire has returned; from then on nothing is asked for ahead. It returns
// when that and what was asked before is answered, or ctx ends. It sends nothing twice.
//
// The cache holds no slots of Concurrency limits: requests and holders have them, and keep
// them.
func (s *Store) Drain(ctx context.Context) Drained {
	s.draining.Store(true)
	d := drain{store: s}
	for quiet := false; !quiet && ctx.Err() == nil; {
		quiet = s.open.Load() == 0 // else what is out may bring more after this round
		d.round(ctx)
		s.quiesce(ctx)
	}
	left := Drained{Units: d.units.Load(), Lost: d.lost.Load()}
	s.walk(func(k key) {
		left.Lost += k.Value.holds()
		left.Owed += k.Value.relay.Holder.Overdrawn
	}, func() bool { return true })
	return left
}

// drain is a drain under way.
type drain struct {
	store       *Store
	units, lost atomic.Int64
}

// round sends what every key has, and returns when it is answered.
func (d *drain) round(ctx context.Context) {
	s := d.store
	var calls errgroup.Group
	calls.SetLimit(drainCalls)
	send := func(b *batch) {
		calls.Go(func() error { d.send(ctx, b); return nil })
	}
	b := s.newBatch()
	s.walk(func(k key) { b.giveUp(s.config.Now(), k) }, func() bool {
		if len(b.asks) >= drainAsks {
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
	ctx, cancel := context.WithTimeout(ctx, d.store.config.Timeout)
	defer cancel()
	for i, g := range b.decide(ctx, 0, len(b.asks)) {
		if units := b.asks[i].Want.Unused; decided(g) {
			d.units.Add(units)
		} else {
			d.lost.Add(units)
		}
	}
}

// giveUp puts all that a key has into a batch, with an ask for each lease, and what
// it has to report. The shard is locked.
func (b *batch) giveUp(now lease.Millis, k key) {
	v := &k.Value
	v.unlease(&k.Policy.Terms, lease.Never)
	v.pause = 0 // nothing is kept any longer
	var w lease.Want
	if v.out == 0 { // else it has been reported
		w, _ = v.relay.Holder.Report(&k.Policy.Terms, now)
	}
	reports := w.Overdrawn > 0 || w.Denied > 0 && k.Policy.Limit.ChargesRejected()
	for reports || len(v.back) > 0 {
		b.add(now, k, nil, w, 0)
		w, reports = lease.Want{}, false
	}
}

// holds is how many units a key has, of any lease.
func (c *cached) holds() (units int64) {
	for i := range c.relay.Holder.Leases {
		if lot := &c.relay.Holder.Leases[i]; !lot.Local {
			units += lot.Units
		}
	}
	for _, p := range c.back {
		units += p.unused
	}
	return units
}

// walk visits all entries, a few under one lock. In between, without a lock, it asks next
// whether to go on.
func (s *Store) walk(visit func(key), next func() bool) {
	s.table.Walk(func(e *table.Entry[cached]) bool {
		visit(key{store: s, shard: s.table.Shard(e.Hash()), hash: e.Hash(), Entry: e})
		return false
	}, next)
}
