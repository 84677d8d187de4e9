package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var perMinute = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute}

// window is the granter's clock at the beginning of a minute.
const window = 30_000_000 * limit.Minute

// tier drives one relay through a trace.
type tier struct {
	t     *testing.T
	terms lease.Terms
	Relay
}

func newTier(t *testing.T, s limit.Spec, c lease.Consistency, lots ...holder.Lease) *tier {
	n := &tier{t: t, terms: lease.NewTerms(fatal.Get(limit.New(s))(t), c, 0, 0, 0)}
	copy(n.Holder.Leases[:], lots)
	n.Holder.Left, n.Holder.Reset, n.Holder.Asked = 500, 60_000, 900
	return n
}

func (n *tier) acquire(now lease.Millis, w lease.Want, verdict holder.Verdict, granted int64) lease.Grant {
	n.t.Helper()
	g, v, back := n.Acquire(&n.terms, now, w)
	if v != verdict || g.Granted != granted || back.Units != 0 {
		n.t.Fatalf("at %d %+v: verdict %d, granted %d, gave back %d, not %d and %d; %+v", now, w, v, g.Granted, back.Units, verdict, granted, n.Holder)
	}
	return g
}

// A relay cuts each child its part of what is needed soon, or of half of the lot if that is more.
func TestRelayCutsWhatItNeedsInParts(t *testing.T) {
	lot := holder.Lease{Units: 100, Expiry: 2000, TTL: 1000, Lease: 7}
	n := newTier(t, perMinute, lease.Leased, lot)
	n.rate = 100_000
	n.acquire(1250, lease.Want{Want: 10, Fresh: true}, holder.Admit, 10)
	n.acquire(1251, lease.Want{Want: 80, Fresh: true}, holder.Admit, 45) // of 90 for two
	n = newTier(t, perMinute, lease.Leased, lot)
	n.rate = 100_000
	n.acquire(1250, lease.Want{Want: 80, Fresh: true}, holder.Admit, 80)
	n = newTier(t, perMinute, lease.Leased, lot)
	n.acquire(1250, lease.Want{Want: 80, Fresh: true}, holder.Admit, 50)
}

func TestRelayTopsUpWhatIsNearlyOver(t *testing.T) {
	lot := holder.Lease{Units: 100, Expiry: 2000, TTL: 1000, Lease: 7}
	w := lease.Want{Need: 1, Waiting: 1, Want: 1}
	newTier(t, perMinute, lease.Leased, lot).acquire(1749, w, holder.Admit, 1)
	newTier(t, perMinute, lease.Leased, lot).acquire(1750, w, holder.Wait, 0)
	n := newTier(t, perMinute, lease.Leased, lot)
	n.Holder.Phase, n.Holder.Least, n.Holder.Ends = holder.PhaseDenied, 1, 3000
	if g := n.acquire(1750, w, holder.Admit, 1); g.TTL != 249 { // better than to reject
		t.Errorf("ttl %d", g.TTL)
	}
	n.acquire(1999, w, holder.Wait, 0) // nobody could spend it any more: it goes back for another
}

// The ask has the least need of the queue. Of the reply, each want first gets what waits.
func TestRelayAsksForItsChildren(t *testing.T) {
	for name, row := range map[string]struct {
		spec                   limit.Spec
		queue                  []lease.Want
		waiting, want, granted int64
		grants                 []int64
		kept                   int64
	}{
		"a window": {perMinute, []lease.Want{{Need: 9, Waiting: 9, Want: 9}, {Need: 2, Waiting: 4, Want: 60}, {Want: 5}}, 13, 74, 40, []int64{9, 7, 5}, 19},
		"a bucket": {tokens, []lease.Want{{Need: 2, Waiting: 2, Want: 50}, {Need: 3, Waiting: 3, Want: 50}}, 5, 100, 10, []int64{7, 3}, 0},
	} {
		n := newTier(t, row.spec, lease.Leased)
		w := n.Relay.Ask(&n.terms, 1000, row.queue, holder.NoAsk)
		if w.Need != 2 || w.Waiting != row.waiting || w.Want != row.want || w.Next {
			t.Errorf("%s: asks %+v", name, w)
		}
		grants := make([]lease.Grant, len(row.queue))
		g := lease.Grant{Status: lease.OK, Granted: row.granted, Lease: 7, TTL: 1000, Remaining: 6, Reset: 5000}
		back := n.Relay.Apply(&n.terms, 1010, 1000, w, g, 100, row.queue, grants)
		for i, g := range grants {
			if g.Granted != row.grants[i] || g.TTL != 989 || g.Status != lease.OK {
				t.Errorf("%s: %+v, want %d units within the relay's own 1000 ms since 1000", name, g, row.grants[i])
			}
		}
		if kept := n.Holder.Leases[0].Units + n.Holder.Leases[1].Units; back.Units != 0 || kept != row.kept {
			t.Errorf("%s: keeps %d, gives back %+v", name, kept, back)
		}
	}
}

