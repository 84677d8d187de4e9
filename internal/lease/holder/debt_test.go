package holder

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// What is reported keeps its number and size until it is acknowledged; what is admitted
// later goes into the next batch, with a larger number.
func TestDebtIsSealed(t *testing.T) {
	s := newStory(t, perMinute, lease.Exact)
	report := func(now lease.Millis, units int64, debt uint64) lease.Want {
		t.Helper()
		w := s.account.Ask(&s.terms, now, 1, 1, NoAsk)
		if w.Overdrawn != units || w.Debt != debt {
			t.Fatalf("at %d: reports %d as number %d, want %d as %d", now, w.Overdrawn, w.Debt, units, debt)
		}
		return w
	}
	answer := func(now lease.Millis, w lease.Want, g lease.Grant, owed int64) {
		t.Helper()
		if s.account.Apply(&s.terms, now, now, w, g, 0, 100); s.account.Overdrawn != owed {
			t.Fatalf("at %d after %+v: owes %d, want %d", now, g, s.account.Overdrawn, owed)
		}
	}
	report(1000, 0, 0)
	s.account.Owe(&s.terms, 5)
	first := report(1001, 5, 1001)
	s.account.Owe(&s.terms, 2)
	answer(1002, report(1002, 5, 1001), lease.Grant{Status: lease.Unavailable}, 7)
	answer(1003, report(1003, 5, 1001), lease.Grant{Status: lease.OK, Granted: 1, StillOwed: true}, 7)
	if w, some := s.account.Report(&s.terms, 1004); !some || w.Overdrawn != 5 || w.Debt != 1001 {
		t.Errorf("reports %+v, want the batch that was reported", w)
	}
	answer(1005, first, lease.Grant{Status: lease.OK}, 2)
	answer(1005, first, lease.Grant{Status: lease.OK}, 2) // it came twice
	second := report(1001, 2, 1002)                       // by a worker whose clock is behind
	answer(1006, first, lease.Grant{Status: lease.OK}, 2)
	s.account.Refund(&s.terms, Taken{Overdrawn: 1}) // what was reported may be charged by now
	answer(1006, second, lease.Grant{Status: lease.Denied}, 0)
	if s.account.Sealed.Matters(1002+debtMemory) || !s.account.Sealed.Matters(1001+debtMemory) {
		t.Error("the number of a batch is kept for a second after it was made, and no longer")
	}
}
