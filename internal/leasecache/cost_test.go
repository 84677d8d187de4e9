package leasecache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// lone is the only client of a limit, at one replica, and the exact limiter that it is
// compared with: that has admitted what the client was.
type lone struct {
	*client
	spent []outlay
	twin  limit.State // that has admitted all of spent
}

// outlay is units that were admitted at a time.
type outlay struct {
	at    limit.Micros
	units int64
}

// request sends a request, which is refused only if an exact limiter would refuse it.
func (l *lone) request(cost int64) bool {
	l.t.Helper()
	g := l.acquire(l.ask(l.policy, 0, cost, cost))[0]
	l.compare(cost, g)
	return g.Granted > 0
}

func (l *lone) compare(cost int64, g lease.Grant) {
	l.t.Helper()
	now := limit.Micros(time.Now().UnixMicro())
	switch fits := l.policy.Limit.Peek(l.twin, now, cost).RetryAfter == 0; {
	case g.Granted > 0 && !fits:
		l.t.Fatalf("request %d, of %d, is admitted beyond the limit", len(l.spent), cost)
	case g.Granted > 0:
		l.spent = append(l.spent, outlay{now, cost})
		l.twin = l.policy.Limit.Charge(l.twin, now, cost)
	case fits && l.fitted(cost+l.policy.Terms.Ample, now-lately(l.policy)):
		l.t.Fatalf("after %d requests one of %d is refused, an exact limiter has room: %+v", len(l.spent), cost, g)
	}
}

// lately is within what time something may have come back to a limit that was not
// reported to anybody yet. A log counts from the end of a lease.
func lately(p *engine.Policy) limit.Micros {
	switch p.Limit.Spec().Algorithm {
	case limit.FixedWindow:
		return 3 * limit.Millisecond
	case limit.SlidingLog:
		return 12 * limit.Second
	}
	return 1500 * limit.Millisecond
}

// fitted reports whether an exact limiter has room whose clock stands at an earlier time.
func (l *lone) fitted(cost int64, at limit.Micros) bool {
	var twin limit.State
	for _, s := range l.spent {
		twin = l.policy.Limit.Charge(twin, min(s.at, at), s.units)
	}
	return l.policy.Limit.Peek(twin, at, cost).RetryAfter == 0
}

// onlyClient runs a test of one client of a limit.
func onlyClient(t *testing.T, spec limit.Spec, run func(*testing.T, *site, *lone)) {
	onSite(t, 1, func(t *testing.T, s *site) {
		run(t, s, &lone{client: &client{t: t, store: s.caches[0], policy: ruled(t, "hot", spec, lease.Leased)}})
	})
}

// One client of one replica is decided on as by one exact limiter, whatever its requests
// cost, and however many come in a moment.
func TestOneClientIsDecidedOnExactly(t *testing.T) {
	t.Parallel()
	for name, spec := range algorithms {
		for _, count := range []int64{3, 20, 500, 100_000} {
			for _, per := range []limit.Micros{limit.Minute, limit.Hour} {
				t.Run(fmt.Sprintf("%s, %d in %d s", name, count, per/limit.Second), func(t *testing.T) {
					spec.Count, spec.Period = count, per
					for seed := range uint64(12) { // each of wander's costs with each of its pauses
						onlyClient(t, spec, func(t *testing.T, s *site, l *lone) { l.wander(seed) })
					}
				})
			}
		}
	}
}

func (l *lone) wander(seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	count := l.policy.Limit.Spec().Count
	most := []int64{2, max(1, count/50), max(1, count/7), count}[seed%4]
	for range 300 {
		if rnd.IntN(12) == 0 || seed%3 == 0 { // pauses now and then, or always
			time.Sleep([]time.Duration{1, 10, 60, 250, 1300, 11_000}[rnd.IntN(6)] * time.Millisecond)
		}
		l.request(1 + rnd.Int64N(most))
	}
}

// Those that are asked for one after the other, each by itself, get what is left after
// those before them: no two asks of a key are out at once, of which one would not count what
// the other is being granted.
func TestEachIsToldWhatIsLeft(t *testing.T) {
	onSite(t, 1, func(t *testing.T, s *site) {
		p := ruled(t, "hour", limit.Spec{Algorithm: limit.FixedWindow, Count: 200, Period: limit.Hour}, lease.Leased)
		c := &client{t: t, store: s.caches[0], policy: p}
		for left := int64(200); left >= 6; {
			for i, g := range c.acquire(c.ask(p, 0, 1, 1), c.ask(p, 0, 1, 1), c.ask(p, 0, 4, 4)) {
				if left -= []int64{1, 1, 4}[i]; g.Status != lease.OK || g.Remaining+g.Granted-[]int64{1, 1, 4}[i] != left {
					t.Errorf("%d left after ask %d: %+v", left, i+1, g)
				}
			}
		}
	})
}
