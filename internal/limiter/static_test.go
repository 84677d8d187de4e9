package limiter_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// severed is a store that answers unless it is cut off.
type severed struct {
	engine.Store
	cut bool
}

func (s *severed) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if !s.cut {
		s.Store.Acquire(ctx, asks, grants)
		return
	}
	for i := range grants {
		grants[i] = lease.Grant{Status: lease.Unavailable}
	}
}

// shareholder is a region with a share of a quarter, in memory. It starts with a window of a minute.
type shareholder struct {
	t        *testing.T
	far      severed
	own      *memory.Store
	receipts *limiter.Receipts
	store    *limiter.Static
}

// inShareholder runs a test in a bubble.
func inShareholder(t *testing.T, test func(*shareholder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &shareholder{t: t, own: memory.New(memory.Config{MaxKeys: 100, MaxBytes: 1 << 20}), receipts: limiter.NewReceipts(nil, slog.New(slog.DiscardHandler))}
		h.far.Store = memory.New(memory.Config{MaxKeys: 100, MaxBytes: 1 << 20})
		h.store = limiter.NewStatic("eu", &h.far, h.own, h.receipts, telemetry.NewRegistry(""))
		test(h)
	})
}

// pass lets the time pass, in which replies arrive or not.
func (h *shareholder) pass(d time.Duration, connected bool) {
	h.far.cut = !connected
	for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(time.Second / 2) {
		if connected {
			h.receipts.Received(1)
		}
	}
}

func (h *shareholder) policy(name string, s limit.Spec) *engine.Policy {
	h.t.Helper()
	l, err := limit.New(s)
	if err != nil {
		h.t.Fatal(err)
	}
	p := engine.NewPolicy(name, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0), 0)
	p.Scope, p.OnFailure = rule.ScopeGlobal, lease.FailureLocal
	p.Regions = rule.Regions{{Name: "eu", Weight: 1}, {Name: "us", Weight: 3}}
	return p
}

func perMinute(n int64) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: n, Period: limit.Minute}
}

func need(p *engine.Policy, units int64) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Need: units, Waiting: units, Want: units}}
}

func (h *shareholder) acquire(asks ...engine.Ask) []lease.Grant {
	grants := make([]lease.Grant, len(asks))
	h.store.Acquire(context.Background(), asks, grants)
	return grants
}

// spend takes units one by one until none is left. A request that is not admitted is denied.
func (h *shareholder) spend(p *engine.Policy) (got int64) {
	h.t.Helper()
	for {
		g := h.acquire(need(p, 1))[0]
		if g.Limit != p.Terms.Capacity {
			h.t.Fatalf("%+v, want the rule's limit", g)
		}
		if g.Status == lease.Denied {
			return got
		}
		if got++; g.Status != lease.OK || got > 1000 {
			h.t.Fatalf("%+v", g)
		}
	}
}

// The share is that of windows that began when the region had been silent for 3 s, whole in
// each of them, and until they end.
func TestShareOfWindows(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		inShareholder(t, func(h *shareholder) {
			s := perMinute(100)
			s.Algorithm = algorithm
			p := h.policy("r", s)
			want := func(n int64, what string) {
				t.Helper()
				if got := h.spend(p); got != n {
					t.Errorf("%v, %s: %d units, want %d", algorithm, what, got, n)
				}
			}
			h.pass(10*time.Second, true)
			want(100, "connected")
			h.pass(48*time.Second, false)
			want(0, "cut off in a window that began before")
			h.pass(30*time.Second, false)
			want(25, "cut off when the window began")
			want(0, "the share is spent")
			if algorithm == limit.SlidingWindow { // in which it fades
				return
			}
			h.pass(90*time.Second, false)
			want(25, "cut off for another window")
			h.pass(61*time.Second, true)
			h.pass(5*time.Second, false)
			want(0, "the window began less than 3 s after the last reply")
		})
	}
}

// After a silence the share of a window that is not over yet stays, beside what the aggregator grants.
func TestShareUntilTheWindowEnds(t *testing.T) {
	inShareholder(t, func(h *shareholder) {
		p := h.policy("r", perMinute(100))
		h.pass(70*time.Second, false)
		if g := h.acquire(need(p, 5))[0]; g.Granted != 5 {
			t.Fatalf("%+v", g)
		}
		h.pass(10*time.Second, true)
		if got := h.spend(p); got != 120 { // the far store of this test withholds nothing
			t.Errorf("%d units, want 100 and the other 20 of the share", got)
		}
		h.pass(39*time.Second, true)
		if takes, _ := h.receipts.Takes(p.Limit); !takes {
			t.Error("the share ended before the window")
		}
		time.Sleep(950 * time.Millisecond)
		if takes, _ := h.receipts.Takes(p.Limit); takes {
			t.Error("the share is used so late that it may be counted in the next window")
		}
		h.pass(10*time.Second, true)
		if got := h.spend(p); got != 100 {
			t.Errorf("%d units in the next window, want 100", got)
		}
	})
}

