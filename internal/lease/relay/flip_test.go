package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

var perTenSeconds = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: 10 * limit.Second}

// crossRegionStory is a relay 100 ms from its granter and back, with 75 requests per second, in a window that
// ends at 10,000.
func crossRegionStory(t *testing.T, lots ...holder.Lease) *tier {
	s := newTier(t, perTenSeconds, lease.Leased, lots...)
	s.terms, s.rate, s.trip = s.terms.ForAggregator(), 75, 100
	s.Holder.Asked, s.Holder.Spent, s.Holder.Size, s.Holder.Reset = 9000, 20, 40, 10_000
	return s
}

// asks asks although nobody waits, and takes the reply.
func (n *tier) asks(sent lease.Millis, why holder.Asks, now lease.Millis, g lease.Grant) {
	n.Apply(&n.terms, now, sent, n.Ask(&n.terms, sent, nil, why), g, 100, nil, nil)
}

// A denial until the end of the window does not keep a far holder from asking for the next one, once
// in a pause: without it all requests of a window's first trip would wait.
func TestAheadOfADeniedWindow(t *testing.T) {
	s := crossRegionStory(t)
	s.asks(9100, holder.TopUp, 9200, lease.Grant{Status: lease.Denied, RetryAfter: 800, AskAfter: 800, Limit: 1000, Reset: 800})
	s.Holder.Deny(&s.terms, 9200, 5)
	if at := s.RenewAt(&s.terms, 9200); at != 9700 {
		t.Fatalf("looks again at %d, not when the next window can be asked for; %+v", at, s.Holder)
	}
	for now, asks := range map[lease.Millis]holder.Asks{9200: holder.NoAsk, 9699: holder.NoAsk, 9700: holder.Ahead} {
		if got := s.Prefetch(&s.terms, now); got != asks {
			t.Errorf("at %d asks %d, not %d", now, got, asks)
		}
	}
	s.asks(9700, holder.Ahead, 9760, lease.Grant{Status: lease.Denied, AskAfter: 240, RetryAfter: 240, Reset: 240})
	for now, asks := range map[lease.Millis]holder.Asks{9760: holder.NoAsk, 9799: holder.NoAsk, 9800: holder.Ahead} {
		if got := s.Prefetch(&s.terms, now); got != asks {
			t.Errorf("denied again, at %d it asks %d, not %d", now, got, asks)
		}
	}
}

// A lease of the next window follows one that ends with its own window, to within a round trip.
func TestFollows(t *testing.T) {
	for _, c := range []struct {
		now, expiry, from lease.Millis
		units             int64
		follows           bool
	}{
		{9950, 9990, 10_001, 30, true}, {9950, 9990, 10_001, 0, false}, {10_000, 9990, 10_001, 30, false},
		{9950, 9898, 10_001, 30, true}, {9950, 9897, 10_001, 30, false}, {9999, 9990, 10_000, 30, true}, {9950, 9990, 9950, 30, false},
		{9950, 9990, 9990 + lease.LongestTrip, 30, true}, {9950, 9990, 9991 + lease.LongestTrip, 30, false},
	} {
		s, next := crossRegionStory(t), holder.Lease{Units: c.units, From: c.from}
		if got := s.follows(&s.terms, c.now, &holder.Lease{Expiry: c.expiry}, &next); got != c.follows {
			t.Errorf("%+v: %v", c, got)
		}
	}
	s := crossRegionStory(t, holder.Lease{Units: 30, From: 10_001, Expiry: 11_000})
	for startsIn, ends := range map[lease.Millis]lease.Millis{0: 10_001, 50: 9940} {
		if got := s.closed(&s.terms, 9950, 9940, lease.Grant{StartsIn: startsIn}); got != ends {
			t.Errorf("a lease that starts in %d ends at %d, not %d", startsIn, got, ends)
		}
	}
	s.terms.Window = 0
	if s.endsWithWindow(&s.terms, 9950, &holder.Lease{Expiry: 9990}) {
		t.Error("a limit without windows has one that ends")
	}
}

// A cross-region relay grants units of both lots, and keeps a quarter for the other workers of a child, but not
// where children reject requests.
func TestFarRelayKeepsAQuarter(t *testing.T) {
	far := func(denied int64) *tier {
		n := newTier(t, limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}, lease.Leased,
			holder.Lease{Units: 4, Expiry: 1800, TTL: 1000, Lease: 7}, holder.Lease{Units: 16, Expiry: 2000, TTL: 1000, Lease: 7})
		n.terms, n.Holder.Denied = n.terms.ForAggregator(), denied
		return n
	}
	n := far(0)
	if g := n.acquire(1100, lease.Want{Want: 40, Fresh: true}, holder.Admit, 15); g.TTL != 699 {
		t.Errorf("%+v lasts as long as the first of both", g)
	}
	n.acquire(1101, lease.Want{Need: 1, Waiting: 1, Want: 40}, holder.Admit, 4)
	n.acquire(1102, lease.Want{Need: 1, Waiting: 1, Want: 40}, holder.Admit, 1)
	n.acquire(1103, lease.Want{Need: 1, Waiting: 1, Want: 40}, holder.Wait, 0)
	far(1).acquire(1100, lease.Want{Want: 40, Fresh: true}, holder.Admit, 20)
	far(0).acquire(1100, lease.Want{Need: 20, Waiting: 20, Want: 40, Fresh: true}, holder.Admit, 20)
	far(0).acquire(1650, lease.Want{Want: 40, Fresh: true}, holder.Admit, 12) // the older one ends too soon
}
