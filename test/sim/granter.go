package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// granter is the top: counters by key, as a region's store keeps them.
type granter struct {
	w       *World
	step    limit.Micros // its clock, from virtual time
	paused  limit.Micros // until then it answers nobody
	epoch   uint64
	started limit.Micros // on its own clock
	learns  bool         // a holder has shown an epoch of a life before
	table   map[counterKey]*lease.Counter
	keys    []counterKey // of table, by age
	callers map[uint64]*lease.Caller
}

func newGranter(w *World) *granter {
	g := &granter{w: w, step: w.Start - epochStart}
	g.restart()
	return g
}

// restart begins a new life without the state of the last.
func (g *granter) restart() {
	g.epoch++
	if g.epoch > 1 {
		g.w.ref.forgetful()
	}
	g.started, g.learns = g.now(), false
	g.table, g.keys = map[counterKey]*lease.Counter{}, nil
	g.callers = map[uint64]*lease.Caller{}
}

func (g *granter) now() limit.Micros { return g.w.Now + g.step }

func (g *granter) handle(c call, answer func(reply)) {
	if wait := g.paused - g.w.Now; wait > 0 {
		g.w.after(wait, func() { g.handle(c, answer) })
		return
	}
	g.w.ref.checkMemory("granter", len(g.table), g.w.MaxCounters)
	r := reply{epoch: g.epoch, grants: make([]grant, len(c.wants))}
	if !g.accept(c) {
		for i := range r.grants {
			r.grants[i].Status = lease.Unavailable
		}
		answer(r)
		return
	}
	if c.epoch != 0 && c.epoch != g.epoch && g.w.Learning {
		g.learns = true
	}
	for i, wt := range c.wants {
		if !wt.group {
			r.grants[i] = g.acquire(c, wt)
		}
	}
	g.acquireGroup(c, r)
	answer(r)
}

func (g *granter) accept(c call) bool {
	if g.w.Fault == AppliesTwice {
		return true
	}
	caller := g.callers[c.who]
	if caller == nil {
		caller = &lease.Caller{}
		g.callers[c.who] = caller
	}
	return caller.Accept(c.seq)
}

// acquireGroup answers the wants of one request: all are granted, or those that
// would be denied are denied and the others are charged nothing.
func (g *granter) acquireGroup(c call, r reply) {
	denied := make([]bool, len(c.wants))
	for i, wt := range c.wants {
		if k := g.counter(wt); wt.group && k != nil {
			g.settle(k, wt)
			denied[i] = wt.Need > wt.rule.Limit.Peek(k.State, g.now(), wt.Need).Remaining
		}
	}
	all := !slices.Contains(denied, true)
	for i, wt := range c.wants {
		if !wt.group {
			continue
		}
		wt.Unused, wt.Overdrawn, wt.Fresh = 0, 0, false
		if all || denied[i] {
			r.grants[i] = g.acquire(c, wt)
		} else {
			r.grants[i].Status = lease.OK
		}
	}
}

func (g *granter) settle(k *lease.Counter, wt want) {
	k.Settle(wt.rule.Limit, &wt.rule.Terms, g.now(), wt.Want)
	g.w.ref.returned(wt)
}

func (g *granter) acquire(c call, wt want) grant {
	k := g.counter(wt)
	if k == nil {
		return grant{Grant: lease.Grant{Status: lease.Unavailable}}
	}
	g.settle(k, wt)
	wt.Unused, wt.Overdrawn, wt.Fresh = 0, 0, false
	before := k.State
	if len(before.Log) > 0 {
		before.Log = append([]limit.Charge(nil), before.Log...)
	}
	out := grant{Grant: k.Acquire(wt.rule.Limit, &wt.rule.Terms, g.now(), wt.Want), charged: g.w.Now}
	if g.w.Fault == GrantsTwice && g.w.chance(0.05) {
		k.State = before
	}
	out.from, out.until = g.span(wt.rule.Limit, out)
	g.w.ref.granted(c, wt, out)
	return out
}

// span is the virtual time during which spare units of a grant may be spent: for
// its ttl, but only within the window that was charged.
func (g *granter) span(l *limit.Limit, gr grant) (from, until limit.Micros) {
	from, until = g.w.Now, g.w.Now+limit.Micros(gr.TTL)*limit.Millisecond
	s := l.Spec()
	if s.Algorithm == limit.FixedWindow || s.Algorithm == limit.SlidingWindow {
		start := l.PeriodFromID(g.now(), gr.Lease) - g.step
		until = min(until, start+s.Period+limit.Millisecond-1) // a lease knows its window to the millisecond
		if gr.StartsIn > 0 {
			from = start
		}
	}
	return from, until
}

// counter finds or makes the counter of a want; nil if the table is full of
// counters that cannot be forgotten.
func (g *granter) counter(wt want) *lease.Counter {
	if k := g.table[wt.key]; k != nil {
		return k
	}
	if g.w.MaxCounters > 0 && len(g.table) >= g.w.MaxCounters && !g.evict() {
		return nil
	}
	k := &lease.Counter{}
	if g.learns && g.predates(wt.rule.Limit) {
		*k = lease.NewLearning(wt.rule.Limit, g.now())
	}
	g.table[wt.key] = k
	g.keys = append(g.keys, wt.key)
	return k
}

// predates reports whether what a counter counts now began before this life.
func (g *granter) predates(l *limit.Limit) bool {
	s, now := l.Spec(), g.now()
	if s.Algorithm == limit.FixedWindow && s.Align == limit.AlignClock {
		return now-now%s.Period < g.started
	}
	return now-s.Period < g.started
}

// evict forgets one counter that equals a new one.
func (g *granter) evict() bool {
	for i, key := range g.keys {
		r := g.w.rule(key.rule)
		k := g.table[key]
		stale := r == nil || r.Limit.Shape() != key.shape
		if stale || r.Limit.Fresh(k.State, g.now()) && g.now() >= k.OutUntil || g.w.Fault == ForgetsSpentKeys {
			delete(g.table, key)
			g.keys = slices.Delete(g.keys, i, i+1)
			return true
		}
	}
	return false
}
