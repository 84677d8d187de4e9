package aggregator_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// BenchmarkAcquire asks for a unit of a key in the name of a region: of a limit of which regions have no shares, of one of
// which they have, and while a share is withheld.
func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct {
		name        string
		shares, cut bool
	}{{"plain", false, false}, {"shares", true, false}, {"withheld", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			w := newReserves(b, limit.Spec{Algorithm: limit.FixedWindow, Count: limit.MaxCount, Period: limit.Minute}, 1)
			w.pass(90 * limit.Second)
			if w.regions["eu"].cut = c.cut; c.cut {
				w.pass(2 * limit.Minute)
			}
			if !c.shares {
				w.policy.Regions = nil
			}
			asks := make([]engine.Ask, 1)
			grants := make([]lease.Grant, 1)
			key := []byte("k")
			b.ReportAllocs()
			for b.Loop() {
				asks[0] = engine.Ask{Policy: w.policy, Key: key, Region: "us", Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
				w.stores[0].Acquire(b.Context(), asks, grants)
			}
		})
	}
}
