package upstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A caller that has gone keeps no other one from permission.
func TestCallerThatHasGone(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		time.Sleep(10 * time.Second)
		w.link(false)
		time.Sleep(55 * time.Second) // in the next window, which was not renounced
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		unavailable := 0
		for range 2000 {
			for range 50 { // for any key
				w.store.Acquire(gone, []engine.Ask{need(p, 1)}, make([]lease.Grant, 1))
			}
			if g := w.acquire(need(p, 1))[0]; g.Status == lease.Unavailable {
				unavailable++
			}
			time.Sleep(5 * time.Millisecond)
		}
		if unavailable > 0 {
			t.Errorf("%d of 2,000 requests of others are unavailable", unavailable)
		}
	})
}

// A caller that gives its calls 20 ms to be decided does not put the reserve of a region in use that is well connected.
func TestImpatientCaller(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		w.takes = 100 * time.Millisecond
		for range 100 {
			for range 3 { // all others are decided
				go w.store.Acquire(context.Background(), []engine.Ask{{Policy: p, Key: []byte("x"), Want: lease.Want{Want: 1}}}, make([]lease.Grant, 1))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			w.store.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte("y"), Want: lease.Want{Want: 1}}}, make([]lease.Grant, 1))
			cancel()
			time.Sleep(80 * time.Millisecond)
		}
		if s, _ := w.keeper.Statement(); w.keeper.InUse() || s.Until < clock() {
			t.Errorf("the reserve is in use: %v; renounced until %d s from now", w.keeper.InUse(), (s.Until-clock())/limit.Second)
		}
		time.Sleep(time.Second)
	})
}

// Of the time of a caller a fifth is kept for the reserve, and 50 ms at most.
func TestTimeIsLeftForTheReserve(t *testing.T) {
	inWorld(t, func(w *region) {
		for of, want := range map[time.Duration]time.Duration{20: 16, 100: 80, 1000: 950} {
			ctx, cancel := context.WithTimeout(context.Background(), of*time.Millisecond)
			w.store.Acquire(ctx, []engine.Ask{need(w.policy("r", perMinute(400)), 1)}, make([]lease.Grant, 1))
			cancel()
			if left := time.Duration(w.left.Load()); left != want*time.Millisecond {
				t.Errorf("of %d ms the aggregator may take %s", of, left)
			}
		}
	})
}

// A link that flaps leaves counters of its outages in the region's store for a minute or two, not for the day of the
// limit.
func TestFlappingLinkLeavesNoCounters(t *testing.T) {
	inWorld(t, func(w *region) {
		go func() { _ = w.own.Run(w.t.Context()) }()
		time.Sleep(20 * time.Second)
		p := w.policy("day", limit.Spec{Algorithm: limit.FixedWindow, Count: 10_000_000, Period: limit.Day})
		for range 60 {
			w.link(false)
			time.Sleep(3 * time.Second)
			for key := range 100 {
				a := need(p, 1)
				a.Key = []byte{byte(key)}
				w.acquire(a)
			}
			w.link(true)
			time.Sleep(5 * time.Second)
		}
		if keys := w.own.Stats().Keys; keys > 2000 {
			t.Errorf("%d counters after 60 outages of 8 s with 100 keys, want those of two minutes", keys)
		}
	})
}
