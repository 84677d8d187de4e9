package holder

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// story drives one account through a trace: each line states when, what, and what has
// to come of it.
type story struct {
	t       *testing.T
	terms   lease.Terms
	account State
	sent    lease.Millis
	want    lease.Want
}

func newStory(t *testing.T, s limit.Spec, c lease.Consistency) *story {
	t.Helper()
	return &story{t: t, terms: lease.NewTerms(fatal.Get(limit.New(s))(t), c, 0, 0, 0)}
}

var perMinute = limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Minute}

func (s *story) take(now lease.Millis, cost int64, verdict Verdict, asks Asks) decision {
	s.t.Helper()
	d := s.account.Take(&s.terms, now, cost)
	if d.Verdict != verdict || d.Ask != asks {
		s.t.Fatalf("at %d a request of %d: verdict %d asking %d, not %d asking %d; account %+v", now, cost, d.Verdict, d.Ask, verdict, asks, s.account)
	}
	return d
}

// ask sends an ask for what waits and checks how much it wants.
func (s *story) ask(now lease.Millis, waiting, want int64, behind Asks) lease.Want {
	s.t.Helper()
	s.want, s.sent = s.account.Ask(&s.terms, now, min(waiting, 1), waiting, behind), now
	if s.want.Want != want {
		s.t.Fatalf("at %d wants %d, not %d; account %+v", now, s.want.Want, want, s.account)
	}
	return s.want
}

// reply applies the answer to the last ask; those who waited take what they can.
func (s *story) reply(now lease.Millis, g lease.Grant) Part {
	s.t.Helper()
	return s.account.Apply(&s.terms, now, s.sent, s.want, g, max(0, g.Granted-s.want.Waiting), 100)
}

// lots checks the units of the lots that hold any, the older first.
func (s *story) lots(now lease.Millis, units ...int64) {
	s.t.Helper()
	var held []int64
	for _, lot := range s.account.Leases {
		if lot.Units > 0 {
			held = append(held, lot.Units)
		}
	}
	if !slices.Equal(held, units) {
		s.t.Fatalf("at %d lots of %v, not %v", now, held, units)
	}
}

func ok(granted, left int64) lease.Grant {
	return lease.Grant{Status: lease.OK, Granted: granted, Lease: 7, TTL: 1000, Remaining: left, Reset: 30_000}
}

func TestSlowStart(t *testing.T) {
	s := newStory(t, perMinute, lease.Leased)
	s.take(1000, 1, Wait, NoAsk) // a key never seen
	s.ask(1000, 1, 1, NoAsk)
	s.reply(1004, ok(1, 999)) // used up at once: want doubles
	s.take(1010, 1, Wait, NoAsk)
	s.ask(1010, 1, 2, NoAsk)
	s.reply(1014, ok(2, 997))
	s.take(1020, 1, Admit, TopUp) // the spare one; nobody has to wait for the next lease
	s.ask(1020, 0, 4, TopUp)
	s.take(1021, 1, Wait, NoAsk) // the ask is out
	s.reply(1024, ok(4, 993))
	s.lots(1024, 4)
	s.take(1030, 1, Admit, NoAsk)
	s.take(1030, 1, Admit, NoAsk)
	s.take(1030, 1, Admit, TopUp) // a quarter left
	s.ask(1030, 0, 4, TopUp)      // not used up yet: no doubling
	s.reply(1034, ok(4, 989))
	s.lots(1034, 1, 4)
	s.take(1040, 1, Admit, NoAsk)
	s.lots(1040, 4) // the older first
}

func TestWantIsBoundedByUse(t *testing.T) {
	s := newStory(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100_000, Period: limit.Minute}, lease.Leased)
	s.account = State{WantLog2: 20, Asked: 1000, Spent: 50}
	s.ask(1100, 0, 3125, TopUp) // at least a 32nd of the limit
	s.account = State{WantLog2: 20, Asked: 1000, Spent: 1000}
	s.ask(1100, 0, 6000, TopUp) // what six lease intervals like the last one use
	if s.account.WantLog2 != 13 {
		t.Errorf("want grows on from 2^%d", s.account.WantLog2)
	}
	s.account = State{WantLog2: 20, Asked: 1000, Denied: 1000}
	s.ask(1100, 0, 6000, TopUp) // what was rejected is demand too
	s.account = State{WantLog2: 3, Asked: 1000}
	s.ask(1100, 50, 50, NoAsk) // never less than waits
}

func TestLotsOfDifferentLeasesStayApart(t *testing.T) {
	s := newStory(t, perMinute, lease.Leased)
	s.account.Leases = [2]Lease{{Units: 2, Expiry: 1500, Lease: 1}, {Units: 3, Expiry: 2500, Lease: 2}}
	d := s.take(1400, 4, Admit, NoAsk) // of both, the older first
	if d.Taken.Parts != [2]Part{{2, 1, 1500}, {2, 2, 2500}} {
		t.Errorf("took %+v", d.Taken.Parts)
	}
	if back := s.account.Refund(&s.terms, d.Taken); back != [2]Part{} {
		t.Errorf("gives back %+v", back)
	}
	s.lots(1400, 2, 3)

	s.sent, s.want = 1400, lease.Want{Want: 8}
	third := ok(8, 900)
	if back := s.reply(1404, third); back.Units != 8 {
		t.Errorf("a third lease found room: %+v", s.account.Leases)
	}
	s.sent = 1500
	if back := s.reply(1504, third); back != (Part{2, 1, 1500}) {
		t.Errorf("gave %+v up for a new lease, not what had lapsed", back)
	}
	s.lots(1504, 3, 8)

	d = s.take(1504, 3, Admit, NoAsk)
	s.sent = 1600
	s.reply(1604, ok(4, 890))
	if back := s.account.Refund(&s.terms, d.Taken); back[1] != (Part{}) || back[0] != (Part{3, 2, 2500}) {
		t.Errorf("units whose lot is gone have to go back: %+v", back)
	}
}

