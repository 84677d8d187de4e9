package lease_test

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// When a denied holder may ask again, and when the client of a rejected request may come back.
func TestAskAfter(t *testing.T) {
	const ms = limit.Millisecond
	one := lease.Want{Need: 1, Waiting: 1, Want: 1}
	bucket := limit.Spec{Count: 1000, Period: limit.Second, Burst: 10}
	for _, c := range []struct {
		name       string
		spec       limit.Spec
		w          lease.Want
		d          limit.Decision
		out        bool
		ask, retry lease.Millis
	}{
		{"granted", minute, one, limit.Decision{Granted: 1, RetryAfter: 5 * ms, TTL: limit.Second}, false, 0, 5},
		{"a question", minute, lease.Want{}, limit.Decision{RetryAfter: 5 * ms}, false, 0, 0},
		{"0.8 s at most", minute, one, limit.Decision{RetryAfter: 10 * limit.Second, Reset: 10 * limit.Second}, false, 800, 10_000},
		{"an interval while others have some", minute, one, limit.Decision{RetryAfter: 10 * limit.Second, Reset: 10 * limit.Second}, true, 100, 10_000},
		{"when it fits, rounded up", minute, one, limit.Decision{RetryAfter: 5*ms + 1}, false, 6, 6},
		{"too little to share out", minute, lease.Want{Want: 9}, limit.Decision{}, false, 100, 0},
		{"in time for the next window", minute, one, limit.Decision{RetryAfter: 700 * ms, Reset: 700 * ms}, false, 500, 700},
		{"the next window is to be asked for", minute, one, limit.Decision{RetryAfter: 200 * ms, Reset: 200 * ms}, false, 200, 200},
		{"not before a small bucket is half full", bucket, one, limit.Decision{RetryAfter: ms}, false, 5, 1},
		{"never", minute, one, limit.Decision{RetryAfter: limit.Never}, false, 800, lease.Never},
	} {
		l := fatal.Get(limit.New(c.spec))(t)
		terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
		g := terms.Grant(l, &c.w, &c.d, c.out)
		if g.AskAfter != c.ask || g.RetryAfter != c.retry || (g.Status == lease.Denied) != (c.ask > 0) || g.TTL != lease.Millis(c.d.TTL/ms) {
			t.Errorf("%s: %+v, want to ask after %d and come back after %d ms", c.name, g, c.ask, c.retry)
		}
	}
}

func TestSlotGrant(t *testing.T) {
	l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: 5}))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	for _, c := range []struct {
		need int64
		d    limit.HoldDecision
		held bool
		want lease.Grant
	}{
		{2, limit.HoldDecision{Granted: 2, Remaining: 3, TTL: limit.Second}, true, lease.Grant{Status: lease.OK, Granted: 2, TTL: 1000, Limit: 5, Remaining: 3, Reset: 10_000}},
		{3, limit.HoldDecision{Granted: 2, RetryAfter: limit.Second}, true, lease.Grant{Status: lease.Denied, Granted: 2, Limit: 5, RetryAfter: 1000, AskAfter: 100, Reset: 10_000}},
		{6, limit.HoldDecision{}, false, lease.Grant{Status: lease.Denied, Limit: 5, RetryAfter: 1, AskAfter: 1}},
	} {
		if got := terms.SlotGrant(l, &c.d, c.need, c.held); got != c.want {
			t.Errorf("%d needed, %+v: %+v, want %+v", c.need, c.d, got, c.want)
		}
	}
}

// Limits that are few units, next door and between regions.
func TestFew(t *testing.T) {
	for _, c := range []struct {
		spec      limit.Spec
		near, far bool
	}{
		{limit.Spec{Count: 50, Period: limit.Second}, true, true},
		{limit.Spec{Count: 51, Period: limit.Second}, false, false},
		{limit.Spec{Count: 50, Burst: 51, Period: limit.Second}, false, false},
		{limit.Spec{Count: 250, Period: limit.Minute}, false, true},
		{limit.Spec{Count: 251, Period: limit.Minute}, false, false},
		{limit.Spec{Count: 250, Period: limit.Minute - 1}, false, false},
		{limit.Spec{Period: limit.Minute}, false, false},
		{limit.Spec{Algorithm: limit.Concurrency, Count: 5}, false, false},
	} {
		if near, far := lease.Few(c.spec, false), lease.Few(c.spec, true); near != c.near || far != c.far {
			t.Errorf("%+v: few %v, between regions %v", c.spec, near, far)
		}
	}
}

