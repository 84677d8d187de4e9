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
	started limit.Micros    // on its own clock
	former  map[uint64]bool // callers that have shown an epoch of a life before
	heard   map[memory]bool // of whom has been heard what they remember
	table   map[counterKey]*lease.Counter
	keys    []counterKey // of table, by age
	callers map[caller]*lease.Caller
	charged map[debtID]bool
	back    map[returnID]bool // what has come back
}

// debtID names a debt as a store knows it again.
type debtID struct {
	key   counterKey
	owner uint64
	debt  uint64
}

// memory is what one caller remembers of one counter.
type memory struct {
	who uint64
	key counterKey
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
	g.started, g.former, g.heard = g.now(), map[uint64]bool{}, map[memory]bool{}
	g.table, g.keys = map[counterKey]*lease.Counter{}, nil
	g.callers = map[caller]*lease.Caller{}
	g.charged = map[debtID]bool{}
	g.back = map[returnID]bool{}
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
		g.former[c.who] = true
	}
	for _, wt := range c.wants {
		g.recall(c, wt)
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
	return g.w.accepts("granter", g.callers, c)
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
		wt.Unused, wt.returned, wt.Overdrawn, wt.Fresh = 0, nil, 0, false
		if !all && !denied[i] {
			wt.Need, wt.Waiting, wt.Want.Want = 0, 0, 0
		}
		r.grants[i] = g.acquire(c, wt)
	}
}

func (g *granter) settle(k *lease.Counter, wt want) {
	if id := (debtID{wt.key, wt.owner, wt.Debt}); wt.Overdrawn > 0 {
		if g.charged[id] && g.w.Fault != ChargesTwice {
			wt.Overdrawn = 0
		}
		g.charged[id] = true
		g.w.ref.charged(wt)
	}
	told := wt
	for _, r := range wt.returned {
		if g.back[r.name] && g.w.Fault != TakesBackTwice {
			wt.Unused -= r.units
		}
		g.back[r.name] = true
		if r.copy {
			told.Unused -= r.units
		}
	}
	leased := k.Leased
	k.Fit(wt.rule.Limit, &wt.rule.Terms, g.now(), wt.Want)
	if wt.lie {
		g.w.ref.believed(wt, leased-k.Leased)
		return
	}
	g.w.ref.returned(told)
}

func (g *granter) acquire(c call, wt want) grant {
	k := g.counter(wt)
	if k == nil {
		return grant{Grant: lease.Grant{Status: lease.Unavailable}}
	}
	g.settle(k, wt)
	wt.Unused, wt.returned, wt.Overdrawn, wt.Fresh = 0, nil, 0, false
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
	g.table[wt.key] = k
	g.keys = append(g.keys, wt.key)
	return k
}

// recall lowers a counter to what a caller remembers of a life before, once.
func (g *granter) recall(c call, wt want) {
	m := memory{c.who, wt.key}
	if !g.former[c.who] || g.heard[m] || g.now()-g.started >= wt.rule.Limit.Memory() {
		return
	}
	g.heard[m] = true
	if k := g.counter(wt); wt.Reset > 0 && k != nil {
		k.Recall(wt.rule.Limit, &wt.rule.Terms, g.now(), &wt.Want)
	}
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
