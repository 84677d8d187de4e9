package relay

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limit/limittest"
)

// A relay far from its granter asks for what it will need until the next answer, and early
// enough; a near one does not.
func TestAsksByDistance(t *testing.T) {
	for _, c := range []struct {
		trip      lease.Millis
		far       bool
		first     int64 // that the first ask wants
		soon      int64 // that the second expects
		want      int64 // that it wants
		topUpWith int64 // units left at which a top-up is asked for: a quarter of 450, or those of a trip and three deviations
	}{
		{4, false, 1, 0, 50, 112},
		{4, true, 31, 0, 50, 112},
		{150, true, 31, 2 * (75 + 26), 252, 112},
		{400, true, 31, 2 * (200 + 43), 536, 243},
	} {
		s := &farTale{t: t, terms: lease.NewTerms(limittest.New(t, perMinute), lease.Leased, 0, 0, 0)}
		s.terms.Far = c.far
		if w := s.ask(1000, 1, holder.TopUp); w.Want != c.first {
			t.Errorf("%d ms: wants %d first, not %d", c.trip, w.Want, c.first)
		}
		s.reply(1000+c.trip, granted(c.first, 900))
		// 500 requests per second: 50 have come 100 ms after the first ask.
		s.Holder.Leases, s.Holder.Spent = [2]holder.Lease{}, 0
		if w := s.ask(1100, 50, holder.TopUp); w.Soon != c.soon || w.Waiting != 50 || w.Want != c.want {
			t.Errorf("%d ms: expects %d beside %d that wait, and wants %d; not %d, 50 and %d", c.trip, w.Soon, w.Waiting, w.Want, c.soon, c.want)
		}
		s.reply(1100+c.trip, granted(450, 400))
		s.askAt = 0 // the pause is over
		now := 1101 + c.trip
		lot := &s.Holder.Leases[1]
		for lot.Units--; lot.Units >= c.topUpWith; lot.Units-- {
			if behind := s.Prefetch(&s.terms, now); (behind != holder.NoAsk) != (lot.Units == c.topUpWith) {
				t.Errorf("%d ms: with %d left it asks: %v, want it with %d", c.trip, lot.Units, behind != holder.NoAsk, c.topUpWith)
				break
			}
		}
	}
}

// granted is a grant for a second, and what is left above.
func granted(units, left int64) lease.Grant {
	return lease.Grant{Status: lease.OK, Granted: units, TTL: 10_000, Limit: 1000, Remaining: left, Reset: 30_000}
}

// What is expected makes no denial: nobody waits for it.
func TestSoonIsNotRefused(t *testing.T) {
	s := &farTale{t: t, terms: lease.NewTerms(limittest.New(t, perMinute), lease.Leased, 0, 0, 0).Afar()}
	s.rate, s.trip, s.Holder.Asked, s.Holder.Spent = 1000, 100, 900, 99
	w := s.ask(1000, 1, holder.TopUp)
	if w.Soon != 2*(100+30) {
		t.Fatalf("%+v", w)
	}
	s.reply(1100, granted(1, 0))
	if s.Holder.Refused || s.Holder.Least != 0 {
		t.Errorf("%+v", s.Holder)
	}
}

// A relay that is a trip away takes no more of a small limit than its few requests need: the rest is for
// other holders.
func TestSmallLimitIsNotHoarded(t *testing.T) {
	for _, trip := range []lease.Millis{5, 12, 50} {
		for _, far := range []bool{false, true} {
			l := limittest.New(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 10 * limit.Second})
			terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
			if far {
				terms = terms.Afar()
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
					t.Errorf("far %v, a trip of %d ms: refused at %d with 10 in ten seconds; %+v and %+v", far, trip, now-1_000_001, a, b)
				}
			}
		}
	}
}
