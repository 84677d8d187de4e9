package sim

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestManyPoPs runs a thousand PoPs on one region: a key that all of them share, and one
// of each alone.
func TestManyPoPs(t *testing.T) {
	for _, relays := range []int{0, 2} {
		bubble(t, func(t *testing.T) {
			shared := newRule(t, "shared", limit.Spec{Algorithm: limit.FixedWindow, Count: 2000, Period: limit.Minute}, lease.Leased)
			own := newRule(t, "own", limit.Spec{Algorithm: limit.TokenBucket, Count: 5, Period: limit.Second}, lease.Leased)
			w := New(Config{Seed: 1, PoPs: 1000, Relays: relays, Net: Net{Delay: 5 * limit.Millisecond, Spread: 10 * limit.Millisecond}}, shared, own)
			defer w.Close()
			const lasts = 5 * limit.Second
			for n := range w.PoPs {
				w.Offer(n+1, Load{Rate: 1, Parts: Key(shared, "k", 1)}, lasts)
				w.Offer(n+1, Load{Rate: 1, Parts: Key(own, fmt.Sprint(n), 1)}, lasts)
			}
			fatal.If(t, w.Run(lasts+limit.Second))
			if n := w.Totals(shared, "k"); n.Worst < 1960 || n.Worst > 2000 {
				t.Errorf("relays %d: %d of 2000 admitted in a window, %d were asked for", relays, n.Worst, n.Offered)
			}
			var admitted, exact int64
			for n := range w.PoPs {
				n := w.Totals(own, fmt.Sprint(n))
				admitted, exact = admitted+n.Admitted, exact+n.Exact
				if n.Admitted < n.Exact/2 {
					t.Errorf("relays %d: %d of %d admitted of a PoP's own key", relays, n.Admitted, n.Exact)
				}
			}
			if admitted < exact*98/100 {
				t.Errorf("relays %d: %d of %d admitted of the PoPs' own keys", relays, admitted, exact)
			}
		})
	}
}
