package replay

import (
	"container/heap"
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/keylimits"
)

// limiter decides requests as a region does that is asked for each of them: by its store.
type limiter struct {
	set      *rule.Set
	now      limit.Micros
	store    *memory.Store
	policies [][]*engine.Policy // by rule and variant
	keys     []*keylimits.Table // by rule
	most     int                // streams
	streams  endings[engine.Ask]
	serial   uint64       // of a stream
	asks     []engine.Ask // of the request that is being decided
	asked    []*hit       // by asks
	back     []engine.Ask // what gives back what it was granted
}

// newLimiter makes a limiter with room for so many keys, and for so many streams.
func newLimiter(set *rule.Set, most int) *limiter {
	n := set.Len()
	l := &limiter{set: set, most: most, policies: make([][]*engine.Policy, n), keys: make([]*keylimits.Table, n)}
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
			l.keys[i] = keylimits.New(r, []rule.Secret{{}}, l.policies[i][0])
		}
	}
	return l
}

// decide decides a request, which is not earlier than any before, and notes in its hits what becomes of each. All rules grant it
// or none; if several would deny it, the first one does, and those of streams come last. Rules in shadow are asked if none does.
func (l *limiter) decide(e *entry) (denied bool) {
	l.end(e.at)
	l.now, l.back = e.at, l.back[:0]
	if l.acquire(e.hits, false) {
		l.store.Acquire(context.Background(), l.back, make([]lease.Grant, len(l.back)))
		return true
	}
	l.acquire(e.hits, true)
	for _, a := range l.back {
		if a.Op == engine.Release {
			heap.Push(&l.streams, ending[engine.Ask]{e.at + e.lasts, a})
		}
	}
	return false
}

// acquire asks for the costs of hits, of rules in shadow or of the others.
func (l *limiter) acquire(hits []hit, shadow bool) (denied bool) {
	l.asks, l.asked = l.asks[:0], l.asked[:0]
	for _, slots := range []bool{false, true} {
		for i := range hits {
			r := l.set.Rule(hits[i].rule)
			if (r.Mode == rule.Shadow) == shadow && (r.Limits[0].Limit.Algorithm == limit.Concurrency) == slots {
				l.ask(&hits[i], slots, shadow)
			}
		}
	}
	grants := make([]lease.Grant, len(l.asks))
	l.store.Acquire(context.Background(), l.asks, grants)
	for i, h := range l.asked {
		switch g := &grants[i]; {
		case g.Status == lease.Denied:
			h.denied = shadow || !denied
			denied = true
		case g.Status != lease.OK:
			h.uncounted = true
		case g.Granted > 0:
			l.back = append(l.back, l.asks[i].GiveBack(g))
		}
	}
	return denied
}

// ask adds what a hit asks for.
func (l *limiter) ask(h *hit, slots, shadow bool) {
	p := l.policies[h.rule][h.variant]
	if own := l.keys[h.rule].Find([]byte(h.key), l.now); h.variant == 0 && own.Policy != nil {
		p = own.Policy
	}
	if p.Unlimited {
		return
	}
	a := engine.Ask{Policy: p, Key: []byte(h.key), Want: lease.Want{Need: h.cost, Waiting: h.cost, Want: h.cost}}
	switch {
	case slots && len(l.streams) >= l.most:
		h.uncounted = true
		return
	case slots:
		l.serial++
		a.Op, a.Holder = engine.Take, l.serial
	case !shadow:
		a.Group = 1
	}
	l.asks, l.asked = append(l.asks, a), append(l.asked, h)
}

// end ends the streams that have ended by then.
func (l *limiter) end(at limit.Micros) {
	for len(l.streams) > 0 && l.streams[0].at <= at {
		s := heap.Pop(&l.streams).(ending[engine.Ask])
		l.now = s.at
		l.store.Acquire(context.Background(), []engine.Ask{s.what}, make([]lease.Grant, 1))
	}
}

// endings are a heap of what ends, by when.
type endings[T any] []ending[T]

type ending[T any] struct {
	at   limit.Micros
	what T
}

func (e endings[T]) Len() int           { return len(e) }
func (e endings[T]) Less(i, j int) bool { return e[i].at < e[j].at }
func (e endings[T]) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *endings[T]) Push(x any)        { *e = append(*e, x.(ending[T])) }

func (e *endings[T]) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = ending[T]{}
	*e = (*e)[:last]
	return x
}
