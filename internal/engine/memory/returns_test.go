package memory

import (
	"context"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// One caller that gives back under more and more names loses its own units, and nobody else's.
func TestNamesOfOneCaller(t *testing.T) {
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: limit.MaxCount, Period: 300 * limit.Day})
	if err != nil {
		t.Fatal(err)
	}
	p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	now := limit.Micros(1_700_000_000 * limit.Second)
	s := New(Config{MaxKeys: 100, MaxBytes: 1 << 20, Now: func() limit.Micros { return now }})
	ask := func(a engine.Ask) lease.Grant {
		a.Policy, a.Key = p, []byte("k")
		grants := make([]lease.Grant, 1)
		s.Acquire(context.Background(), []engine.Ask{a}, grants)
		return grants[0]
	}
	const units = mostReturns + 100
	g := ask(engine.Ask{Want: lease.Want{Need: units, Waiting: units, Want: units}})
	name := uint64(0)
	giveBack := func(by uint64, n int) int64 {
		a := engine.Ask{ReturnedBy: by, Want: lease.Want{Lease: g.Lease, Unused: int64(n)}}
		for range n {
			name++
			a.Returned = append(a.Returned, lease.Returned{Name: name, Units: 1})
		}
		return ask(a).Remaining
	}
	before := giveBack(1, 32)
	for range mostReturns / 32 {
		giveBack(1, 32)
	}
	after := giveBack(1, 32)
	if got := after - before; got < mostOfOne-64 || got > mostOfOne {
		t.Errorf("one caller gave back %d units under as many names, want up to %d", got, mostOfOne)
	}
	if got := giveBack(2, 10) - after; got != 10 {
		t.Errorf("%d units of another caller came back of 10", got)
	}
}
