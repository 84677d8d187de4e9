package wire_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// amount draws numbers of units, the bound itself often.
func amount(t *rapid.T, name string, least int64) int64 {
	return max(least, rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(wire.MaxUnits-1000, wire.MaxUnits), rapid.Just[int64](wire.MaxUnits)).Draw(t, name))
}

func draw[T any](t *rapid.T, name string, g *rapid.Generator[T]) T { return g.Draw(t, name) }

// travelled is a want and a grant after they were encoded and decoded.
func travelled(t *rapid.T, m wire.Want, g wire.Grant) (wire.Want, wire.Grant) {
	var q wire.Request
	var a wire.Response
	fatal.If(t, q.Decode((&wire.Request{Wants: []wire.Want{m}}).Append(nil)))
	fatal.If(t, a.Decode((&wire.Response{Grants: []wire.Grant{g}}).Append(nil)))
	return q.Wants[0], a.Grants[0]
}

// What a holder writes a granter reads unchanged, and the other way round.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need := amount(t, "need", 0)
		waiting := amount(t, "waiting", need)
		want := lease.Want{
			Need: need, Waiting: waiting, Want: amount(t, "want", waiting),
			Unused: amount(t, "unused", 0), Lease: draw(t, "lease", rapid.Uint32()),
			Overdrawn: amount(t, "overdrawn", 0), Debt: draw(t, "debt", rapid.Uint64()), Denied: amount(t, "denied", 0),
			Fresh: draw(t, "fresh", rapid.Bool()), Next: draw(t, "next", rapid.Bool()),
		}
		want.Settled = amount(t, "settled", 0)
		want.Soon = min(amount(t, "soon", 0), want.Want-want.Waiting)
		duration := rapid.Map(rapid.Int64Range(0, int64(wire.LongestDuration)), func(ms int64) lease.Millis { return lease.Millis(ms) })
		grant := lease.Grant{
			Status: lease.Status(draw(t, "status", rapid.IntRange(int(lease.OK), int(lease.UnknownRule)))), Granted: amount(t, "granted", 0),
			Lease: draw(t, "charged", rapid.Uint32()), StartsIn: draw(t, "starts in", duration), TTL: draw(t, "ttl", duration),
			RetryAfter: draw(t, "retry", duration), AskAfter: min(draw(t, "ask", duration), 1000),
			Limit: amount(t, "limit", 0), Remaining: amount(t, "remaining", 0), Reset: draw(t, "full", duration), StillOwed: draw(t, "owed", rapid.Bool()),
			Block: limit.Block(draw(t, "block", rapid.Uint8Max(uint8(limit.BlockBegan)))),
		}
		sent := wire.Want{Shape: draw(t, "shape", rapid.Uint32()), Want: want}
		sent.Bound()
		m, g := travelled(t, sent, wire.Grant{Grant: grant})
		if field := m.Check(); field != "" {
			t.Fatalf("%s of %+v is out of range", field, m)
		}
		if m.Want != want || m.Shape != sent.Shape {
			t.Fatalf("wrote %+v, read %+v", want, m)
		}
		if got := g.Bounded(wire.LongestDuration); got != grant {
			t.Fatalf("wrote %+v, read %+v", grant, got)
		}
	})
}

// Units of a counter of another shape are nothing to the one that there is.
func TestWantForAnotherShape(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute}))(t)
	w := wire.Want{Shape: l.Fingerprint(), Want: lease.Want{Want: 3, Unused: 5, Lease: 7, Overdrawn: 2}}
	if got := w.For(l); got != w.Want {
		t.Errorf("%+v", got)
	}
	w.Shape++
	if got := w.For(l); got.Unused != 0 || got.Want != 3 || got.Overdrawn != 2 {
		t.Errorf("%+v", got)
	}
}

// FuzzBounds: of whatever arrives, nothing that is read is negative or beyond its bound.
func FuzzBounds(f *testing.F) {
	f.Add((&wire.Request{Wants: []wire.Want{{Rule: "r", Key: []byte("k"), Shape: 7, Want: lease.Want{Need: 1, Waiting: 2, Want: 3, Unused: -1 << 63}}}}).Append(nil))
	f.Add((&wire.Request{Wants: []wire.Want{{Rule: strings.Repeat("r", 65)}, {Want: lease.Want{Need: 1}}, {Want: lease.Want{Waiting: 1}}, {Want: lease.Want{Want: 1 << 32}}}}).Append(nil))
	f.Add((&wire.Response{Grants: []wire.Grant{{Grant: lease.Grant{Status: 9, Granted: -1 << 63, StartsIn: 1 << 40, TTL: -1, AskAfter: 1 << 20}}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q wire.Request
		if q.Decode(b) == nil {
			for _, w := range q.Wants {
				sent := w
				if w.Check() != "" {
					continue
				}
				if w.Need < 0 || w.Need > w.Waiting || w.Waiting+w.Soon > w.Want.Want || max(w.Want.Want, w.Unused, w.Overdrawn, w.Denied, w.Holding, w.Settled) > wire.MaxUnits ||
					min(w.Soon, w.Unused, w.Overdrawn, w.Denied, w.Holding, w.Settled) < 0 {
					t.Fatalf("%+v was read as %+v", sent, w)
				}
			}
		}
		var a wire.Response
		if a.Decode(b) == nil {
			for i := range a.Grants {
				const period = 60_000
				g := a.Grants[i].Bounded(period)
				if g.Status < lease.OK || g.Status > lease.UnknownRule || min(g.Granted, g.Limit, g.Remaining) < 0 || max(g.Granted, g.Limit, g.Remaining) > wire.MaxUnits ||
					min(g.StartsIn, g.TTL, g.RetryAfter, g.AskAfter, g.Reset) < 0 || max(g.TTL, g.RetryAfter, g.Reset) > wire.LongestDuration ||
					g.StartsIn > period || g.AskAfter > 1000 {
					t.Fatalf("%+v was read as %+v", a.Grants[i], g)
				}
			}
		}
	})
}
