// Package exact decides requests by rules as one exact limiter does: each key has one counter in memory, and no lease, delay or
// replica makes a difference. Tests of rules and replays of access logs decide with it.
package exact

import (
	"container/heap"
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/keylimits"
)

// Secret is what keys of rules with hash: true are hashed under.
var Secret rule.Secret

// Limiter counts the requests of one set of rules. It is not safe for concurrent use.
type Limiter struct {
	set      *rule.Set
	now      limit.Micros
	store    *memory.Store
	policies [][]*engine.Policy // by rule and variant
	keys     []keylimits.Table  // by rule
	parts    map[part]*engine.Policy
	most     int // streams
	streams  Endings[engine.Ask]
	serial   uint64       // of a stream
	asks     []engine.Ask // of the request that is being decided
	asked    []int        // the hit of each ask
	back     []engine.Ask // these give back what it was granted
	granted  []int        // the hit of each of these
	counted  []Counted    // by its hits
}

// Hit is a rule that applies to a request.
type Hit struct {
	Rule, Variant int
	Cost          int64
	Key           string
	// Place separates counters of the same key: for example the name of a region. Empty: all share one.
	Place string
	// Settles is true if the response settles what the request took: when it ends it has used so many units, and the others
	// of Cost go back, or the excess is charged.
	Settles bool
	Used    int64
	// Part is how many of so many units of the limit are available; nil: all.
	Part func(units int64) int64

	Denied    bool // by the limiter
	Uncounted bool // the limiter had no space for the key or the stream
}

// Counted is how the limiter decided a hit.
type Counted struct {
	Policy *engine.Policy // the limit; Unlimited if an override lifts it
	Own    []byte         // name of the key's own override; empty: it has none, or no own limit
	Keyed  bool           // the key has its own limit
	Grant  lease.Grant
}

// New makes a limiter for at most so many keys, and for at most so many streams.
func New(set *rule.Set, most int) *Limiter {
	n := set.Len()
	l := &Limiter{set: set, most: most, policies: make([][]*engine.Policy, n), keys: make([]keylimits.Table, n), parts: map[part]*engine.Policy{}}
	l.store = memory.New(memory.Config{MaxKeys: most, MaxBytes: 1 << 30, Now: func() limit.Micros { return l.now }})
	for i := range n {
		r := set.Rule(i)
		for v := range r.Limits {
			of := set.Limit(i, v)
			if s := of.Spec(); s.Algorithm == limit.Concurrency {
				s.LeaseTTL = limit.Day // nobody renews
				of, _ = limit.New(s)
			}
			l.policies[i] = append(l.policies[i], engine.NewPolicy(r.Name, set.Override(i, v), of, lease.NewTerms(of, lease.Exact, 0, 0, 0)))
		}
		if len(r.Limits) > 0 {
			l.keys[i] = keylimits.New(r, []rule.Secret{Secret}, l.policies[i][0])
		}
	}
	return l
}

// Decide decides a request, which is not earlier than any before, and notes in its hits what becomes of each; lasts is for how long it
// holds its slots of concurrency limits, and when its response settles. All rules grant it or none. denier is the hit that rejects it: if several would, the first, and
// concurrency limits come last; -1: none. Rules in shadow are asked if none does.
func (l *Limiter) Decide(at, lasts limit.Micros, hits []Hit) (denier int) {
	l.end(at)
	l.now, l.back, l.granted = at, l.back[:0], l.granted[:0]
	l.counted = slices.Grow(l.counted[:0], len(hits))[:len(hits)]
	clear(l.counted)
	if denier = l.acquire(hits, false); denier >= 0 {
		l.store.Acquire(context.Background(), l.back, make([]lease.Grant, len(l.back)))
		return denier
	}
	l.acquire(hits, true)
	for i, a := range l.back {
		h := &hits[l.granted[i]]
		if !h.Settles { // it counts
			h.Used = h.Cost
		}
		switch w := &a.Want; {
		case a.Op == engine.Release:
		case h.Settles, a.Policy.Limit.Spec().Reserves:
			w.Unused, w.Overdrawn, w.Settled = max(0, h.Cost-h.Used), max(0, h.Used-h.Cost), min(h.Used, h.Cost)
		default:
			continue
		}
		heap.Push(&l.streams, Ending[engine.Ask]{at + lasts, a})
	}
	return -1
}

