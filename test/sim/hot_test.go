package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestHotKey: the leases of a key that is asked for all the time become as large as its use,
// at the PoP and at the replica between it and the counter: few requests make a call.
func TestHotKey(t *testing.T) {
	for _, count := range []int64{5000, 1_000_000} {
		bubble(t, func(t *testing.T) {
			r := newRule(t, "r", limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Day}, lease.Leased)
			w := New(Config{Seed: 1, PoPs: 1, Relays: 1, Net: Net{Delay: limit.Millisecond}}, r)
			defer w.Close()
			w.Offer(1, Load{Rate: 500, Parts: Key(r, "k", 1)}, 4*limit.Second)
			fatal.If(t, w.Run(5*limit.Second))
			n := w.Totals(r, "k")
			t.Logf("%d a day: %d of %d requests, %d calls of the PoP, %d of the replica", count, n.Admitted, n.Offered, w.Calls.PoPs, w.Calls.Caches)
			if n.Admitted < n.Offered {
				t.Errorf("%d of %d admitted", n.Admitted, n.Offered)
			}
			if calls := w.Calls.PoPs; calls > n.Offered/10 {
				t.Errorf("%d a day: %d requests made %d calls", count, n.Offered, calls)
			}
		})
	}
}
