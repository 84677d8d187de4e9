package enginetest

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/proc"
)

// state is a holder's statement: it uses so many slots and needs so many more.
func state(t testing.TB, s engine.Store, p *engine.Policy, holder, seq uint64, using, need int64) lease.Grant {
	t.Helper()
	return acquireAll(t, s, statement(p, holder, seq, using, need))[0]
}

func statement(p *engine.Policy, holder, seq uint64, using, need int64) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte("k"), Holder: holder, Seq: seq,
		Want: lease.Want{Need: need, Waiting: need, Want: using + need, Holding: using}}
}

// slots are held, renewed, given back, and run out.
func slots(t *testing.T, s Subject) {
	clk, store, p := s.begin(t, slotted(5))
	for i, step := range []struct {
		holder, seq uint64
		using, need int64
		after       limit.Micros
		status      lease.Status
		least, most int64 // granted
		what        string
	}{
		{holder: 1, seq: 1, using: 0, need: 3, status: lease.OK, least: 3, most: 3, what: "three are taken"},
		{holder: 1, seq: 2, using: 3, need: 0, status: lease.OK, least: 3, most: 3, what: "they are renewed"},
		{holder: 2, seq: 1, using: 0, need: 3, status: lease.Denied, least: 0, most: 2, what: "three more do not fit"},
		{holder: 2, seq: 2, using: 0, need: 2, status: lease.OK, least: 2, most: 2, what: "two do"},
		{holder: 3, seq: 1, using: 0, need: 1, status: lease.Denied, what: "all are held"},
		{holder: 1, seq: 3, using: 1, need: 0, status: lease.OK, least: 1, most: 1, what: "two are given back"},
		{holder: 3, seq: 2, using: 0, need: 2, status: lease.OK, least: 2, most: 2, what: "and taken"},
		{holder: 4, seq: 1, using: 0, need: 5, after: 11 * limit.Second, status: lease.OK, least: 5, most: 5, what: "everything ran out"},
		{holder: 4, seq: 2, using: 0, need: 6, status: lease.Denied, most: 5, what: "more than there are"},
	} {
		clk.advance(step.after)
		g := state(t, store, p, step.holder, step.seq, step.using, step.need)
		if g.Status != step.status || g.Granted < step.least || g.Granted > step.most {
			t.Fatalf("step %d (%s): %+v", i, step.what, g)
		}
		if g.Granted > 0 && g.TTL != 10_000 {
			t.Fatalf("step %d: ttl %d ms, want 10000", i, g.TTL)
		}
	}
}

// slotsLateStatement: the word of a holder that was overtaken changes nothing.
func slotsLateStatement(t *testing.T, s Subject) {
	_, store, p := s.begin(t, slotted(5))
	state(t, store, p, 1, 7, 0, 4)
	state(t, store, p, 1, 9, 4, 0)
	if g := state(t, store, p, 1, 8, 0, 0); g.Status != lease.Unavailable {
		t.Errorf("a late statement: %+v, want unavailable", g)
	}
	rejected(t, state(t, store, p, 2, 1, 0, 2), "the late statement gave four slots back")
	state(t, store, p, 1, 10, 0, 0) // all are given back
	if g := state(t, store, p, 1, 9, 4, 0); g.Status != lease.Unavailable {
		t.Errorf("a late statement after everything was given back: %+v, want unavailable", g)
	}
	if g := state(t, store, p, 2, 2, 0, 5); g.Status != lease.OK {
		t.Errorf("the late statement took four slots again: %+v", g)
	}
}

// slotsInAGroup: a slot is not taken when another rule denies the request, and
// units are not when there is no slot.
func slotsInAGroup(t *testing.T, s Subject) {
	clk, store := s.empty(t)
	places, units := named(t, "places", 0, slotted(2)), named(t, "units", 0, fixed(3, limit.Hour), exact)
	seq := uint64(0)
	ask := func(holder uint64, using int64) []lease.Grant {
		seq++
		asks := []engine.Ask{statement(places, holder, seq, using, 1), {Policy: units, Key: []byte("k"), Want: one(1)}}
		asks[0].Group, asks[1].Group = 5, 5
		return acquireAll(t, store, asks...)
	}
	if g := ask(1, 0); g[0].Granted != 1 || g[1].Granted != 1 {
		t.Fatalf("first: %+v", g)
	}
	if g := ask(2, 0); g[0].Granted != 1 || g[1].Granted != 1 {
		t.Fatalf("second: %+v", g)
	}
	if g := ask(3, 0); g[0].Status != lease.Denied || g[1].Status != lease.OK || g[1].Granted != 0 {
		t.Fatalf("no slot: %+v, want a denial and no unit", g)
	}
	seq++
	state(t, store, places, 1, seq, 0, 0)
	if g := ask(3, 0); g[0].Granted != 1 || g[1].Granted != 1 {
		t.Fatalf("the last unit: %+v", g)
	}
	seq++
	state(t, store, places, 2, seq, 0, 0)
	clk.advance(limit.Second)
	seq++
	state(t, store, places, 3, seq, 1, 0)
	if g := ask(4, 0); g[1].Status != lease.Denied || g[0].Granted != 0 {
		t.Fatalf("no unit: %+v, want a denial and no slot", g)
	}
	seq++
	if g := state(t, store, places, 5, seq, 0, 1); g.Status != lease.OK {
		t.Errorf("the slot of the denied request is gone: %+v", g)
	}
}

// slotsHammer has holders take and give back, and requests come and go, at once: the slots in use never pass the limit,
// and all of them are free in the end.
func slotsHammer(t *testing.T, s Subject) {
	clk, store, p := s.begin(t, slotted(20))
	var used peak
	proc.Together(8, func(i int) {
		holder, using := uint64(i+1), int64(0)
		for n := range uint64(300) {
			if i%2 == 1 { // a request, which renews its slots or does not
				id, cost := 1000*holder+n, int64(1+n%3)
				if g := forRequest(t, store, p, engine.Take, id, cost); g.Granted == cost {
					used.add(cost)
					if n%5 == 0 {
						forRequest(t, store, p, engine.Renew, id, 0)
					}
					used.add(-cost)
					forRequest(t, store, p, engine.Release, id, 0)
				}
				continue
			}
			need := int64(n % 4)
			if g := state(t, store, p, holder, n+1, using, need); g.Status == lease.OK {
				using += need
				used.add(need)
			}
			if n%3 == 2 {
				used.add(-using)
				using = 0
			}
		}
		if i%2 == 0 {
			used.add(-using)
			state(t, store, p, holder, 301, 0, 0)
		}
	})
	if most := used.most.Load(); most > 20 || most == 0 {
		t.Errorf("up to %d slots were in use, want 1 to 20", most)
	}
	clk.advance(limit.Second)
	if g := forRequest(t, store, p, engine.Take, 1, 20); g.Granted != 20 {
		t.Errorf("when all are released: %+v", g)
	}
}

// peak counts slots in use, and remembers the most. It is safe for concurrent use.
type peak struct{ now, most atomic.Int64 }

func (p *peak) add(n int64) {
	now := p.now.Add(n)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
}
