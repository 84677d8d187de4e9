package sim

import (
	"context"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
)

// cache is the lease cache of a replica, and what the referee knows of it.
type cache struct {
	r      *replica
	name   string
	front  *front.Store
	held   map[leaseID]int64 // granted by the tier above, and not handed on
	stamps map[leaseID]stamp
	gone   bool // it belongs to a life that is over
}

// newCache makes a cache in front of a store that is a network away.
func newCache(ctx context.Context, r *replica, n int, above limiter.Store) *cache {
	w := r.w
	c := &cache{r: r, name: r.name, held: map[leaseID]int64{}, stamps: map[leaseID]stamp{}}
	if n > 0 {
		c.name += "." + itoa(n+1)
	}
	timeout := time.Duration(0)
	for _, rule := range w.rules.list {
		timeout = max(timeout, time.Duration(rule.Terms.Timeout)*time.Millisecond)
	}
	link := &link{w: w, name: c.name, cache: c, above: above}
	if n+1 < len(r.caches) {
		link.next = r.caches[n+1]
	}
	c.front = front.New(front.Config{
		Store: link, MaxKeys: 1 << 16, MaxBytes: 1 << 30, Timeout: timeout,
		Now:  func() lease.Millis { return lease.Millis((w.Now() + r.offset) / limit.Millisecond) },
		Wall: func() limit.Micros { return w.Now() - epochStart + w.Start },
	})
	go func() { _ = c.front.Run(ctx) }()
	return c
}

// handed notes units that the cache has handed on. It has no more than it was granted.
func (c *cache) handed(t take) {
	id := leaseID{t.key, t.lease}
	c.held[id] -= t.units
	if c.held[id] < 0 && !c.gone {
		c.r.w.ref.fail(1, "%v at %s: %d more units were handed on than there were", t.key, c.name, -c.held[id])
	}
}

// got notes what the tier above has granted, with its stamp.
func (c *cache) got(id leaseID, units int64, s stamp) {
	c.held[id] += units
	if old, known := c.stamps[id]; known {
		s.from, s.until = min(s.from, old.from), max(s.until, old.until)
	}
	c.stamps[id] = s
}

// stamp is that of a grant which the cache made of a lease for a call that came at since.
// Units of a grant that has arrived meanwhile were charged for that call.
func (c *cache) stamp(id leaseID, since limit.Micros) stamp {
	s := c.stamps[id]
	if s.charged < since {
		s.charged = c.r.w.now
	}
	return s
}

// forget notes that all that the cache has is lost.
func (c *cache) forget() {
	c.gone = true
	for id, units := range c.held {
		c.r.w.ref.vanished(id.key, max(units, 0))
	}
	clear(c.held)
}

// link is a store that is a network away. What is lost on the way is unavailable when
// the time of the caller is over; nothing is sent twice, as a [limiter.Store] promises.
type link struct {
	w     *World
	name  string
	cache *cache
	above limiter.Store
	next  *cache // that above is; nil: above has the counters
}

func (l *link) Epoch() uint64 { return l.above.Epoch() }

// ascent is one Acquire that travels.
type ascent struct {
	link   *link
	asks   []limiter.Ask
	grants []lease.Grant
	stamps []stamp
	since  limit.Micros
	answer chan []lease.Grant // of room for one
}

// Acquire is called by goroutines of the cache.
func (l *link) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	up := &ascent{link: l, asks: copied(asks), answer: make(chan []lease.Grant, 1)}
	first := &asks[0]
	l.w.post("link "+l.name+" "+keyOf(first).String()+" "+pad(uint64(first.Want.Want))+pad(uint64(first.Want.Unused)), func() { l.w.climb(up) })
	select {
	case done := <-up.answer:
		copy(grants, done)
		return
	case <-ctx.Done():
	case <-l.w.mail.closed:
	}
	for i := range grants {
		grants[i] = lease.Grant{Status: lease.Unavailable}
	}
}

// copied are asks that outlive the call that they came with.
func copied(asks []limiter.Ask) []limiter.Ask {
	asks = slices.Clone(asks)
	for i := range asks {
		asks[i].Key, asks[i].Returned = slices.Clone(asks[i].Key), slices.Clone(asks[i].Returned)
	}
	return asks
}

// climb sends an ascent on its way.
func (w *World) climb(up *ascent) {
	l := up.link
	for i := range up.asks {
		a := &up.asks[i]
		w.tracef("%s → %s", l.name, w.showAsk(a))
		if own := ownUnused(a); own > 0 {
			w.ref.returns(keyOf(a), a.Want.Lease, own)
			l.cache.handed(take{keyOf(a), a.Want.Lease, own})
		}
	}
	if w.chance(w.Net.LoseCall) {
		w.tracef("%s → lost", l.name)
		for i := range up.asks {
			w.ref.comesBack(&up.asks[i])
		}
		return
	}
	w.after(w.delay(), func() { w.reach(up) })
}

// ownUnused is what an ask gives back that no PoP has given back.
func ownUnused(a *limiter.Ask) int64 {
	units := a.Want.Unused
	for _, r := range a.Returned {
		units -= r.Units
	}
	return units
}

// reach brings an ascent to the tier above.
func (w *World) reach(up *ascent) {
	if wait := w.granter.paused - w.now; wait > 0 {
		w.after(wait, func() { w.reach(up) })
		return
	}
	up.since, up.grants = w.now, make([]lease.Grant, len(up.asks))
	if up.link.next == nil {
		w.granter.Acquire(context.Background(), up.asks, up.grants)
		w.descend(up)
		return
	}
	for i := range up.asks {
		if own := ownUnused(&up.asks[i]); own > 0 { // it may hand them on again
			up.link.next.handed(take{keyOf(&up.asks[i]), up.asks[i].Want.Lease, -own})
		}
	}
	w.mail.stirred = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		up.link.above.Acquire(ctx, up.asks, up.grants)
		w.post("store "+up.link.name, func() { w.descend(up) })
	}()
}

// descend brings the answer back.
func (w *World) descend(up *ascent) {
	l := up.link
	up.stamps = make([]stamp, len(up.asks))
	for i := range up.asks {
		a, g := &up.asks[i], &up.grants[i]
		if id := (leaseID{keyOf(a), g.Lease}); a.Holder != 0 {
			continue
		} else if g.Granted > 0 && l.next != nil {
			l.next.handed(take{id.key, id.lease, g.Granted})
			up.stamps[i] = l.next.stamp(id, up.since)
		} else if g.Granted > 0 {
			up.stamps[i] = w.granter.leases[id]
		}
	}
	if w.chance(w.Net.LoseReply) {
		w.tracef("%s ← lost", l.name)
		w.lostGrants(up)
		return
	}
	w.after(w.delay(), func() {
		for i := range up.asks {
			w.tracef("%s ← %s", l.name, w.showGrant(keyOf(&up.asks[i]), up.grants[i]))
		}
		if l.cache.gone {
			w.lostGrants(up)
			return
		}
		for i := range up.asks {
			if g := &up.grants[i]; g.Granted > 0 && up.asks[i].Holder == 0 {
				l.cache.got(leaseID{keyOf(&up.asks[i]), g.Lease}, g.Granted, up.stamps[i])
			}
		}
		w.mail.stirred = true
		up.answer <- up.grants
	})
}

func (w *World) lostGrants(up *ascent) {
	for i := range up.asks {
		if up.asks[i].Holder == 0 {
			w.ref.vanished(keyOf(&up.asks[i]), up.grants[i].Granted)
		}
	}
}
