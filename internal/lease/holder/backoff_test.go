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

// Nothing is asked ahead while asks fail, and what was denied stays refused.
func TestBackoffKeepsWhatIsKnown(t *testing.T) {
	s := newStory(t, perMinute, lease.Leased)
	s.ask(1000, 1, 1, NoAsk)
	s.reply(1004, ok(1, 900))
	s.account.Leases[0] = Lease{Units: 2, Expiry: 9000, Lease: 7}
	s.want, s.sent = s.account.Ask(&s.terms, 1010, 0, 0, TopUp), 1010
	s.reply(1014, lease.Grant{Status: lease.UnknownRule})
	if s.account.Back.Status() != lease.UnknownRule {
		t.Errorf("%+v", s.account.Back)
	}
	s.take(1020, 1, Admit, NoAsk)
	s.take(1114, 1, Admit, TopUp)
	s.account.Phase, s.account.Least, s.account.Ends, s.account.Reset = PhaseDenied, 1, 1500, 60_000
	s.account.Back.Until = 2000
	s.take(1200, 1, Refuse, NoAsk)
	s.take(1600, 1, Unanswered, NoAsk)
	if !s.account.remembered(1600, 1) {
		t.Error("a denial is forgotten when asks fail")
	}
	if s.account.Idle(&s.terms, 1999) {
		t.Error("forgets that asks fail")
	}
}
