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

// cached is a replica with a lease cache, as it is deployed by default, in the virtual time of a test.
func cached(t *testing.T, change func(*Config)) *bench {
	ctx, stop := context.WithCancel(context.Background())
	store := far{memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30})}
	f := leasecache.New(leasecache.Config{Store: store, MaxKeys: 10_000, MaxBytes: 1 << 30})
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return newBench(t, dayYAML, change, func(c *Config) { c.Judge, c.Now = engine.NewJudge(f, f, nil, nil, nil), time.Now })
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

// bothWays plays steps one after the other on a replica with a lease cache, with leases and without, and with pauses of
// several lengths: whatever goes on behind the requests, the answers are the same.
func bothWays(t *testing.T, list steps, chargeRejected bool) {
	t.Helper()
	for _, consistency := range []string{"leased", "exact"} {
		for _, pause := range []time.Duration{0, 5 * time.Millisecond, 150 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(consistency, " ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := cached(t, func(c *Config) { c.Consistency, c.ChargeRejected = consistency, chargeRejected })
					for i, step := range list {
						time.Sleep(pause)
						if got := inShort(b.ask(step.request)); got != step.want {
							t.Errorf("step %d: %s, want %s", i+1, got, step.want)
						}
					}
				})
			})
		}
	}
}
