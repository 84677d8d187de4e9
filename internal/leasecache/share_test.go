package leasecache_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// grant is units that were granted at a time, charged to a lease.
type grant struct {
	at    time.Duration
	units int64
	lease uint32
}

// step is a want that is sent to a replica after a pause.
type step struct {
	pause      time.Duration
	replica    int
	need, want int64
}

// On any trace, of any clients at any replicas, no window has more than its limit,
// by whatever the algorithm promises.
func TestNoTracePassesTheLimit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec := rapid.SampledFrom([]limit.Spec{
			{Algorithm: limit.FixedWindow, Period: limit.Second},
			{Algorithm: limit.FixedWindow, Period: 3 * limit.Second, Align: limit.AlignFirstRequest},
			{Algorithm: limit.TokenBucket, Period: limit.Second},
			{Algorithm: limit.SlidingLog, Period: 2 * limit.Second},
			{Algorithm: limit.SlidingWindow, Period: 2 * limit.Second},
		}).Draw(r, "spec")
		spec.Count = rapid.Int64Range(1, 200).Draw(r, "count")
		c := rapid.SampledFrom([]lease.Consistency{lease.Leased, lease.Exact}).Draw(r, "consistency")
		replicas := rapid.IntRange(1, 4).Draw(r, "replicas")
		trace := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			need := rapid.Int64Range(0, spec.Count/3+1).Draw(r, "need")
			return step{
				pause:   time.Duration(rapid.SampledFrom([]int{0, 0, 1, 7, 60, 300}).Draw(r, "pause")) * time.Millisecond,
				replica: rapid.IntRange(0, replicas-1).Draw(r, "replica"),
				need:    need,
				want:    need + rapid.Int64Range(0, spec.Count).Draw(r, "ahead"),
			}
		}), 1, 150).Draw(r, "trace")
		var grants []grant
		onSite(t, replicas, func(t *testing.T, s *site) { grants = s.play(t, ruled(t, "hot", spec, c), trace) })
		if what := broken(spec, grants); what != "" {
			r.Fatal(what)
		}
	})
}

// play sends a trace, without waiting for answers, and lists what was granted.
func (s *site) play(t *testing.T, p *engine.Policy, trace []step) (grants []grant) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	begin := time.Now()
	for _, w := range trace {
		time.Sleep(w.pause)
		asked.Go(func() {
			c := &client{t: t, store: s.caches[w.replica]}
			g := c.acquire(c.ask(p, 0, w.need, w.want))[0]
			mu.Lock()
			defer mu.Unlock()
			grants = append(grants, grant{time.Since(begin), g.Granted, g.Lease})
		})
	}
	asked.Wait()
	return grants
}

// broken is how grants pass a limit; empty: they do not.
func broken(spec limit.Spec, grants []grant) string {
	if spec.Algorithm == limit.FixedWindow {
		windows := map[uint32]int64{}
		for _, g := range grants {
			if windows[g.lease] += g.units; windows[g.lease] > spec.Count {
				return fmt.Sprintf("window %d was granted %d of %d", g.lease, windows[g.lease], spec.Count)
			}
		}
		return ""
	}
	period := time.Duration(spec.Period) * time.Microsecond
	const travels = 4 * time.Millisecond // from the charge to whoever asked
	for i, last := range grants {
		var units int64
		for _, g := range grants[:i+1] {
			if g.at > last.at-period+travels {
				units += g.units
			}
		}
		most := spec.Count
		switch spec.Algorithm {
		case limit.TokenBucket:
			most = 3 * spec.Count // what was out on lease, a burst, and the refill of a period
		case limit.SlidingWindow:
			most = 2 * spec.Count // all of one window of the clock at its end, and of the next
		}
		if units > most {
			return fmt.Sprintf("%d of %d were granted in the period until %v", units, spec.Count, last.at)
		}
	}
	return ""
}

// All units of a lease that runs come back, also when a key was idle for so long that the
// cache may have forgotten it.
func TestUnitsOfAnIdleKeyComeBack(t *testing.T) {
	for name, spec := range algorithms {
		for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
			t.Run(fmt.Sprintf("%s, %v", name, c), func(t *testing.T) {
				spec.Count, spec.Period = 100, limit.Hour
				onSite(t, 1, func(t *testing.T, s *site) {
					p := ruled(t, "hot", spec, c)
					a := &client{t: t, store: s.caches[0], policy: p}
					grants := a.acquire(a.ask(p, 0, 20, 20))
					time.Sleep(5 * time.Second) // the cache looks for idle keys every two
					grants = append(grants, a.acquire(a.ask(p, 0, 5, 5))...)
					for _, g := range grants {
						back := a.ask(p, 0, 0, 0)
						back.Want.Unused, back.Want.Lease = g.Granted, g.Lease
						a.acquire(back)
					}
					time.Sleep(20 * time.Second) // what the cache took back lapses
					if got := charged(t, s.base, p, "hot"); got != 0 {
						t.Errorf("%d are charged of 25 that came back", got)
					}
					if keys := s.caches[0].Stats().Keys; keys != 0 {
						t.Errorf("%d keys are cached, of which nothing is on lease", keys)
					}
				})
			})
		}
	}
}
