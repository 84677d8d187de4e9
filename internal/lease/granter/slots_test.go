package granter

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// A clock that steps back does not make a holder's newest statement forgotten; one that
// was wrong by more than a ttl does not make it last for longer than that.
func TestStatementsOutliveAClockStep(t *testing.T) {
	l, err := limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 5})
	if err != nil {
		t.Fatal(err)
	}
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	const start = 30_000_000 * limit.Minute
	var s Slots
	for i, step := range []struct {
		at          limit.Micros
		holder, seq uint64
		want        lease.Status
	}{
		{0, 1, 9, lease.OK},
		{-limit.Second, 2, 1, lease.OK},
		{-limit.Second, 1, 8, lease.Unavailable},
		{-limit.Day, 2, 2, lease.OK},
		{-limit.Day + 9*limit.Second, 1, 8, lease.Unavailable},
		{-limit.Day + 10*limit.Second, 1, 8, lease.OK},
	} {
		w := lease.Want{Need: 1, Waiting: 1, Want: 1}
		if g := s.Acquire(l, &terms, start+step.at, step.holder, step.seq, w); g.Status != step.want {
			t.Fatalf("step %d: %+v, want status %d", i, g, step.want)
		}
	}
	if s.Fresh(l, start-limit.Day+10*limit.Second) || !s.Fresh(l, start-limit.Day+20*limit.Second) {
		t.Error("fresh while a statement counts, or not afterwards")
	}
}