func TestRelayPassesADenialOn(t *testing.T) {
	n := newTier(t, perMinute, lease.Leased, holder.Lease{Units: 3, Expiry: 1100, TTL: 1000, Lease: 7}, holder.Lease{Units: 4, Expiry: 1900, TTL: 1000, Lease: 8})
	queue := []lease.Want{{Need: 5, Waiting: 5, Want: 5}, {Need: 2, Waiting: 2, Want: 2}}
	w := n.Relay.Ask(&n.terms, 1000, queue, holder.NoAsk)
	grants := make([]lease.Grant, 2)
	n.Relay.Apply(&n.terms, 1010, 1000, w, lease.Grant{Status: lease.Denied, Remaining: 1, RetryAfter: 30_000, Reset: 30_000, AskAfter: 300}, 100, queue, grants)
	if g := grants[0]; g.Status != lease.Denied || g.AskAfter != 300 || g.RetryAfter != 30_000 || g.Remaining != 4 {
		t.Errorf("the costly one: %+v", g)
	}
	if g := grants[1]; g.Granted != 2 || g.TTL != 89 {
		t.Errorf("what is left of an old lease is better than nothing: %+v", g)
	}

	n.Relay.Apply(&n.terms, 1020, 1000, w, lease.Grant{Status: lease.Unavailable}, 100, queue, grants)
	if grants[0].Status != lease.Unavailable || grants[1].Status != lease.Unavailable {
		t.Errorf("%+v", grants)
	}
}

// A relay takes back what it has cut of a lease, and no more.
func TestRelayTakesBack(t *testing.T) {
	n := newTier(t, perMinute, lease.Leased, holder.Lease{Units: 6, Expiry: 2000, TTL: 1000, Lease: 7})
	n.acquire(1000, lease.Want{Need: 5, Waiting: 5, Want: 5}, holder.Admit, 5)
	for _, row := range []struct{ unused, left int64 }{{1<<32 - 1, 1}, {4, 5}, {2, 6}, {1, 6}, {1<<32 - 1, 6}} {
		if n.acquire(1000, lease.Want{Unused: row.unused, Lease: 7}, holder.Admit, 0); n.Holder.Leases[0].Units != row.left {
			t.Errorf("after %d came back: %+v, want %d units", row.unused, n.Holder.Leases[0], row.left)
		}
	}
	n.acquire(1000, lease.Want{Need: 6, Waiting: 6, Want: 6}, holder.Admit, 6)
	if !n.lends(1998) || n.lends(1999) {
		t.Error("a lease that was cut until 1999 does not run until then")
	}
	if _, _, back := n.Acquire(&n.terms, 2000+lease.Millis(granter.LeaseMemory/limit.Millisecond), lease.Want{Unused: 4, Lease: 7}); back.Units != 4 || n.Holder.Leases[0].Units != 0 {
		t.Errorf("takes units back long after their lease: %+v", n.Holder.Leases)
	}
	_, _, back := n.Acquire(&n.terms, 1000, lease.Want{Unused: 4, Lease: 8})
	if back != (holder.Part{Units: 4, Lease: 8, Expiry: 1000}) {
		t.Errorf("what belongs to no lease of its own has to go up: %+v", back)
	}
	bucket := newTier(t, limit.Spec{Count: 100, Period: limit.Second}, lease.Leased, holder.Lease{Units: 1, Expiry: 2000, TTL: 1000})
	if _, _, back := bucket.Acquire(&bucket.terms, 1000, lease.Want{Unused: 4}); back.Units != 4 {
		t.Errorf("tokens would be out for ever: %+v", bucket.Holder.Leases)
	}
}

