package envoyrls

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
)

// far is a store that is a millisecond away.
type far struct{ engine.Store }

func (f far) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	time.Sleep(time.Millisecond)
	f.Store.Acquire(ctx, asks, grants)
}

// cached runs a test in virtual time on a replica with a lease cache, as it is deployed by default.
func cached(t *testing.T, run func(*testing.T, *bench), change ...func(*Config)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		f := leasecache.New(leasecache.Config{Store: far{memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30})}, MaxKeys: 10_000, MaxBytes: 1 << 30})
		var running sync.WaitGroup
		running.Go(func() { _ = f.Run(ctx) })
		t.Cleanup(func() { stop(); running.Wait() })
		cache := func(c *Config) {
			c.Judge, c.Now, c.Consistency = engine.NewJudge(f, f, nil, nil, nil), time.Now, "leased"
		}
		run(t, newBench(t, dayYAML, append([]func(*Config){cache}, change...)...))
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

// bothWays plays steps one after the other on a replica with a lease cache, with leases and without, and with pauses of each length.
func bothWays(t *testing.T, list steps, change ...func(*Config)) {
	t.Helper()
	for name, mode := range map[string]func(*Config){"leased": leased, "exact": exactly} {
		for _, pause := range pauses {
			t.Run(fmt.Sprint(name, " ", pause), func(t *testing.T) {
				cached(t, func(t *testing.T, b *bench) {
					for i, step := range list {
						time.Sleep(pause)
						if got := inShort(b.ask(step.request)); got != step.want {
							t.Errorf("step %d: %s, want %s", i+1, got, step.want)
						}
					}
				}, append(change, mode)...)
			})
		}
	}
}
