package upstream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
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
		unavailable, ok := 0, 0
		for range 2000 {
			for range 50 { // for any key
				w.store.Acquire(gone, []engine.Ask{need(p, 1)}, make([]lease.Grant, 1))
			}
			if g := w.acquire(need(p, 1))[0]; g.Status == lease.Unavailable {
				unavailable++
			} else {
				ok++
			}
			time.Sleep(5 * time.Millisecond)
		}
		if unavailable > 0 {
			t.Errorf("%d requests of others are unavailable, %d are decided", unavailable, ok)
		}
	})
}

// slow is an aggregator that takes 100 ms.
type slow struct{ *region }

func (s slow) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if ends, ok := ctx.Deadline(); ok && time.Until(ends) < 100*time.Millisecond {
		time.Sleep(time.Until(ends))
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
		return
	}
	time.Sleep(100 * time.Millisecond)
	s.region.Acquire(ctx, asks, grants)
}

// A caller that gives its calls 20 ms to be decided does not put the reserve of a region in use that is well connected.
func TestImpatientCaller(t *testing.T) {
	inWorld(t, func(w *region) {
		p := w.policy("r", perMinute(400))
		store := upstream.New(upstream.Config{Aggregator: slow{w}, Own: w.store, Raw: w.store, Keeper: w.keeper, Metrics: telemetry.NewRegistry(""), RuleUnknown: func(string) bool { return false }})
		for range 100 {
			for range 3 { // all others are decided
				go store.Acquire(context.Background(), []engine.Ask{{Policy: p, Key: []byte("x"), Want: lease.Want{Want: 1}}}, make([]lease.Grant, 1))
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			store.Acquire(ctx, []engine.Ask{{Policy: p, Key: []byte("y"), Want: lease.Want{Want: 1}}}, make([]lease.Grant, 1))
			cancel()
			time.Sleep(80 * time.Millisecond)
		}
		if s, _ := w.keeper.Statement(); w.keeper.InUse() || s.Until < clock() {
			t.Errorf("the reserve is in use: %v; renounced until %d s from now", w.keeper.InUse(), (s.Until-clock())/limit.Second)
		}
		time.Sleep(time.Second)
	})
}

// hurried notes how long the aggregator may take.
type hurried struct {
	*region
	left time.Duration
}

func (h *hurried) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	ends, _ := ctx.Deadline()
	h.left = time.Until(ends)
	h.region.Acquire(ctx, asks, grants)
}

// Of the time of a caller a fifth is kept for the reserve, and 50 ms at most.
func TestTimeIsLeftForTheReserve(t *testing.T) {
	inWorld(t, func(w *region) {
		h := &hurried{region: w}
		store := upstream.New(upstream.Config{Aggregator: h, Own: w.store, Raw: w.store, Keeper: w.keeper, Metrics: telemetry.NewRegistry(""), RuleUnknown: func(string) bool { return false }})
		for of, want := range map[time.Duration]time.Duration{20: 16, 100: 80, 1000: 950} {
			ctx, cancel := context.WithTimeout(context.Background(), of*time.Millisecond)
			store.Acquire(ctx, []engine.Ask{need(w.policy("r", perMinute(400)), 1)}, make([]lease.Grant, 1))
			if cancel(); h.left != want*time.Millisecond {
				t.Errorf("of %d ms the aggregator may take %s", of, h.left)
			}
		}
	})
}

// A link that flaps leaves counters of its outages in the region's store for a minute or two, not for the day of the
// limit.
func TestFlappingLinkLeavesNoCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		global := &aggregator{granted: map[string]int64{}, debts: map[string]int64{}}
		own := memory.New(memory.Config{MaxKeys: 100_000, MaxBytes: 1 << 30, Now: clock})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = own.Run(ctx) }()
		r := newRegion(t, global, own)
		time.Sleep(10 * time.Second)
		p := r.policy("day", limit.Spec{Algorithm: limit.FixedWindow, Count: 10_000_000, Period: limit.Day})
		for range 60 {
			r.link(false)
			time.Sleep(3 * time.Second)
			for key := range 100 {
				a := need(p, 1)
				a.Key = []byte{byte(key)}
				r.acquire(a)
			}
			r.link(true)
			time.Sleep(5 * time.Second)
		}
		if keys := own.Stats().Keys; keys > 2000 {
			t.Errorf("%d counters after 60 outages of 8 s with 100 keys, want those of two minutes", keys)
		}
	})
}