// Limits without windows by the clock: the share is there while the region is silent.
func TestShareWithoutWindows(t *testing.T) {
	for name, s := range map[string]limit.Spec{
		"bucket": {Count: 100, Period: limit.Hour, Burst: 40},
		"log":    {Algorithm: limit.SlidingLog, Count: 40, Period: limit.Hour},
		"align":  {Algorithm: limit.FixedWindow, Count: 40, Period: limit.Hour, Align: limit.AlignFirstRequest},
	} {
		inShareholder(t, func(h *shareholder) {
			p := h.policy("r", s)
			h.pass(5*time.Second, true)
			h.pass(2*time.Second, false)
			if got := h.spend(p); got != 0 {
				t.Errorf("%s: %d units after 2 s", name, got)
			}
			if g := h.acquire(need(p, 1))[0]; g.RetryAfter < 500 || g.RetryAfter > 1500 {
				t.Errorf("%s: %+v, want a retry after a second", name, g)
			}
			h.pass(2*time.Second, false)
			if got := h.spend(p); got != 10 {
				t.Errorf("%s: %d units after 4 s, want 10", name, got)
			}
			h.pass(time.Second, true)
			if got := h.spend(p); got != 40 {
				t.Errorf("%s: %d units of the aggregator, want 40", name, got)
			}
		})
	}
}

// What comes back goes to the store that granted it.
func TestShareComesBack(t *testing.T) {
	for name, s := range map[string]limit.Spec{
		"window": perMinute(100), "sliding window": {Algorithm: limit.SlidingWindow, Count: 100, Period: limit.Minute},
		"month": {Algorithm: limit.FixedWindow, Count: 100, Period: 30 * limit.Day}, "bucket": {Count: 100, Period: limit.Day},
		"log": {Algorithm: limit.SlidingLog, Count: 100, Period: limit.Minute},
	} {
		inShareholder(t, func(h *shareholder) {
			p := h.policy("r", s)
			wait := 70 * time.Second
			if s.Period > limit.Hour { // until a window begins
				wait = time.Duration(s.Period-limit.Micros(time.Now().UnixMicro())%s.Period)*time.Microsecond + 2*time.Second
			}
			time.Sleep(wait - 35*time.Second)
			h.pass(10*time.Second, true)
			far := h.acquire(need(p, 10))[0]
			h.pass(25*time.Second, false)
			own := h.acquire(need(p, 10))[0]
			if far.Granted != 10 || own.Granted != 10 || far.Lease == own.Lease {
				t.Fatalf("%s: %+v and %+v", name, far, own)
			}
			for _, g := range []lease.Grant{own, far} {
				back := engine.Ask{Policy: p, Key: []byte("k"), Want: lease.Want{Unused: g.Granted, Lease: g.Lease}}
				h.acquire(back)
			}
			if got := h.spend(p); got != 25 {
				t.Errorf("%s: %d units of the share, want 25: it came back once", name, got)
			}
		})
	}
}

// Of a request with several limits nothing is charged if one of them denies it.
func TestShareOfGroups(t *testing.T) {
	inShareholder(t, func(h *shareholder) {
		wide, small := h.policy("wide", perMinute(100)), h.policy("small", perMinute(8))
		both := func() []lease.Grant {
			a, b := need(wide, 1), need(small, 1)
			a.Group, b.Group = 1, 1
			return h.acquire(a, b)
		}
		h.pass(70*time.Second, false)
		for i := range 5 {
			g := both()
			if admitted := g[0].Granted == 1 && g[1].Granted == 1; admitted != (i < 2) {
				t.Errorf("request %d: %+v", i, g)
			}
		}
		if got := h.spend(wide); got != 23 {
			t.Errorf("%d units are left of 25, want 23", got)
		}
		h.pass(60*time.Second, false)
		h.far.cut = false // and the aggregator denies both
		h.acquire(need(wide, 100))
		h.acquire(need(small, 8))
		if g := both(); g[0].Granted != 1 || g[1].Granted != 1 {
			t.Errorf("%+v, want units of the share that the window began with", g)
		}
	})
}

// Rules that do not enforce shares, and reports that the aggregator did not get, are not touched.
func TestShareOfOthers(t *testing.T) {
	inShareholder(t, func(h *shareholder) {
		p, local := h.policy("allow", perMinute(100)), h.policy("local", perMinute(100))
		p.OnFailure = lease.FailureAllow
		h.pass(70*time.Second, false)
		report := engine.Ask{Policy: local, Key: []byte("k"), Want: lease.Want{Overdrawn: 3, Debt: 1}}
		for _, g := range h.acquire(need(p, 1), report) {
			if g.Status != lease.Unavailable {
				t.Errorf("%+v", g)
			}
		}
		debtor := need(local, 1)
		debtor.Want.Overdrawn, debtor.Want.Debt = 3, 2
		if g := h.acquire(debtor)[0]; g.Granted != 1 || !g.StillOwed {
			t.Errorf("%+v, want a unit, and that the debt goes on", g)
		}
		elsewhere := limiter.NewStatic("ap", &h.far, h.own, h.receipts, telemetry.NewRegistry(""))
		grants := make([]lease.Grant, 1)
		elsewhere.Acquire(t.Context(), []engine.Ask{need(local, 1)}, grants)
		if grants[0].Status != lease.Denied {
			t.Errorf("%+v of a region without weight", grants[0])
		}
	})
}
