package enginetest

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// forRequest does something to the slots of a request.
func forRequest(t testing.TB, s engine.Store, p *engine.Policy, op engine.Op, id uint64, cost int64) lease.Grant {
	t.Helper()
	a := engine.Ask{Policy: p, Key: []byte("k"), Op: op, Holder: id}
	if op == engine.Take {
		a.Want = one(cost)
	}
	return acquireAll(t, s, a)[0]
}

// requestSlots are taken, renewed and released by requests, each by its id, and run
// out.
func requestSlots(t *testing.T, s Subject) {
	const never = lease.Never
	clk, store, p := s.begin(t, slotted(5))
	for i, step := range []struct {
		after     limit.Micros
		op        engine.Op
		id        uint64
		cost      int64
		status    lease.Status
		granted   int64
		remaining int64
		never     bool
		what      string
	}{
		{0, engine.Take, 1, 3, lease.OK, 3, 2, false, "three are taken"},
		{0, engine.Take, 1, 3, lease.OK, 3, 2, false, "the same take again takes no more"},
		{0, engine.Take, 2, 2, lease.OK, 2, 0, false, "another request takes the rest"},
		{0, engine.Take, 3, 1, lease.Denied, 0, 0, false, "all are held"},
		{limit.Second, engine.Take, 1, 2, lease.OK, 2, 1, false, "a request may hold fewer"},
		{limit.Second, engine.Take, 3, 2, lease.Denied, 0, 1, false, "all or none"},
		{limit.Second, engine.Take, 3, 1, lease.OK, 1, 0, false, "one is free"},
		{0, engine.Release, 2, 0, lease.OK, 0, 2, false, "two come back"},
		{0, engine.Release, 9, 0, lease.OK, 0, 2, false, "nothing comes back of an unknown request"},
		{0, engine.Renew, 2, 0, lease.Denied, 0, 2, false, "what was released is not renewed"},
		{limit.Second, engine.Take, 4, 6, lease.Denied, 0, 2, true, "more than there are"},
		{5 * limit.Second, engine.Renew, 1, 0, lease.OK, 2, 2, false, "two are renewed"},
		{6 * limit.Second, engine.Renew, 3, 0, lease.Denied, 0, 3, false, "what was not renewed ran out"},
		{0, engine.Renew, 1, 0, lease.OK, 2, 3, false, "what was renewed did not"},
		{11 * limit.Second, engine.Release, 1, 0, lease.OK, 0, 5, false, "what ran out is free, released or not"},
	} {
		clk.advance(step.after)
		g := forRequest(t, store, p, step.op, step.id, step.cost)
		if g.Status != step.status || g.Granted != step.granted || g.Remaining != step.remaining || g.Limit != 5 {
			t.Fatalf("step %d (%s): %+v", i, step.what, g)
		}
		if held := g.Granted > 0; held != (g.TTL == 10_000) {
			t.Fatalf("step %d (%s): ttl %d ms", i, step.what, g.TTL)
		}
		if denied := g.Status == lease.Denied; denied != (g.RetryAfter > 0) || (g.RetryAfter >= never) != step.never {
			t.Fatalf("step %d (%s): retry after %d ms", i, step.what, g.RetryAfter)
		}
	}
}

// forgetting: a store that lost what it had begins anew. That admits one more limit, and no more.
func forgetting(t *testing.T, s Subject) {
	everyAlgorithm(t, 10, limit.Minute, func(t *testing.T, spec limit.Spec) {
		clk, store, p := s.begin(t, spec, exact)
		var admitted int64
		for range 3 {
			admitted += drain(t, store, p, "k")
			clk.advance(limit.Second)
		}
		s.Lose(t, store)
		clk.advance(2 * limit.Second) // denials in memory are over
		for range 3 {
			admitted += drain(t, store, p, "k")
			clk.advance(limit.Second)
		}
		refilled := int64(0)
		if spec.Algorithm == limit.TokenBucket {
			refilled = 1 // in eight seconds of sixty, and a rest
		}
		if admitted < 20 || admitted > 20+refilled {
			t.Errorf("%d were admitted of 10 a minute before and after everything was lost, want 20", admitted)
		}
	})
	t.Run("slots", func(t *testing.T) {
		_, store, p := s.begin(t, slotted(3))
		state(t, store, p, 1, 1, 0, 3)
		s.Lose(t, store)
		if g := state(t, store, p, 2, 1, 0, 3); g.Granted != 3 {
			t.Errorf("after everything was lost: %+v, want all three", g)
		}
	})
}
