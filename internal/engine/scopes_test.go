package engine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
)

// distant is a store that is a way off, or does not answer.
type distant struct {
	engine.Store
	delay time.Duration
	hangs bool
	asked atomic.Int64 // asks that were to be charged
}

func (d *distant) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range asks {
		if asks[i].Want.Want > 0 {
			d.asked.Add(1)
		}
	}
	late := time.NewTimer(d.delay)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
		d.hangs = true
	}
	if d.hangs {
		<-ctx.Done()
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
		return
	}
	d.Store.Acquire(ctx, asks, grants)
}

// twoScopes are a region's own store, that of all regions, and the store of both.
type twoScopes struct {
	region, global distant
	both           engine.Store
}

func newTwoScopes() *twoScopes {
	s := new(twoScopes)
	s.region.Store = memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20})
	s.global.Store = memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20})
	s.both = engine.ByScope(&s.region, &s.global)
	return s
}

// left is what is left of a limit in the store that counts it.
func (s *twoScopes) left(p *engine.Policy) int64 {
	return s.acquire(engine.Ask{Policy: p, Key: []byte("k")})[0].Remaining
}

func (s *twoScopes) acquire(asks ...engine.Ask) []lease.Grant {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	grants := slices.Repeat([]lease.Grant{{Status: lease.Denied}}, len(asks)) // of a call before
	s.both.Acquire(ctx, asks, grants)
	return grants
}

// scopedPolicy is one of 10 units an hour.
func scopedPolicy(t *testing.T, name string, scope rule.Scope) *engine.Policy {
	t.Helper()
	p := ruling(t, name, lease.FailureAllow)
	p.Scope = scope
	return p
}

// Requests with rules of both scopes, and what is left afterwards of 10 units of each.
func TestByScope(t *testing.T) {
	for name, c := range map[string]struct {
		region, global         int64 // what the request needs
		delay                  time.Duration
		hang                   bool // the aggregator does not answer
		wantRegion, wantGlobal lease.Status
		leftRegion, leftGlobal int64
		asked                  int64 // asks that the region's store was to charge
		took                   time.Duration
	}{
		"both have enough":                          {3, 4, 0, false, lease.OK, lease.OK, 7, 6, 1, 0},
		"the global rule denies":                    {3, 11, 0, false, lease.OK, lease.Denied, 10, 10, 0, 0},
		"the region's rule denies":                  {11, 3, 0, false, lease.Denied, lease.OK, 10, 10, 1, 0},
		"far away":                                  {3, 4, 200 * time.Millisecond, false, lease.OK, lease.OK, 7, 6, 1, 200 * time.Millisecond},
		"farther than half of the time, and denied": {3, 11, 400 * time.Millisecond, false, lease.OK, lease.Denied, 10, 10, 1, 400 * time.Millisecond},
		"no answer":                                 {3, 4, 0, true, lease.OK, lease.Unavailable, 7, 10, 1, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTwoScopes()
				here, everywhere := scopedPolicy(t, "here", rule.ScopeRegion), scopedPolicy(t, "everywhere", rule.ScopeGlobal)
				s.global.delay, s.global.hangs = c.delay, c.hang
				begin := time.Now()
				g := s.acquire(units(here, "k", 1, c.region), units(everywhere, "k", 1, c.global))
				took := time.Since(begin)
				if g[0].Status != c.wantRegion || g[1].Status != c.wantGlobal {
					t.Errorf("here %+v, everywhere %+v", g[0], g[1])
				}
				if denied := g[0].Status == lease.Denied || g[1].Status == lease.Denied; denied && g[0].Granted+g[1].Granted != 0 {
					t.Errorf("a denied request was granted %+v", g)
				}
				if n := s.region.asked.Load(); n != c.asked {
					t.Errorf("the region's store was asked %d times, want %d", n, c.asked)
				}
				if took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				s.global.delay, s.global.hangs = 0, false
				if here, everywhere := s.left(here), s.left(everywhere); here != c.leftRegion || everywhere != c.leftGlobal {
					t.Errorf("%d left here and %d everywhere, want %d and %d", here, everywhere, c.leftRegion, c.leftGlobal)
				}
			})
		})
	}
}

// Each scope's own memory decides while its store does not answer.
func TestFallByScope(t *testing.T) {
	here, everywhere := scopedPolicy(t, "here", rule.ScopeRegion), scopedPolicy(t, "everywhere", rule.ScopeGlobal)
	var falls [2]books
	f := engine.FallByScope(&falls[0], &falls[1])
	for i, p := range []*engine.Policy{here, everywhere, everywhere, here, here, everywhere} {
		a := units(p, "k", 1, 1)
		if j := f.Fall(&a, 1); i < 3 {
			f.Refund(&a, &j)
		}
	}
	if falls != [2]books{{admitted: 2, holders: 1}, {admitted: 1, holders: 1}} {
		t.Errorf("%v", falls)
	}
	a := units(everywhere, "k", 1, 1)
	if j := engine.FallByScope(nil, nil).Fall(&a, 1); !j.Admitted || j.Degraded != engine.FailedAllow {
		t.Errorf("on_failure: allow, without memory: %+v", j)
	}
}