// What the terms of a limit bound: debts, give-backs, and what is asked for ahead between regions.
func TestBoundsOfTerms(t *testing.T) {
	l := fatal.Get(limit.New(minute))(t)
	terms := lease.NewTerms(l, lease.Optimistic, 0, 300, 7)
	if terms.MaxDebt(lease.FailureDeny) != 7 || terms.MaxDebt(lease.FailureAllow) != 1000 || terms.Lies(2000) || !terms.Lies(2001) {
		t.Errorf("%+v", terms)
	}
	if far := terms.ForAggregator(); far.Lead != 500 || far.Ample != 31 || far.Scarce() != 31 || terms.Scarce() != 0 || terms.WantFloor() != 31 {
		t.Errorf("%+v", far)
	}
	if far := lease.NewTerms(l, lease.Leased, 0, 2000, 0).ForAggregator(); far.Lead != 700 {
		t.Errorf("%+v", far)
	}
	if g := terms.AfterDebt(lease.Grant{Remaining: 9}, lease.Grant{Remaining: 4}); g.Remaining != 4 {
		t.Errorf("%+v", g)
	}
	g := lease.Grant{Status: lease.OK, Granted: 9, Limit: 20, Remaining: 4, Reset: 5, TTL: 6}
	if got, want := g.Keep(2), (lease.Grant{Status: lease.OK, Granted: 2, Limit: 20, Remaining: 11, Reset: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if w := (lease.Want{Need: 2, Waiting: 5}); w.Denies(&terms) != 5 || w.Denies(&lease.Terms{ChargesRejected: true}) != 2 {
		t.Error("what a denial charges")
	}
}

func TestCaller(t *testing.T) {
	var c lease.Caller
	for _, row := range []struct {
		seq  uint64
		want bool
	}{{1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {1026, true}, {3, false}, {4, true}, {2, false},
		{1 << 40, true}, {1<<40 - 1024, false}, {1<<40 - 1023, true}, {1<<40 - 1023, false}, {1 << 40, false}, {1 << 63, true}, {1<<63 - 1, true},
		{math.MaxUint64 - 2, true}, {math.MaxUint64, true}, {math.MaxUint64 - 1, true}, {math.MaxUint64, false}, {math.MaxUint64 - 1, false}, {1, false}} {
		if got := c.Accept(row.seq); got != row.want {
			t.Errorf("seq %d accepted: %v", row.seq, got)
		}
	}
}

// What a reply states of a key's limit is its limit, or the number of the override by which it has that.
func TestOwnLimit(t *testing.T) {
	terms := lease.Terms{Capacity: 100}
	for _, c := range []struct {
		grant  lease.Grant
		own    int64 // -1: whatever has the number
		number uint16
	}{
		{lease.Grant{Limit: 100}, 0, 0}, {lease.Grant{Limit: 99}, 100, 0}, {lease.Grant{}, 1, 0},
		{lease.Grant{Limit: lease.Unlimited}, lease.Unlimited, 0}, {lease.Grant{Limit: lease.Unlimited - 1}, lease.Unlimited, 0},
		{lease.Grant{Limit: 100, Override: 1}, -1, 1}, {lease.Grant{Limit: 7, Override: lease.MaxOverrides}, -1, lease.MaxOverrides},
	} {
		own := terms.OwnLimit(&c.grant)
		if c.own >= 0 && own != c.own || lease.Override(own) != c.number || c.number > 0 && (own <= 0 || own >= lease.Unlimited) {
			t.Errorf("%+v: %d of the override %d, want %d of %d", c.grant, own, lease.Override(own), c.own, c.number)
		}
	}
	const most = int64(lease.MaxOverrides)
	for limit := lease.Unlimited - most - 10; limit < lease.Unlimited-1; limit++ { // nearly as large as limits can be
		own := terms.OwnLimit(&lease.Grant{Limit: limit})
		if lease.Override(own) != 0 || own > limit+1 || own < limit-most {
			t.Errorf("a limit of %d is taken for %d, of the override %d", limit, own, lease.Override(own))
		}
	}
}
