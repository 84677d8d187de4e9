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
)

// However many keys are spent, and asked for again and again: a hot key has its lease, its asks and its memory.
func TestSpentKeysLeaveRoomForAHotKey(t *testing.T) {
	t.Parallel()
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			onSmallSite(t, 1, 500, func(t *testing.T, s *site) { spentKeysAndAHotKey(t, s, c) })
		})
	}
}

func spentKeysAndAHotKey(t *testing.T, s *site, c lease.Consistency) {
	const keys = 900
	hourly := limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour}
	hot := ruled(t, "hot", hourly, lease.Leased)
	spent := ruled(t, "flooded", limit.Spec{Algorithm: limit.FixedWindow, Count: 1, Period: limit.Day}, c)
	spent.OnFailure = lease.FailureAllow
	for i := range 2 * keys {
		if v := judgmentOf(t, s.judges[0], spent, fmt.Sprint(i/2), 1); v.Admitted != (i%2 == 0) {
			t.Fatalf("request %d for key %d: %+v", i%2, i/2, v)
		}
	}
	admitted := int64(0)
	for i := range 3334 {
		if judgmentOf(t, s.judges[0], hot, "hot", 1).Admitted {
			admitted++
		}
		if v := judgmentOf(t, s.judges[0], spent, fmt.Sprint(i%keys), 1); v.Admitted {
			t.Errorf("key %d is spent: %+v", i%keys, v)
		}
		time.Sleep(3 * time.Millisecond)
	}
	if asks, most := s.asks("hot"), allowed(hourly); asks > most || admitted != 100 {
		t.Errorf("the store was asked %d times for a hot key in ten seconds, at most %d; admitted %d of 100", asks, most, admitted)
	}
	s.fail(true)
	if v := judgmentOf(t, s.judges[0], spent, "never seen", 1); !v.Admitted || v.Degraded != engine.FailedAllow {
		t.Errorf("a key never seen: %+v", v)
	}
	if s := s.caches[0].Stats(); s.Evicted == 0 || s.Keys > 500 {
		t.Errorf("%+v", s)
	}
}

// Keys that come and go at once, alone and in groups, while the sweep and the store
// run: no unit is lost or minted, and nothing waits for ever.
func TestHammerWithoutRoom(t *testing.T) {
	behind := newMemory()
	f := leasecache.New(leasecache.Config{Store: behind, MaxKeys: 7, MaxBytes: 1 << 30, Timeout: 10 * time.Second})
	ctx, stop := context.WithCancel(t.Context())
	var running, all sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	leased := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1 << 20, Period: 365 * limit.Day}, lease.Leased)
	tight := ruled(t, "tight", limit.Spec{Algorithm: limit.FixedWindow, Count: 20, Period: 365 * limit.Day}, lease.Exact)
	const keys = 25
	var spent [keys]atomic.Int64
	for i := range 8 {
		all.Go(func() {
			for n := range 400 {
				at := (i + 1) * n % keys
				asks := []engine.Ask{one(leased, fmt.Sprint(at), 1), one(tight, fmt.Sprint(at), 1)}
				g := within(t, f, 10*time.Second, asks[:1+n%2]...)
				spent[at].Add(g[0].Granted)
			}
		})
	}
	all.Wait()
	if d := f.Drain(t.Context()); d.Lost > 0 || d.Owed > 0 {
		t.Errorf("%+v", d)
	}
	stop()
	running.Wait()
	for i := range keys {
		if got := charged(t, behind, leased, fmt.Sprint(i)); got != spent[i].Load() {
			t.Errorf("key %d: %d charged, %d spent", i, got, spent[i].Load())
		}
	}
	if s := f.Stats(); s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
}

// Who owes for what was admitted without the store keeps its place until the store
// has confirmed it, also for its share; then it goes as others do.
func TestDebtorsKeepTheirPlaces(t *testing.T) {
	for _, on := range []lease.OnFailure{lease.FailureAllow, lease.FailureLocal} {
		onSmallSite(t, 1, 3, func(t *testing.T, s *site) {
			p := perMinute(t, lease.Leased, on)
			s.fail(true)
			for i := range 3 {
				if v := judgmentOf(t, s.judges[0], p, fmt.Sprint(i), 100); !v.Admitted {
					t.Fatalf("%+v", v)
				}
			}
			for i := range 100 {
				if v := judgmentOf(t, s.judges[0], p, fmt.Sprint("more", i), 1); v.Admitted != (on == lease.FailureAllow) {
					t.Errorf("where all owe, %v: %+v", on, v)
				}
			}
			if v := judgmentOf(t, s.judges[0], p, "0", 1); v.Admitted != (on == lease.FailureAllow) {
				t.Errorf("after its share was spent, %v: %+v", on, v)
			}
			back := engine.Ask{Policy: p, Key: []byte("back"), Want: lease.Want{Unused: 1, Lease: 7}}
			if g := within(t, s.caches[0], time.Second, back)[0]; g.Status != lease.OK {
				t.Errorf("a give-back waits for the store: %+v", g)
			}
			s.fail(false)
			time.Sleep(5 * time.Second)
			for i := range 3 {
				if got := charged(t, s.base, p, fmt.Sprint(i)); got != 100 {
					t.Errorf("%d charged of the 100 that key %d owed", got, i)
				}
			}
			full := s.caches[0].Stats().Full
			for i := range 100 {
				judgmentOf(t, s.judges[0], p, fmt.Sprint("more", i), 1)
			}
			if s.caches[0].Stats().Full != full {
				t.Error("there is no room although nobody owes any more")
			}
		})
	}
}

// Of keys that nobody uses now, the one that was used longest ago makes room.
func TestOldestKeyMakesRoom(t *testing.T) {
	onSmallSite(t, 1, 3, func(t *testing.T, s *site) {
		p := perMinute(t, lease.Leased, lease.FailureDeny)
		for _, key := range []string{"b", "a", "c", "b", "d"} { // d takes the place of a
			judgmentOf(t, s.judges[0], p, key, 1)
			time.Sleep(time.Second)
		}
		before := s.asks(p.Rule)
		if judgmentOf(t, s.judges[0], p, "b", 1); s.asks(p.Rule) != before {
			t.Error("the key that was used last but one has lost its lease")
		}
	})
}
