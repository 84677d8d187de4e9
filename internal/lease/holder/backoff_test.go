package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// Whatever a holder asks for, after an answer that decides nothing it waits for a lease
// interval, and twice as long with each failure, up to a second. Whoever would have to
// wait for an answer does not, and after two failures not for the next ask either.
func TestBackoff(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact, lease.Optimistic} {
		s := newStory(t, perMinute, c)
		s.terms.Overdraft = 0
		now := lease.Millis(1000)
		for i, pause := range []lease.Millis{100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000} {
			if i < 2 {
				s.take(now, 1, Wait, NoAsk)
				s.ask(now, 1, 1, NoAsk)
			} else {
				s.take(now, 1, Unanswered, TopUp)
				s.want, s.sent = s.account.Ask(&s.terms, now, 0, 0, TopUp), now
			}
			if i > 0 {
				s.take(now+1, 1, Unanswered, NoAsk) // one ask is out
			}
			s.reply(now+4, lease.Grant{Status: lease.Unavailable})
			s.take(now+4+pause-1, 1, Unanswered, NoAsk)
			if _, some := s.account.Report(&s.terms, now+4+pause-1); some {
				t.Errorf("%d: reports while asks fail", c)
			}
			now += 4 + pause
		}
		s.take(now, 1, Unanswered, TopUp)
		s.want, s.sent = s.account.Ask(&s.terms, now, 0, 0, TopUp), now
		s.reply(now+4, lease.Grant{Status: lease.OK, Remaining: 500, Reset: 1000, TTL: 1000})
		if s.account.Back != (Backoff{}) {
			t.Errorf("%d: an answer that decides ends it: %+v", c, s.account.Back)
		}
		s.take(now+5, 1, Wait, NoAsk)
	}
}