func TestRelayOfAnExactRule(t *testing.T) {
	n := newTier(t, perMinute, lease.Exact)
	if asks := n.Prefetch(&n.terms, 1000); asks != holder.NoAsk {
		t.Errorf("asks %v ahead", asks)
	}
	w := lease.Want{Need: 1, Waiting: 1, Want: 1}
	n.acquire(1000, w, holder.Wait, 0)
	up := n.Relay.Ask(&n.terms, 1000, []lease.Want{w}, holder.NoAsk)
	if up.Want != 1 {
		t.Errorf("asks %+v", up)
	}
	grants := make([]lease.Grant, 1)
	if back := n.Relay.Apply(&n.terms, 1004, 1000, up, lease.Grant{Status: lease.Denied, Remaining: 0, RetryAfter: 30_000, Reset: 30_000, AskAfter: 200}, 100, []lease.Want{w}, grants); back.Units != 0 || grants[0].Status != lease.Denied {
		t.Errorf("%+v", grants)
	}
	n.acquire(1100, w, holder.Reject, 0)
	n.acquire(1204, w, holder.Wait, 0)
	up = n.Relay.Ask(&n.terms, 1204, []lease.Want{w}, holder.NoAsk)
	n.acquire(1204, w, holder.Reject, 0)
	n.Relay.Apply(&n.terms, 1205, 1204, up, lease.Grant{Status: lease.Unavailable}, 100, []lease.Want{w}, grants)
	n.acquire(1205, w, holder.Wait, 0)
	n.Relay.Apply(&n.terms, 1206, 1204, up, lease.Grant{Status: lease.OK, Granted: 1, Lease: 7, TTL: 1000}, 100, []lease.Want{w}, grants)
	_, _, back := n.Acquire(&n.terms, 1206, lease.Want{Unused: 3, Lease: 7})
	if grants[0].Granted != 1 || back.Units != 3 || back.Lease != 7 || n.lends(1206) {
		t.Errorf("granted %+v, gave back %+v: the counter has the account of what is out", grants, back)
	}
}

// A new lease takes the place of the smaller rest of an old one, which goes back. One that is over before it arrives goes
// back itself.
func TestRelayMakesPlaceForANewLease(t *testing.T) {
	old := holder.Lease{Units: 4, Expiry: 2000, TTL: 1000, Lease: 7}
	for _, c := range []struct {
		name    string
		younger holder.Lease
		ttl     lease.Millis
		back    holder.Part
	}{
		{"the older one goes", holder.Lease{Units: 6, Expiry: 2500, TTL: 1000, Lease: 8}, 1000, holder.Part{Units: 4, Lease: 7, Expiry: 2000}},
		{"there is place", holder.Lease{}, 1000, holder.Part{}},
		{"it is over", holder.Lease{Units: 6, Expiry: 2500, TTL: 1000, Lease: 8}, 2, holder.Part{Units: 50, Lease: 9, Expiry: 1202}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newTier(t, perMinute, lease.Leased, old, c.younger)
			w := n.Relay.Ask(&n.terms, 1200, nil, holder.TopUp)
			g := lease.Grant{Status: lease.OK, Granted: 50, Lease: 9, TTL: c.ttl, Remaining: 100, Reset: 5000}
			if back := n.Relay.Apply(&n.terms, 1202, 1200, w, g, 100, nil, nil); back != c.back {
				t.Errorf("gave back %+v, want %+v", back, c.back)
			}
			if got, want := n.Holder.Leases[0].Units+n.Holder.Leases[1].Units, 54+c.younger.Units-c.back.Units; got != want {
				t.Errorf("holds %d units, want %d: %+v", got, want, n.Holder.Leases)
			}
		})
	}
}

// Of a queue the granter has charged the least need, if it denied that; the relay
// charges the others that it denies.
func TestDeniedQueueIsCharged(t *testing.T) {
	for name, c := range map[string]struct {
		count  int64 // left at the granter
		denied int64 // reported to the granter with the next want
	}{"all": {0, 7 + 5}, "all but the least": {3, 7 + 5}, "none": {15, 0}} {
		spec := limit.Spec{Algorithm: limit.FixedWindow, Count: 15, Period: limit.Hour, ChargeRejected: true}
		l := fatal.Get(limit.New(spec))(t)
		terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
		var above granter.Counter
		above.State = l.Charge(above.State, limit.Second, 15-c.count)
		var n Relay
		queue := []lease.Want{{Need: 7, Waiting: 7, Want: 7}, {Need: 3, Waiting: 3, Want: 3}, {Need: 5, Waiting: 5, Want: 5}}
		w := n.Ask(&terms, 1000, queue, holder.NoAsk)
		grants := make([]lease.Grant, len(queue))
		n.Apply(&terms, 1004, 1000, w, above.Acquire(l, &terms, limit.Second, w), 100, queue, grants)
		if n.Holder.Denied != c.denied {
			t.Errorf("%s: %d to be charged, want %d; %+v", name, n.Holder.Denied, c.denied, grants)
		}
	}
}

