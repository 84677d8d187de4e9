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
	streams  streams
	serial   uint64    // of a stream
	granted  []granted // to the request that is being decided
	ask      [1]engine.Ask
	grant    [1]lease.Grant
}

// granted is an ask, and what it was granted.
type granted struct {
	ask   engine.Ask
	grant lease.Grant
}

// newLimiter makes a limiter with room for so many keys, and for so many streams.
func newLimiter(set *rule.Set, most int) *limiter {
	l := &limiter{set: set, most: most, policies: make([][]*engine.Policy, set.Len()), keys: make([]*keylimits.Table, set.Len())}
	l.store = memory.New(memory.Config{MaxKeys: most, MaxBytes: 1 << 30, Now: func() limit.Micros { return l.now }})
	for i := range set.Len() {
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

// decide decides a request, which is not earlier than any before, and notes in its hits what becomes of each. The first rule
// that denies it does so for all: what others have granted goes back. Rules in shadow are asked if none does.
func (l *limiter) decide(e *entry) (denied bool) {
	l.end(e.at)
	l.now, l.granted = e.at, l.granted[:0]
	for _, shadow := range []bool{false, true} {
		for i := range e.hits {
			h := &e.hits[i]
			if (l.set.Rule(h.rule).Mode == rule.Shadow) != shadow {
				continue
			}
			if l.acquire(h); h.denied && !shadow {
				l.giveBack()
				return true
			}
		}
	}
	l.hold(e.at + e.lasts)
	return false
}

// acquire asks for the cost of a hit.
func (l *limiter) acquire(h *hit) {
	p := l.policies[h.rule][h.variant]
	if own := l.keys[h.rule].Find([]byte(h.key), l.now); h.variant == 0 && own.Policy != nil {
		p = own.Policy
	}
	if p.Unlimited {
		return
	}
	l.ask[0] = engine.Ask{Policy: p, Key: []byte(h.key), Want: lease.Want{Need: h.cost, Waiting: h.cost, Want: h.cost}}
	if a := &l.ask[0]; p.Limit.Spec().Algorithm == limit.Concurrency {
		l.serial++
		a.Op, a.Holder = engine.Take, l.serial
		if len(l.streams) >= l.most {
			h.uncounted = true
			return
		}
	}
	l.store.Acquire(context.Background(), l.ask[:], l.grant[:])
	switch l.grant[0].Status {
	case lease.OK:
		l.granted = append(l.granted, granted{l.ask[0], l.grant[0]})
	case lease.Denied:
		h.denied = true
	default:
		h.uncounted = true
	}
}

// giveBack returns what was granted.
func (l *limiter) giveBack() {
	for i := range l.granted {
		g := &l.granted[i]
		l.ask[0] = g.ask.GiveBack(&g.grant)
		l.store.Acquire(context.Background(), l.ask[:], l.grant[:])
	}
}

// hold keeps the slots that were granted until the stream ends.
func (l *limiter) hold(until limit.Micros) {
	for i := range l.granted {
		if g := &l.granted[i]; g.ask.Op == engine.Take {
			heap.Push(&l.streams, stream{until, g.ask.GiveBack(&g.grant)})
		}
	}
}

// end ends the streams that have ended by then.
func (l *limiter) end(at limit.Micros) {
	for len(l.streams) > 0 && l.streams[0].until <= at {
		s := heap.Pop(&l.streams).(stream)
		l.now, l.ask[0] = s.until, s.release
		l.store.Acquire(context.Background(), l.ask[:], l.grant[:])
	}
}

// streams are those that last, a heap by their end.
type streams []stream

type stream struct {
	until   limit.Micros
	release engine.Ask
}

func (s streams) Len() int           { return len(s) }
func (s streams) Less(i, j int) bool { return s[i].until < s[j].until }
func (s streams) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *streams) Push(x any)        { *s = append(*s, x.(stream)) }

func (s *streams) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = stream{}
	*s = (*s)[:last]
	return x
}
