package granter

import (
	"testing"
	"unsafe"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A clock that steps back does not make a holder's newest statement forgotten; one that
// was wrong by more than a ttl does not make it last for longer than that.
func TestStatementsOutliveAClockStep(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 5}))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
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
		if g := s.Acquire(l, &terms, window+step.at, step.holder, step.seq, w); g.Status != step.want {
			t.Fatalf("step %d: %+v, want status %d", i, g, step.want)
		}
	}
	if s.Fresh(l, window-limit.Day+10*limit.Second) || !s.Fresh(l, window-limit.Day+20*limit.Second) {
		t.Error("fresh while a statement counts, or not afterwards")
	}
}

// Holders state what they use, requests take, renew and release: all of them count against one limit.
func TestSlots(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 5}))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	var s Slots
	now := limit.Micros(window)
	want := func(holding, need int64) lease.Want {
		return lease.Want{Holding: holding, Need: need, Waiting: need, Want: holding + need}
	}
	fit := func(holder, seq uint64, holding, need int64, fits bool) lease.Grant {
		g, got := s.Fit(l, &terms, now, holder, seq, want(holding, need))
		if got != fits {
			t.Errorf("%d more of %d: fits %v; %+v", need, holding, got, s)
		}
		return g
	}
	hold := func(holder, seq uint64, holding, need int64) lease.Grant {
		return s.Acquire(l, &terms, now, holder, seq, want(holding, need))
	}
	for i, c := range []struct {
		after           limit.Micros
		do              func() lease.Grant
		status          lease.Status
		granted, remain int64
	}{
		{0, func() lease.Grant { return s.Take(l, &terms, now, 1, 3) }, lease.OK, 3, 2},
		{0, func() lease.Grant { return s.Take(l, &terms, now, 2, 3) }, lease.Denied, 0, 2},
		{0, func() lease.Grant { return fit(7, 1, 0, 2, true) }, lease.OK, 0, 2},
		{0, func() lease.Grant { return fit(7, 2, 0, 3, false) }, lease.Denied, 2, 0},
		{0, func() lease.Grant { return hold(7, 2, 0, 2) }, lease.OK, 2, 0},
		{0, func() lease.Grant { return s.Release(l, &terms, now, 1) }, lease.OK, 0, 3},
		{0, func() lease.Grant { return s.Renew(l, &terms, now, 1) }, lease.Denied, 0, 3},
		{9 * limit.Second, func() lease.Grant { return fit(7, 3, 2, 3, true) }, lease.OK, 2, 3},
		{0, func() lease.Grant { return fit(7, 3, 2, 4, false) }, lease.Denied, 5, 0},
		{0, func() lease.Grant { return hold(7, 2, 0, 0) }, lease.Unavailable, 0, 0},
		{9 * limit.Second, func() lease.Grant { return hold(7, 4, 1, 0) }, lease.OK, 1, 4},
		{limit.Second, func() lease.Grant { return s.Take(l, &terms, now, 3, 4) }, lease.OK, 4, 0},
		{10 * limit.Second, func() lease.Grant { return s.Take(l, &terms, now, 4, 5) }, lease.OK, 5, 0},
	} {
		now += c.after
		if g := c.do(); g.Status != c.status || g.Granted != c.granted || g.Remaining != c.remain {
			t.Fatalf("step %d: %+v, want status %d, %d granted and %d left", i, g, c.status, c.granted, c.remain)
		}
	}
	size := cap(s.Held.Held)*int(unsafe.Sizeof(s.Held.Held[0])) + cap(s.Stated)*int(unsafe.Sizeof(Statement{}))
	if cap(s.Stated) == 0 || s.Bytes() != size {
		t.Errorf("%d bytes for %d holdings and %d statements", s.Bytes(), cap(s.Held.Held), cap(s.Stated))
	}
	if s.Remembers(7) || s.Fresh(l, now+10*limit.Second-1) || !s.Fresh(l, now+10*limit.Second) {
		t.Errorf("%+v", s)
	}
}
