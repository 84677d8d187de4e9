package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// TestLooseUnits: what comes out of the table long after its lease ended may still go back,
// with a call that waits behind others; what no call gives back is forgotten.
func TestLooseUnits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRule(t, "r", limit.Spec{Algorithm: limit.TokenBucket, Count: 60, Period: limit.Minute}, lease.Leased)
		w := New(Config{Seed: 1, PoPs: 1}, r)
		defer w.Close()
		if err := w.Run(30 * limit.Second); err != nil {
			t.Fatal(err)
		}
		p := w.pops[0]
		b := p.book(r.counter("k"))
		b.held = []holding{{lease: 1, expiry: p.Now() - 20_000, units: 7}}
		p.audit() // they came out of the table
		if err := w.Run(limit.Second); err != nil {
			t.Fatal(err)
		}
		b = p.book(b.key)
		b.backs = []lot{{leaseID{b.key, 1}, 2}}
		if p.audit(); w.ref.err != nil {
			t.Fatal(w.ref.err)
		}
		if err := w.Run(10 * limit.Second); err != nil {
			t.Fatal(err)
		}
		p.book(b.key)
		if p.audit(); len(b.held) != 0 {
			t.Errorf("10 s later the book still has %+v", b.held)
		}
	})
}