// Counted is how a hit of the last request was decided, by its index. It is valid until the next request.
func (l *Limiter) Counted(hit int) *Counted { return &l.counted[hit] }

// acquire asks for the costs of hits, of rules in shadow or of the others.
func (l *Limiter) acquire(hits []Hit, shadow bool) (denier int) {
	l.asks, l.asked, denier = l.asks[:0], l.asked[:0], -1
	for _, slots := range []bool{false, true} {
		for i := range hits {
			r := l.set.Rule(hits[i].Rule)
			if (r.Mode == rule.Shadow) == shadow && r.Concurrent() == slots {
				l.ask(hits, i, slots, shadow)
			}
		}
	}
	grants := make([]lease.Grant, len(l.asks))
	l.store.Acquire(context.Background(), l.asks, grants)
	for n, i := range l.asked {
		h, g := &hits[i], &grants[n]
		l.counted[i].Grant = *g
		switch {
		case g.Status == lease.Denied:
			if h.Denied = shadow || denier < 0; denier < 0 {
				denier = i
			}
		case g.Status != lease.OK:
			h.Uncounted = true
		case g.Granted > 0:
			l.back, l.granted = append(l.back, l.asks[n].GiveBack(g)), append(l.granted, i)
		}
	}
	return denier
}

// ask adds an ask for a hit.
func (l *Limiter) ask(hits []Hit, i int, slots, shadow bool) {
	h, c := &hits[i], &l.counted[i]
	c.Policy = l.policies[h.Rule][h.Variant]
	if own := l.keys[h.Rule].Find([]byte(h.Key), l.now); h.Variant == 0 && own.Policy != nil {
		c.Policy, c.Own, c.Keyed = own.Policy, own.Name, true
	}
	if c.Policy.Unlimited {
		return
	}
	if h.Part != nil {
		c.Policy = l.part(c.Policy, h.Part)
	}
	key := h.Key
	if h.Place != "" {
		key = h.Place + "\x00" + key
	}
	a := engine.Ask{Policy: c.Policy, Key: []byte(key), Want: lease.Want{Need: h.Cost, Waiting: h.Cost, Want: h.Cost}}
	switch {
	case slots && len(l.streams) >= l.most:
		h.Uncounted = true
		return
	case slots:
		l.serial++
		a.Op, a.Holder = engine.Take, l.serial
	case !shadow:
		a.Group = 1
	}
	l.asks, l.asked = append(l.asks, a), append(l.asked, i)
}

// part names a part of the limit of a policy.
type part struct {
	of           *engine.Policy
	count, burst int64
}

// part is the policy for the same counters with a part of the limit.
func (l *Limiter) part(p *engine.Policy, of func(units int64) int64) *engine.Policy {
	s := p.Limit.Spec()
	name := part{p, of(s.Count), of(s.Burst)}
	if l.parts[name] == nil {
		of := p.Resized(name.count, name.burst)
		of.Limit = of.Limit.WithoutBlock()
		l.parts[name] = of
	}
	return l.parts[name]
}

// end ends the streams that have ended by then.
func (l *Limiter) end(at limit.Micros) {
	for len(l.streams) > 0 && l.streams[0].At <= at {
		s := heap.Pop(&l.streams).(Ending[engine.Ask])
		l.now = s.At
		l.store.Acquire(context.Background(), []engine.Ask{s.What}, make([]lease.Grant, 1))
	}
}

// Endings are a heap of what ends, by when.
type Endings[T any] []Ending[T]

// Ending is something that ends.
type Ending[T any] struct {
	At   limit.Micros
	What T
}

func (e Endings[T]) Len() int           { return len(e) }
func (e Endings[T]) Less(i, j int) bool { return e[i].At < e[j].At }
func (e Endings[T]) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push is for package heap.
func (e *Endings[T]) Push(x any) { *e = append(*e, x.(Ending[T])) }

// Pop is for package heap.
func (e *Endings[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = Ending[T]{}
	*e = (*e)[:last]
	return x
}