func TestNextWindow(t *testing.T) {
	s := newStory(t, perMinute, lease.Leased)
	s.account.WantLog2 = 3
	s.account.Leases[0] = Lease{Units: 8, Expiry: 10_000, Lease: 1}
	s.account.Reset, s.account.Size = 10_000, 8
	s.take(9799, 1, Admit, NoAsk)
	s.take(9800, 1, Admit, Ahead) // 200 ms before the end
	if w := s.ask(9800, 0, 8, Ahead); !w.Next || w.Need != 0 {
		t.Errorf("asked %+v", w)
	}
	next := lease.Grant{Status: lease.OK, Granted: 8, Lease: 2, StartsIn: 195, TTL: 1195, Remaining: 100, Reset: 196}
	s.reply(9804, next)
	s.lots(9804, 6, 8)
	s.take(9805, 1, Admit, NoAsk) // holds the next one already
	if s.account.Available(9999) != 5 {
		t.Errorf("%d may be spent in the old window, not 5", s.account.Available(9999))
	}
	s.take(10_000, 1, Admit, NoAsk) // now is rounded down, so one later than 9804+195
	if s.account.Available(9999) != 5 || s.account.Leases[1].Units != 7 {
		t.Errorf("lots %+v", s.account.Leases)
	}
}

func TestFresh(t *testing.T) {
	s := newStory(t, perMinute, lease.Leased)
	for _, row := range []struct {
		now   lease.Millis
		fresh bool
	}{{1000, true}, {1050, false}, {1099, false}, {1100, true}, {1300, true}} {
		if w := s.account.Ask(&s.terms, row.now, 1, 1, NoAsk); w.Fresh != row.fresh {
			t.Errorf("at %d fresh is %v", row.now, w.Fresh)
		}
	}
}

// What one of those who share an account takes ahead is spent for the others, and comes back like
// what another rule denied. A lot of few units stays whole.
func TestSublet(t *testing.T) {
	for _, c := range []struct{ units, sublet int64 }{{7, 0}, {8, 2}, {1000, 250}} {
		a := State{Leases: [2]Lease{{Units: c.units, Expiry: 2000, Lease: 7}}}
		before := a
		part := a.Sublet(1000)
		if part.Units != c.sublet || a.Available(1000) != c.units-c.sublet || a.Spent != c.sublet {
			t.Errorf("of %d units: %+v, and %+v is left", c.units, part, a)
		}
		if back := a.Refund(&lease.Terms{}, Taken{Parts: [2]Part{part}}); a != before || back != [2]Part{} {
			t.Errorf("of %d units: %+v after they came back, want %+v; %+v goes to the granter", c.units, a, before, back)
		}
		if late := a.Sublet(2000); late.Units != 0 {
			t.Errorf("%d units of a lease that is over", late.Units)
		}
	}
}

// What an ask on behalf of somebody who waits gives back: the live lots of one lease, the
// larger first, and what has lapsed of it. Nothing that is not its to give, and not when
// nobody waits.
func TestAsksOfferWhatIsLive(t *testing.T) {
	live := func(units int64, id uint32) Lease { return Lease{Units: units, Expiry: 9000, Lease: id} }
	lapsed := func(units int64, id uint32) Lease { return Lease{Units: units, Expiry: 900, Lease: id} }
	next := Lease{Units: 5, From: 2000, Expiry: 9000, Lease: 8}
	share := Lease{Units: 5, Expiry: 9000, Local: true}
	for _, row := range []struct {
		what  string
		c     lease.Consistency
		need  int64
		lots  [2]Lease
		units int64
		lease uint32
	}{
		{"one lease", lease.Leased, 9, [2]Lease{live(2, 7), live(3, 7)}, 5, 7},
		{"the larger of two", lease.Leased, 9, [2]Lease{live(2, 6), live(3, 7)}, 3, 7},
		{"the live before the lapsed", lease.Leased, 9, [2]Lease{lapsed(6, 6), live(3, 7)}, 3, 7},
		{"what has lapsed of the same", lease.Leased, 9, [2]Lease{lapsed(6, 7), live(3, 7)}, 9, 7},
		{"not of the next window", lease.Leased, 9, [2]Lease{live(2, 7), next}, 2, 7},
		{"not its own share", lease.Leased, 9, [2]Lease{share, live(3, 7)}, 3, 7},
		{"nobody waits", lease.Leased, 0, [2]Lease{lapsed(6, 6), live(3, 7)}, 6, 6},
		{"an exact rule keeps nothing", lease.Exact, 9, [2]Lease{live(2, 7)}, 0, 0},
	} {
		terms := lease.NewTerms(fatal.Get(limit.New(perMinute))(t), row.c, 0, 0, 0)
		s := State{Leases: row.lots, Left: 20, Least: 21, Asked: 900, Size: 100, WantLog2: 3}
		w := s.Ask(&terms, 1000, row.need, row.need, NoAsk)
		if w.Unused != row.units || w.Lease != row.lease {
			t.Errorf("%s: gives back %d of lease %d, want %d of %d", row.what, w.Unused, w.Lease, row.units, row.lease)
		}
		if s.Left != 20+row.units || s.Least != 21+row.units {
			t.Errorf("%s: counts on %d above and denies %d", row.what, s.Left, s.Least)
		}
		if row.need > 0 && row.units > 0 && s.WantLog2 < 4 && w.Want < 16 {
			t.Errorf("%s: an offer is no reason to want less: 2^%d, %d", row.what, s.WantLog2, w.Want)
		}
	}
}

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
