package leasecache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
)

// What a caller no longer waits for is not lost.
func TestCallerThatLeft(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Hour}, lease.Exact)
		behind.after.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		for range 3 { // the second and third wait for the first one's ask, not for long
			all.Go(func() {
				within(t, f, 60*time.Millisecond, one(p, "k", 0))
			})
		}
		all.Wait()
		behind.after.Store(int64(time.Millisecond))
		time.Sleep(time.Second)
		granted := 0
		for range 10 {
			granted += int(ask(t, f, p, "k").Granted)
			time.Sleep(200 * time.Millisecond)
		}
		if granted < 3 || granted > 4 {
			t.Errorf("%d left of 5 after one was granted and two callers left, want 4, or 3 if one was served in time", granted)
		}
	})
}

// A thousand requests of one key wait at once. When they are answered, the key takes as much memory as any: what it
// takes beside that is not bounded by MaxBytes.
func TestEmptyQueueTakesNoMemory(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1_000_000, Period: limit.Hour}, lease.Leased)
		behind.after.Store(int64(40 * time.Millisecond)) // the second reply comes before the callers leave
		var all sync.WaitGroup
		var granted atomic.Int64
		for range 1000 {
			all.Go(func() { granted.Add(ask(t, f, p, "k").Granted) })
		}
		all.Wait()
		if room := f.Queues(); room > 0 || f.Stats().Keys != 1 {
			t.Errorf("the queue has memory for %d asks although nobody waits: %+v", room, f.Stats())
		}
		granted.Add(ask(t, f, p, "k").Granted)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if d, spare := f.Drain(ended), charged(t, behind.Store, p, "k")-granted.Load(); d != (leasecache.Drained{Lost: spare}) || spare == 0 {
			t.Errorf("drained %+v in no time, of %d units that no request has", d, spare)
		}
	})
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
		if of := s.caches[0].Stats(); of.Leased == 0 || of.Leased > 99 || of.Denied+of.Failed > 0 {
			t.Errorf("99 asks: %+v", of)
		}
	})
}

// look asks what remains, and charges nothing.
func look(p *engine.Policy, group uint32) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("hot"), Group: group}
}

// A question about an exact rule is answered by what the store answers after it was
// asked, alone and in a group, and so is a request: what others have spent is spent.
func TestExactPeekIsNotStale(t *testing.T) {
	for name, spec := range algorithms {
		t.Run(name, func(t *testing.T) {
			spec.Count, spec.Period = 10, limit.Hour
			onSite(t, 2, func(t *testing.T, s *site) {
				p, free := ruled(t, "hot", spec, lease.Exact), ruled(t, "free", spec, lease.Leased)
				a, b := &client{t: t, store: s.caches[0], policy: p}, &client{t: t, store: s.caches[1], policy: p}
				for left := int64(10); left > 0; left-- {
					single(b, 1)
					if g := a.acquire(look(p, 0))[0]; g.Status != lease.OK || g.Remaining != left-1 {
						t.Errorf("%d left, the replica that did not spend it answers %+v", left-1, g)
					}
					if g := a.acquire(look(p, 1), a.ask(free, 1, 1, 1)); g[0].Status != lease.OK || g[0].Remaining != left-1 || g[1].Granted != 1 {
						t.Errorf("%d left, in a group: %+v", left-1, g)
					}
				}
				if n := single(a, 1); n != 0 {
					t.Errorf("granted %d of what another replica has spent", n)
				}
				before := s.asks("free")
				for range 20 {
					a.acquire(look(free, 0))
				}
				if n := s.asks("free") - before; n > 1 {
					t.Errorf("%d asks for 20 questions about a rule with leases", n)
				}
			})
		})
	}
}

// The first request after a denial asks the store, also when it comes while a report is on its way.
func TestRequestBehindAReport(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, _ *far) {
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Hour, Block: limit.Hour, Reserves: true}
		p := policyOf(t, spec, lease.Exact)
		reserved := ask(t, f, p, "k")
		if g := ask(t, f, p, "k"); g.Status != lease.Denied || g.Block != 0 {
			t.Fatalf("while the unit is reserved: %+v, want a denial and no block", g)
		}
		time.Sleep(time.Second) // it may be asked for again
		within(t, f, time.Second, engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Settled: 1, Lease: reserved.Lease}})
		time.Sleep(time.Millisecond) // the store is 2 ms away
		if g := ask(t, f, p, "k"); g.Block != limit.BlockBegan {
			t.Errorf("when the unit is used: %+v, want a block", g)
		}
	})
}

// An ask of the store has the spans of all callers that wait for its answer; one that memory
// answers, or behind which nobody is traced, has none.
func TestTrace(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}, lease.Exact)
		var mu sync.Mutex
		var seen []int
		behind.called = func(ctx context.Context) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, len(telemetry.Waiting(ctx)))
		}
		var all sync.WaitGroup
		caller := func(n int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if n > 0 {
				ctx = telemetry.WithWaiting(ctx, telemetry.ParseTraceParents(fmt.Sprintf("00-%032x-%016x-01", n, n)))
			}
			f.Acquire(ctx, []engine.Ask{one(p, "k", 0)}, make([]lease.Grant, 1))
		}
		caller(0)
		all.Go(func() { caller(1) })
		time.Sleep(time.Millisecond) // its ask is out: the others wait for the next
		for n := range 4 {
			all.Go(func() { caller(n) })
		}
		all.Wait()
		if want := "[0 1 3]"; fmt.Sprint(seen) != want {
			t.Errorf("the asks had %v spans, want %s", seen, want)
		}
	})
}
