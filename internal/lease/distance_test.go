package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// A holder far from its granter asks for what it will need until the next answer, and early
// enough; a near one does not.
func TestAsksByDistance(t *testing.T) {
	for _, c := range []struct {
		trip      Millis
		far       bool
		first     int64 // that the first ask wants
		soon      int64 // that the second expects
		want      int64 // that it wants
		topUpWith int64 // units left at which a top-up is asked for: a quarter of 450, or those of a trip and three deviations
	}{
		{4, false, 1, 0, 50, 112},
		{4, true, 31, 0, 50, 112},
		{100, false, 1, 2 * (50 + 22), 194, 112},
		{150, true, 31, 2 * (75 + 26), 252, 112},
		{400, false, 1, 2 * (200 + 43), 536, 243},
	} {
		s := newStory(t, perMinute, Leased)
		s.terms.Far = c.far
		s.ask(1000, 1, c.first, TopUp)
		s.reply(1000+c.trip, granted(c.first, 900))
		// 500 requests per second: 50 have come 100 ms after the first ask.
		s.account.Lots, s.account.Spent = [2]Lot{}, 0
		if w := s.ask(1100, 50, c.want, TopUp); w.Soon != c.soon || w.Waiting != 50 {
			t.Errorf("%d ms: expects %d beside %d that wait, want %d", c.trip, w.Soon, w.Waiting, c.soon)
		}
		s.reply(1100+c.trip, granted(450, 400))
		now := 1101 + c.trip
		for left := s.account.Available(now) - 1; left >= c.topUpWith; left-- {
			if d := s.account.Take(&s.terms, now, 1); (d.Ask != NoAsk) != (left == c.topUpWith) {
				t.Errorf("%d ms: with %d left it asks: %v, want it with %d", c.trip, left, d.Ask != NoAsk, c.topUpWith)
				break
			}
		}
	}
}

// granted is a grant for a second, and what is left above.
func granted(units, left int64) Grant {
	return Grant{Status: OK, Granted: units, TTL: 10_000, Limit: 1000, Remaining: left, Reset: 30_000}
}

// What is expected makes no denial: nobody waits for it.
func TestSoonIsNotRefused(t *testing.T) {
	s := newStory(t, perMinute, Leased)
	s.account.Rate, s.account.trip, s.account.Asked, s.account.Spent = 1000, 100, 900, 99
	w := s.ask(1000, 1, 300, TopUp)
	if w.Soon != 2*(100+30) {
		t.Fatalf("%+v", w)
	}
	s.reply(1100, granted(1, 0))
	if s.account.Refused || s.account.DeniedNeed != 0 {
		t.Errorf("%+v", s.account)
	}
}

// A part that will not last is followed by an ask at once, though PoPs lived on what they had
// while it was on its way.
func TestFollowsAPartAtOnce(t *testing.T) {
	s := newStory(t, perMinute, Leased)
	s.terms.Far = true
	s.account.Rate, s.account.trip, s.account.Asked, s.account.Spent = 50, 150, 900, 5
	s.want, s.sent = s.account.Ask(&s.terms, 1000, 0, 0, TopUp), 1000
	s.reply(1150, granted(5, 900))
	if behind := s.account.askBehind(&s.terms, 1150); behind != TopUp {
		t.Errorf("with 5 of %d it asks: %v, account %+v", s.want.Want, behind, s.account)
	}
}

// A holder that is a trip away takes no more of a small limit than its few requests need: the rest is for
// other holders.
func TestSmallLimitIsNotHoarded(t *testing.T) {
	for _, trip := range []Millis{5, 12, 50} {
		for _, far := range []bool{false, true} {
			l := newLimit(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 10 * limit.Second})
			terms := NewTerms(l, Leased, 0, 0, 0)
			if far {
				terms = terms.Afar()
			}
			var c Counter
			now := Millis(1_000_001)
			request := func(holder *Account) bool {
				now += 400
				if v := holder.Take(&terms, now, 1).Verdict; v != Wait {
					return v == Admit
				}
				w, sent := holder.Ask(&terms, now, 1, 1, TopUp), now
				g := c.Acquire(l, &terms, limit.Micros(now+trip/2)*limit.Millisecond, w)
				now += trip
				holder.Apply(&terms, now, sent, w, g, max(0, g.Granted-1), 100)
				return g.Granted > 0
			}
			var a, b Account
			for _, holder := range []*Account{&a, &a, &a, &b, &b, &b} {
				if !request(holder) {
					t.Errorf("far %v, a trip of %d ms: refused at %d with 10 in ten seconds; %+v and %+v", far, trip, now-1_000_001, a, b)
				}
			}
		}
	}
}
