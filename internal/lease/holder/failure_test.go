package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Where units trickle back, replies to a flood grant some and leave nothing: what is
// refused in between stays refused when nobody answers, until the bucket is full.
func TestFloodIsRememberedThroughGrants(t *testing.T) {
	s := newStory(t, limit.Spec{Count: 100, Period: limit.Second}, lease.Leased)
	granted := func(now lease.Millis, left int64) {
		s.want, s.sent = s.account.Ask(&s.terms, now, 1, 1, NoAsk), now
		s.reply(now, lease.Grant{Status: lease.OK, Granted: 1, TTL: 1000, Remaining: left, Reset: lease.Millis(1000 - 10*left)})
	}
	granted(1000, 0)
	if s.account.remembered(1001, 1) {
		t.Error("nobody was refused yet")
	}
	s.take(1001, 1, Refuse, NoAsk)
	granted(1100, 5)
	for _, row := range []struct {
		now  lease.Millis
		cost int64
		want bool
	}{{1101, 5, false}, {1101, 6, true}, {2049, 6, true}, {2050, 6, false}} {
		if got := s.account.remembered(row.now, row.cost); got != row.want {
			t.Errorf("at %d a request of %d stays refused: %v", row.now, row.cost, got)
		}
	}
	s.account.Owe(&s.terms, 7)
	if !s.account.remembered(1102, 1) || s.account.remembered(1102, 0) {
		t.Error("what was left has been admitted since: all but questions are refused")
	}
	s.account.Overdrawn = 0
	if s.account.Idle(&s.terms, 2049) || !s.account.Idle(&s.terms, 2050) {
		t.Error("a refusal pins its account until the bucket is full, and no longer")
	}
	granted(1200, 49)
	if !s.account.remembered(1201, 50) {
		t.Error("forgets a refusal although less than half is left")
	}
	granted(1300, 50)
	if s.account.Refused {
		t.Error("remembers a refusal although half is left again")
	}
}

// Whom the tier above denied, or granted less than waited, is refused; what a group
// lost to another rule is not.
func TestWhatRefuses(t *testing.T) {
	for _, c := range []struct {
		waiting int64
		g       lease.Grant
		refused bool
	}{
		{1, lease.Grant{Status: lease.OK, Granted: 1}, false},
		{2, lease.Grant{Status: lease.OK, Granted: 1}, true},
		{1, lease.Grant{Status: lease.Denied}, true},
		{0, lease.Grant{Status: lease.Denied}, false},
		{1, lease.Grant{Status: lease.OK}, false},
		{1, lease.Grant{Status: lease.Unavailable}, false},
		{600, lease.Grant{Status: lease.Denied, Remaining: 599}, false},
	} {
		s := newStory(t, perMinute, lease.Leased)
		s.want = s.account.Ask(&s.terms, 1000, c.waiting, c.waiting, NoAsk)
		c.g.Reset = 1000
		s.reply(1004, c.g)
		if s.account.Refused != c.refused {
			t.Errorf("%d waited and got %+v: refused %v", c.waiting, c.g, s.account.Refused)
		}
	}
}
