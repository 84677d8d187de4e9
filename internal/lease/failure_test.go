package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// A unit of the holder's own share goes back there when another rule denies the
// request that took it.
func TestUntakeLocalShare(t *testing.T) {
	var s Account
	terms := Terms{Capacity: 10}
	if !s.takeLocal(&terms, 1000, 2000, 5, 2) {
		t.Fatal("2 of 5 units were refused")
	}
	s.Untake(&Terms{}, Taken{Overdrawn: 2, Local: true})
	if !s.takeLocal(&terms, 1000, 2000, 5, 5) || s.takeLocal(&terms, 1000, 2000, 5, 1) || s.Overdrawn != 5 {
		t.Errorf("the share was not whole again: overdrawn %d", s.Overdrawn)
	}
}

// Where units trickle back, replies to a flood grant some and leave nothing: what is
// refused in between stays refused when nobody answers, until the bucket is full.
func TestFloodIsRememberedThroughGrants(t *testing.T) {
	s := newStory(t, limit.Spec{Count: 100, Period: limit.Second}, Leased)
	granted := func(now Millis, left int64) {
		s.want, s.sent = s.account.Ask(&s.terms, now, 1, 1, NoAsk), now
		s.reply(now, Grant{Status: OK, Granted: 1, TTL: 1000, Remaining: left, Reset: Millis(1000 - 10*left)})
	}
	granted(1000, 0)
	if s.account.remembered(1001, 1) {
		t.Error("nobody was refused yet")
	}
	s.take(1001, 1, Refuse, TopUp)
	granted(1100, 5)
	for _, row := range []struct {
		now  Millis
		cost int64
		want bool
	}{{1101, 5, false}, {1101, 6, true}, {2049, 6, true}, {2050, 6, false}} {
		if got := s.account.remembered(row.now, row.cost); got != row.want {
			t.Errorf("at %d a request of %d stays refused: %v", row.now, row.cost, got)
		}
	}
	s.account.overdraw(&s.terms, 7)
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

func TestRefusalEndsWithItsWindow(t *testing.T) {
	s := newStory(t, perMinute, Leased)
	s.account = Account{Refused: true, Reset: 1000}
	s.ask(1000, 1, 1, NoAsk)
	s.reply(1004, ok(1, 100))
	if s.account.Refused {
		t.Error("a refusal of the last window stands in this one")
	}
}

// Whom the tier above denied, or granted less than waited, is refused; what a group
// lost to another rule is not.
func TestWhatRefuses(t *testing.T) {
	for _, c := range []struct {
		waiting int64
		g       Grant
		refused bool
	}{
		{1, Grant{Status: OK, Granted: 1}, false},
		{2, Grant{Status: OK, Granted: 1}, true},
		{1, Grant{Status: Denied}, true},
		{0, Grant{Status: Denied}, false},
		{1, Grant{Status: OK}, false},
		{1, Grant{Status: Unavailable}, false},
		{600, Grant{Status: Denied, Remaining: 599}, false},
	} {
		s := newStory(t, perMinute, Leased)
		s.want = s.account.Ask(&s.terms, 1000, c.waiting, c.waiting, NoAsk)
		c.g.Reset = 1000
		s.reply(1004, c.g)
		if s.account.Refused != c.refused {
			t.Errorf("%d waited and got %+v: refused %v", c.waiting, c.g, s.account.Refused)
		}
	}
}

// Refused from memory is refused: by the account, by a relay, by a relay's children, or
// as an exact rule does it. A peek, a child that reports no denials, and
// a spent share of the holder's own refuse nobody.
func TestRefusalsFromMemory(t *testing.T) {
	spent := Account{LimitedUntil: 2000, NextAsk: 2000, DeniedNeed: 1, Reset: 9000}
	acquire := func(w Want) func(*Terms, *Account) {
		return func(terms *Terms, s *Account) {
			n := Relay{Account: *s}
			n.Acquire(terms, 1000, w)
			*s = n.Account
		}
	}
	take := func(terms *Terms, s *Account) { s.Take(terms, 1000, 1) }
	for name, c := range map[string]struct {
		consistency Consistency
		do          func(*Terms, *Account)
		refused     bool
		counted     int64 // units, as refused since Asked
	}{
		"account":           {Leased, take, true, 1},
		"exact account":     {Exact, take, true, 1},
		"relay":             {Leased, acquire(Want{Need: 1, Waiting: 3, Want: 3}), true, 3},
		"exact relay":       {Exact, acquire(Want{Need: 1, Waiting: 1, Want: 1}), true, 1},
		"top-up of a relay": {Leased, acquire(Want{Want: 1}), false, 0},
		"question":          {Leased, acquire(Want{}), false, 0},
		"children":          {Leased, acquire(Want{Denied: 3}), true, 3},
		"local share":       {Leased, func(terms *Terms, s *Account) { s.takeLocal(terms, 1000, 9000, 1, 2) }, false, 2},
	} {
		terms := NewTerms(newLimit(t, perMinute), c.consistency, 0, 0, 0)
		s := spent
		c.do(&terms, &s)
		if s.Refused != c.refused || s.Denied != c.counted {
			t.Errorf("%s: refused %v, %d counted", name, s.Refused, s.Denied)
		}
	}
}

// An optimistic holder may owe more than one limit. A failure adds nothing to that,
// and takes nothing off.
func TestDebtOfAnOverdraft(t *testing.T) {
	for owes, then := range map[int64]int64{0: 4, 7: 10, 9: 10, 10: 10, 25: 25} {
		s, terms := Account{Overdrawn: owes}, Terms{Consistency: Optimistic, Capacity: 10, Overdraft: 30}
		if s.overdraw(&terms, 4); s.Overdrawn != then || s.Spent != 4 {
			t.Errorf("owed %d, then %d, want %d", owes, s.Overdrawn, then)
		}
	}
}

// What a refused request takes back is what it has added to the debt: of one that is a
// whole limit already that is nothing.
func TestUntakeOfAWholeDebt(t *testing.T) {
	s, terms := Account{}, Terms{Capacity: 10}
	s.overdraw(&terms, 8)
	s.overdraw(&terms, 3)
	s.Untake(&Terms{}, Taken{Overdrawn: 3, Unowed: 1})
	if s.Overdrawn != 8 {
		t.Errorf("owes %d, want 8", s.Overdrawn)
	}
}

// A debt costs a key one limit, however long nobody answers.
func TestDebtIsOneLimit(t *testing.T) {
	for _, spec := range []limit.Spec{{Count: 100, Period: limit.Minute, Burst: 30}, {Algorithm: limit.FixedWindow, Count: 30, Period: limit.Minute}} {
		allow, local := newStory(t, spec, Leased), newStory(t, spec, Leased)
		for now := Millis(1000); now < 600_000; now += 60_000 {
			allow.account.overdraw(&allow.terms, 20)
			if !local.account.takeLocal(&local.terms, now, now+60_000, 20, 20) {
				t.Fatal("a share was refused")
			}
		}
		if allow.account.Overdrawn != 30 || local.account.Overdrawn != 30 {
			t.Errorf("%+v: owes %d and %d, want 30", spec, allow.account.Overdrawn, local.account.Overdrawn)
		}
	}
}
