package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// slotTTL is how long a slot is held that nobody releases.
const slotTTL = 2 * time.Second

// slotted is a limit on concurrency: what it counts is given back.
var slotted = exactly("slots", limit.Spec{Algorithm: limit.Concurrency, Count: 3, LeaseTTL: limit.Micros(slotTTL / time.Microsecond)})

// stay is what became of one request that took a slot, worked, and released it.
type stay struct {
	of           *counter
	asked, begun time.Duration // when it asked, and when it was answered
	status       lease.Status
	leaving      time.Duration // when it began to release
	left         time.Duration // when that was answered; 0: it is not known whether it left
}

// visitors take slots, hold them for a moment and release them.
type visitors struct {
	load  *load
	keys  []*counter
	all   sync.WaitGroup
	mu    sync.Mutex
	stays []stay
}

func startVisitors(l *load, keys []*counter) *visitors {
	v := &visitors{load: l, keys: keys}
	for i := range 6 * len(keys) { // twice as many as there are slots
		v.all.Go(func() { v.come(i) })
	}
	return v
}

func (v *visitors) come(visitor int) {
	random := rand.New(rand.NewPCG(5, uint64(visitor)))
	for {
		v.visit(v.keys[visitor%len(v.keys)], random)
		select {
		case <-v.load.stopped:
			return
		case <-time.After(100*time.Millisecond + time.Duration(random.IntN(100))*time.Millisecond):
		}
	}
}

func (v *visitors) visit(c *counter, random *rand.Rand) {
	s := stay{of: c, asked: v.load.at()}
	ask := engine.Ask{Policy: c.policy, Key: []byte(c.key), Op: engine.Take, Holder: random.Uint64() | 1,
		Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	s.status = v.load.one(&ask)
	s.begun = v.load.at()
	if s.status == lease.OK {
		time.Sleep(20*time.Millisecond + time.Duration(random.IntN(80))*time.Millisecond)
		s.leaving = v.load.at()
		ask.Op, ask.Want = engine.Release, lease.Want{}
		if v.load.one(&ask) == lease.OK {
			s.left = v.load.at()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stays = append(v.stays, s)
}

// one makes a call of one ask, whose time counts as that of all calls.
func (l *load) one(a *engine.Ask) lease.Status {
	var grants [1]lease.Grant
	sent := l.at()
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	l.store.Acquire(ctx, []engine.Ask{*a}, grants[:])
	done := l.at()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, span{sent, done})
	return grants[0].Status
}

// crowded reports stays that were one too many, and denials while there was room.
// A slot is held for certain from its answer until its release is sent, and maybe
// from its request until that is answered, or until its ttl is over. No fault adds
// to that: nodes are away for longer than a slot is held here. After a failover
// slots may be taken whose release is lost, so that denials prove nothing.
func (r *referee) crowded(stays []stay) (faults []string) {
	before := len(r.faults)
	for i := range stays {
		s := &stays[i]
		var certain, maybe int64
		for j := range stays {
			o := &stays[j]
			if o.of != s.of || o.status == lease.Denied {
				continue
			}
			if o.status == lease.OK && o.begun <= s.begun && s.begun < o.leaving {
				certain++
			}
			if o.asked <= s.begun && s.asked <= o.gone(r.hangs) && (o.status == lease.OK || r.unanswered(span{o.asked, o.begun}) > 0) {
				maybe++
			}
		}
		if s.status == lease.OK && certain > s.of.limit() {
			r.fault(s.of, "%d hold a slot at %v, at most %d", certain, s.begun, s.of.limit())
		}
		lost := slices.ContainsFunc(r.losses, func(l loss) bool { return l.failover && l.of(s.of) && s.begun > l.fault })
		if s.status == lease.Denied && maybe < s.of.limit() && !lost {
			r.fault(s.of, "denied at %v while no more than %d of %d slots can have been held", s.begun, maybe, s.of.limit())
		}
	}
	return r.faults[before:]
}

// gone is when the slot was free again at the latest.
func (s *stay) gone(hangs []hang) time.Duration {
	if s.left > 0 {
		return s.left
	}
	return latest(s.of, s.begun, hangs) + slotTTL
}
