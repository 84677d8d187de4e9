package envoyrls

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
)

// far is a store that is a millisecond away, and counts how often it was asked.
type far struct {
	engine.Store
	mu   sync.Mutex
	asks int
}

func (f *far) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	f.mu.Lock()
	f.asks += len(asks)
	f.mu.Unlock()
	time.Sleep(time.Millisecond)
	f.Store.Acquire(ctx, asks, grants)
}

func (f *far) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks
}

// cachedBench is a server with a lease cache, as it is deployed by default.
type cachedBench struct {
	*bench
	far *far
}

// cached runs a test in virtual time on a replica with a lease cache.
func cached(t *testing.T, run func(*testing.T, *cachedBench), change ...func(*Config)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		behind := &far{Store: memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30})}
		f := leasecache.New(leasecache.Config{Store: behind, MaxKeys: 10_000, MaxBytes: 1 << 30})
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		t.Cleanup(func() { stop(); running.Wait() })
		cache := func(c *Config) {
			c.Judge, c.Now, c.Consistency = engine.NewJudge(f, f, nil, nil, nil), time.Now, "leased"
		}
		run(t, &cachedBench{newBench(t, dayYAML, append([]func(*Config){cache}, change...)...), behind})
	})
}

const dayYAML = `
domain: d
descriptors:
  - { key: one, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: five, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: dozen, rate_limit: { unit: day, requests_per_unit: 12 } }
  - { key: hundred, rate_limit: { unit: day, requests_per_unit: 100 } }
  - { key: quota, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: try, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 5 } }
`

func charging(c *Config) { c.ChargeRejected = true }

// pauses are between two requests of a trace: whatever goes on behind it, the answers are the same.
var pauses = []time.Duration{0, 5 * time.Millisecond, 150 * time.Millisecond, 3 * time.Second}

// trace plays steps one after the other on a replica with a lease cache, with pauses of each length.
func trace(t *testing.T, list steps, change ...func(*Config)) {
	t.Helper()
	for _, pause := range pauses {
		cached(t, func(t *testing.T, b *cachedBench) {
			for i, step := range list {
				time.Sleep(pause)
				if got := inShort(b.ask(step.request)); got != step.want {
					t.Errorf("pause %v, step %d: %s, want %s", pause, i+1, got, step.want)
				}
			}
		}, change...)
	}
}

// bothWays traces steps with leases and without.
func bothWays(t *testing.T, list steps, change ...func(*Config)) {
	t.Helper()
	for name, mode := range map[string]func(*Config){"leased": leased, "exact": exactly} {
		t.Run(name, func(t *testing.T) { trace(t, list, append(change, mode)...) })
	}
}

// A report of more than is left uses the limit up.
func TestReportUsesTheLimitUp(t *testing.T) {
	var list steps
	for left := range 60 {
		list = append(list, steps{{request(of("hundred", "a")), "OK: OK " + strconvU(uint32(99-left))}}...)
	}
	trace(t, append(list, steps{
		{request(costing(50, of("hundred", "a"))), "OVER: OVER 0"},
		{request(of("hundred", "a")), "OVER: OVER 0"},
		{request(costing(3, of("hundred", "a"))), "OVER: OVER 0"},
	}...), charging)
}
