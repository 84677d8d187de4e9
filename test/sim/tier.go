package sim

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/world"
)

// life is what the referee follows of a tier until it restarts.
type life struct {
	*world.Life
	w      *World
	seen   map[callName]int  // how often calls have come
	held   map[leaseID]int64 // units that the tier was granted and has not handed on
	stamps map[leaseID]stamp // of what it was granted; of the counters: of what they granted
}

// leaseID names a lease of a counter.
type leaseID struct {
	key   counterKey
	lease uint32
}

type lot struct {
	leaseID
	units int64
}

// stamp is what the referee keeps of a grant.
type stamp struct {
	charged limit.Micros // virtual time at which units for waiting requests were charged
	from    limit.Micros // virtual time from which spare units may be spent
	until   limit.Micros // and until when
}

// life finds what is followed of a life of a tier.
func (w *World) life(of *world.Life) *life {
	l, _ := of.Notes.(*life)
	if l == nil {
		l = &life{of, w, map[callName]int{}, map[leaseID]int64{}, map[leaseID]stamp{}}
		of.Notes = l
	}
	return l
}

// counts reports the tier that has the counters.
func (l *life) counts() bool { return l.Tier.Link.Granter == nil }

// restart makes a replica begin anew, with all of its caches.
func (w *World) restart(t *world.Tier) {
	w.tracef("%s restarts", t.Name)
	w.ref.forgetful()
	for up := t; up.Link.Granter != nil; up = up.Link.Granter {
		w.ends(up.Life)
	}
	t.Restart()
}

// ends notes the end of a life: what it held is lost.
func (w *World) ends(of *world.Life) {
	l := w.life(of)
	for id, units := range l.held {
		w.ref.vanished(id.key, max(units, 0))
	}
	clear(l.held)
}

// comes notes a call that has come. What it gives back may be handed on again, unless it is a
// copy.
func (l *life) comes(c *call) {
	if l.seen[c.name]++; c.name != (callName{}) && l.seen[c.name] > 1 {
		return
	}
	if l.counts() || c.aside {
		return
	}
	for i := range c.items {
		if back := c.items[i].back(); back.units > 0 {
			l.w.ref.account(back.key).returns(back.lease, -back.units)
			l.holds(back)
		}
	}
}

// answers follows what a tier grants.
func (l *life) answers(c *call) {
	l.w.ref.accepted(l, c)
	for i := range c.items {
		if it := &c.items[i]; it.granted().units > 0 {
			l.hands(it.granted())
			it.stamp = l.stamp(it.granted().leaseID, c.since)
		}
	}
}

// hands notes units that a tier has handed out. It has no more than it was granted.
func (l *life) hands(u lot) {
	if l.counts() {
		return
	}
	l.holds(lot{u.leaseID, -u.units})
	if missing := -l.held[u.leaseID]; missing > 0 && !l.Over {
		l.w.ref.fail(1, "%v at %s: %d more units were handed on than there were", u.key, l.Tier.Name, missing)
	}
}

// holds notes units that a tier has more.
func (l *life) holds(u lot) {
	if l.held[u.leaseID] += u.units; l.held[u.leaseID] == 0 {
		delete(l.held, u.leaseID)
	}
}

// receives notes the answer of the granter.
func (l *life) receives(c *call) {
	for i := range c.items {
		if got := c.items[i].granted(); got.units > 0 {
			l.gets(got, c.items[i].stamp)
		}
	}
}

// gets notes what the granter has granted.
func (l *life) gets(u lot, s stamp) {
	l.holds(u)
	if l.Tier.Region != "" && l.w.rules.find(u.key.rule).Spec.Algorithm == limit.FixedWindow {
		// It lasts until a lease of the next window begins: at most the longest trip longer.
		s.until += limit.Second / 2
	}
	if old, known := l.stamps[u.leaseID]; known {
		s.from, s.until = min(s.from, old.from), max(s.until, old.until)
	}
	l.stamps[u.leaseID] = s
}

// stamp is that of a grant which the tier made of a lease for a call that came at since.
// Units of a grant that has arrived meanwhile were charged for that call.
func (l *life) stamp(id leaseID, since limit.Micros) stamp {
	s := l.stamps[id]
	if s.charged < since {
		s.charged = l.w.now()
	}
	return s
}

// Wraps has the referee look at the counters, and at what a region counts itself, and breaks a store.
func (w *World) Wraps(s engine.Store, at world.Border, of *world.Life) engine.Store {
	switch at {
	case world.Counters:
		w.counters.store = w.spoil(s, w.Fault.counters)
		return w.counters
	case world.Cached:
		return w.spoil(s, w.Fault.cache)
	case world.Own:
		return &ownStore{s, w.life(of)}
	case world.Served:
		return witness{s}
	}
	return s
}

// witness notes that a service asks its store for a call: it has accepted it.
type witness struct{ engine.Store }

func (s witness) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	world.CallOf(ctx).Notes.(*call).accepted = true
	s.Store.Acquire(ctx, asks, grants)
}
