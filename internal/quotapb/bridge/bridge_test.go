package bridge

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"pgregory.net/rapid"
)

func limitOf(t interface{ Fatal(...any) }, s limit.Spec) *limit.Limit {
	l, err := limit.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func minute(t interface{ Fatal(...any) }) *limit.Limit {
	return limitOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute})
}

// amount draws numbers of units, with those near the bound.
func amount(t *rapid.T, name string, least int64) int64 {
	return max(least, rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(wire.MaxUnits-1000, wire.MaxUnits)).Draw(t, name))
}

func draw[T any](t *rapid.T, name string, g *rapid.Generator[T]) T { return g.Draw(t, name) }

// travelled is a want and a grant after they were encoded and decoded.
func travelled(t *rapid.T, m wire.Want, g wire.Grant) (wire.Want, wire.Grant) {
	var q wire.Request
	var a wire.Response
	if err := q.Decode((&wire.Request{Wants: []wire.Want{m}}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	if err := a.Decode((&wire.Response{Grants: []wire.Grant{g}}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	return q.Wants[0], a.Grants[0]
}

// What a holder writes a granter reads unchanged, and the other way round.
func TestRoundTrip(t *testing.T) {
	l := minute(t)
	rapid.Check(t, func(t *rapid.T) {
		need := amount(t, "need", 0)
		waiting := amount(t, "waiting", need)
		want := lease.Want{
			Need: need, Waiting: waiting, Want: amount(t, "want", waiting),
			Unused: amount(t, "unused", 0), Lease: draw(t, "lease", rapid.Uint32()),
			Overdrawn: amount(t, "overdrawn", 0), Debt: draw(t, "debt", rapid.Uint64()), Denied: amount(t, "denied", 0),
			Fresh: draw(t, "fresh", rapid.Bool()), Next: draw(t, "next", rapid.Bool()),
			Left: amount(t, "left", 0), Reset: lease.Millis(draw(t, "reset", rapid.Int64Range(0, int64(LongestDuration)))),
		}
		want.Soon = min(amount(t, "soon", 0), want.Want-want.Waiting)
		duration := rapid.Map(rapid.Int64Range(0, int64(LongestDuration)), func(ms int64) lease.Millis { return lease.Millis(ms) })
		grant := lease.Grant{
			Status: lease.Status(draw(t, "status", rapid.IntRange(int(lease.OK), int(lease.UnknownRule)))), Granted: amount(t, "granted", 0),
			Lease: draw(t, "charged", rapid.Uint32()), StartsIn: draw(t, "starts in", duration), TTL: draw(t, "ttl", duration),
			RetryAfter: draw(t, "retry", duration), AskAfter: min(draw(t, "ask", duration), longestAskAfter),
			Limit: amount(t, "limit", 0), Remaining: amount(t, "remaining", 0), Reset: draw(t, "full", duration), StillOwed: draw(t, "owed", rapid.Bool()),
		}
		m, g := travelled(t, WantToWire(l, &want), GrantToWire(l, &grant))
		if field := OutOfRange(&m); field != "" {
			t.Fatalf("%s of %+v is out of range", field, m)
		}
		if got, holding := WantFromWire(l, &m); got != want || holding != 0 {
			t.Fatalf("wrote %+v, read %+v, %d slots", want, got, holding)
		}
		if got := GrantFromWire(&g, LongestDuration); got != grant {
			t.Fatalf("wrote %+v, read %+v", grant, got)
		}
	})
}

// Of a want of more than the wire carries each number is cut to its bound, and Soon to what is left: a PoP that reports four billion denied
// requests must not make its region's wants invalid.
func TestLargeWantIsInRange(t *testing.T) {
	m := WantToWire(minute(t), &lease.Want{Need: 1, Waiting: 7, Want: 1 << 40, Soon: 1<<40 - 7})
	if field := OutOfRange(&m); field != "" {
		t.Errorf("%s is out of range: %+v", field, m)
	}
}

func TestHoldingRoundTrip(t *testing.T) {
	slots := limitOf(t, limit.Spec{Algorithm: limit.Concurrency, Count: 100})
	rapid.Check(t, func(t *rapid.T) {
		need := amount(t, "need", 0)
		waiting, held := amount(t, "waiting", need), amount(t, "holding", 0)
		hw := lease.SlotWant{Holding: held, Need: need, Want: amount(t, "want", max(held, waiting))}
		worker := draw(t, "worker", rapid.Uint64())
		m, _ := travelled(t, HoldingToWire(worker, &hw, waiting), wire.Grant{})
		want, holding := WantFromWire(slots, &m)
		if holding != held || want.Need != need || want.Waiting != waiting || want.Want != hw.Want || m.Lease != worker || OutOfRange(&m) != "" {
			t.Fatalf("wrote %+v, read %+v, %d slots of %d", hw, want, holding, m.Lease)
		}
	})
}

// Units and memories of a counter of another shape are nothing to the one that there is.
func TestLeaseOfAnotherShape(t *testing.T) {
	l, hours := minute(t), limitOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour})
	m := WantToWire(hours, &lease.Want{Want: 3, Unused: 5, Lease: 7, Overdrawn: 2, Left: 50, Reset: 1000})
	if w, _ := WantFromWire(l, &m); w.Unused != 0 || w.Reset != 0 || w.Want != 3 || w.Overdrawn != 2 {
		t.Errorf("%+v", w)
	}
}

// A lease on the next window begins within a period, whatever a reply states.
func TestLeaseOfAFarFuture(t *testing.T) {
	for stated, want := range map[uint64]lease.Millis{0: 0, 59_999: 59_999, 60_001: 60_000, 1 << 40: 60_000, 1 << 63: 60_000} {
		if g := GrantFromWire(&wire.Grant{Status: wire.StatusOK, StartsInMs: stated}, 60_000); g.StartsIn != want {
			t.Errorf("stated %d ms: begins in %d, want %d", stated, g.StartsIn, want)
		}
	}
}

// What never comes has a value of its own, which a holder takes for the longest time.
func TestNever(t *testing.T) {
	m := GrantToWire(minute(t), &lease.Grant{Status: lease.Denied, RetryAfter: lease.Never, Reset: lease.Never})
	if m.RetryAfterMs != wire.NeverMs || m.ResetMs != wire.NeverMs {
		t.Errorf("%+v", m)
	}
	if g := GrantFromWire(&m, 0); g.RetryAfter != LongestDuration || g.Reset != LongestDuration {
		t.Errorf("%+v", g)
	}
}

// FuzzFromWire: of whatever arrives, nothing that is read is negative or beyond its bound.
func FuzzFromWire(f *testing.F) {
	l := minute(f)
	f.Add((&wire.Request{Wants: []wire.Want{{Rule: "r", Key: []byte("k"), Need: 1, Waiting: 2, Want: 3, Lease: uint64(l.Fingerprint()) << 32, Left: 1 << 63, ResetMs: 1<<64 - 1}}}).Append(nil))
	f.Add((&wire.Request{Wants: []wire.Want{{Rule: strings.Repeat("r", 65)}, {Need: 1}, {Waiting: 1}, {Want: 1 << 32}}}).Append(nil))
	f.Add((&wire.Response{Grants: []wire.Grant{{Status: 9, Granted: 1 << 63, StartsInMs: 1 << 40, TTLMs: 1<<64 - 1, AskAfterMs: 1 << 20}}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q wire.Request
		if q.Decode(b) == nil {
			for i := range q.Wants {
				if OutOfRange(&q.Wants[i]) != "" {
					continue
				}
				w, holding := WantFromWire(l, &q.Wants[i])
				if w.Need < 0 || w.Need > w.Waiting || w.Waiting > w.Want || max(w.Want, w.Unused, w.Overdrawn, w.Denied, holding) > wire.MaxUnits ||
					min(w.Unused, w.Overdrawn, w.Denied, holding, w.Left, int64(w.Reset)) < 0 || w.Left > limit.MaxCount || w.Reset > lease.Never {
					t.Fatalf("%+v was read as %+v, %d slots", q.Wants[i], w, holding)
				}
			}
		}
		var a wire.Response
		if a.Decode(b) == nil {
			for i := range a.Grants {
				const period = 60_000
				g := GrantFromWire(&a.Grants[i], period)
				if g.Status < lease.OK || g.Status > lease.UnknownRule || min(g.Granted, g.Limit, g.Remaining) < 0 || max(g.Granted, g.Limit, g.Remaining) > wire.MaxUnits ||
					min(g.StartsIn, g.TTL, g.RetryAfter, g.AskAfter, g.Reset) < 0 || max(g.TTL, g.RetryAfter, g.Reset) > LongestDuration ||
					g.StartsIn > period || g.AskAfter > longestAskAfter {
					t.Fatalf("%+v was read as %+v", a.Grants[i], g)
				}
			}
		}
	})
}