// Rejected from memory is rejected: by the holder, by a relay, by a relay's children, or
// as an exact rule does it. A peek, a child that reports no denials, and
// a spent share of the holder's own reject nobody.
func TestRejectionsFromMemory(t *testing.T) {
	spent := holder.State{Phase: holder.PhaseDenied, Ends: 2000, Least: 1, Reset: 9000}
	acquire := func(w lease.Want) func(*lease.Terms, *holder.State) {
		return func(terms *lease.Terms, s *holder.State) {
			n := Relay{Holder: *s}
			n.Acquire(terms, 1000, w)
			*s = n.Holder
		}
	}
	take := func(terms *lease.Terms, s *holder.State) { s.Take(terms, 1000, 1) }
	for name, c := range map[string]struct {
		consistency lease.Consistency
		do          func(*lease.Terms, *holder.State)
		rejected    bool
		counted     int64 // units, as rejected since Asked
	}{
		"account":           {lease.Leased, take, true, 1},
		"exact account":     {lease.Exact, take, true, 1},
		"relay":             {lease.Leased, acquire(lease.Want{Need: 1, Waiting: 3, Want: 3}), true, 3},
		"exact relay":       {lease.Exact, acquire(lease.Want{Need: 1, Waiting: 1, Want: 1}), true, 1},
		"top-up of a relay": {lease.Leased, acquire(lease.Want{Want: 1}), false, 0},
		"question":          {lease.Leased, acquire(lease.Want{}), false, 0},
		"children":          {lease.Leased, acquire(lease.Want{Denied: 3}), true, 3},
		"local share": {lease.Leased, func(terms *lease.Terms, s *holder.State) {
			s.Least = 0
			s.Fail(terms, 1000, lease.Failure{By: lease.FailureLocal, Share: 1, Ends: 9000}, 2)
		}, false, 2},
	} {
		terms := lease.NewTerms(fatal.Get(limit.New(perMinute))(t), c.consistency, 0, 0, 0)
		s := spent
		c.do(&terms, &s)
		if s.Rejected != c.rejected || s.Denied != c.counted {
			t.Errorf("%s: rejected %v, %d counted", name, s.Rejected, s.Denied)
		}
	}
}

// A relay that is a trip away takes no more of a small limit than its few requests need: the rest is for other holders.
func TestSmallLimitIsNotHoarded(t *testing.T) {
	for _, trip := range []lease.Millis{5, 12, 50} {
		for _, far := range []bool{false, true} {
			l := fatal.Get(limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 10 * limit.Second}))(t)
			terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
			if far {
				terms = terms.ForAggregator()
			}
			var c granter.Counter
			now := lease.Millis(1_000_001)
			request := func(r *Relay) bool {
				now += 400
				if v := r.Holder.Take(&terms, now, 1).Verdict; v != holder.Wait {
					return v == holder.Admit
				}
				queue, grants := []lease.Want{{Need: 1, Waiting: 1, Want: 1}}, make([]lease.Grant, 1)
				w, sent := r.Ask(&terms, now, queue, holder.TopUp), now
				g := c.Acquire(l, &terms, limit.Micros(now+trip/2)*limit.Millisecond, w)
				now += trip
				r.Apply(&terms, now, sent, w, g, 100, queue, grants)
				return grants[0].Granted > 0
			}
			var a, b Relay
			for _, r := range []*Relay{&a, &a, &a, &b, &b, &b} {
				if !request(r) {
					t.Errorf("far %v, a trip of %d ms: rejected at %d with 10 in ten seconds; %+v and %+v", far, trip, now-1_000_001, a, b)
				}
			}
		}
	}
}

// TestDecisionsDoNotAllocate covers every call on the way of a request.
func TestDecisionsDoNotAllocate(t *testing.T) {
	l := fatal.Get(limit.New(perMinute))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	var s holder.State
	var c granter.Counter
	var n Relay
	queue, grants := make([]lease.Want, 2), make([]lease.Grant, 2)
	now := lease.Millis(1000)
	allocs := testing.AllocsPerRun(1000, func() {
		now += 7
		d := s.Take(&terms, now, 1)
		s.Refund(&terms, d.Taken)
		if !s.Fail(&terms, now, lease.Failure{By: lease.FailureLocal, Share: 1, Ends: now + 7}, 2).Admitted {
			s.Owe(&terms, 1)
		}
		w := s.Ask(&terms, now, 1, 1, holder.NoAsk)
		g := c.Acquire(l, &terms, window+limit.Micros(now)*limit.Millisecond, w)
		s.Apply(&terms, now, now, w, g, max(0, g.Granted-1), 100)
		s.Report(&terms, now)
		_, _, _ = n.Acquire(&terms, now, w)
		up := n.Ask(&terms, now, queue, holder.TopUp)
		n.Apply(&terms, now, now, up, g, 100, queue, grants)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
