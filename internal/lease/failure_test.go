package lease

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// A unit of the holder's own share goes back there when another rule denies the
// request that took it.
func TestUntakeLocalShare(t *testing.T) {
	var s Slot
	terms := Terms{Capacity: 10}
	if !s.TakeLocal(&terms, 1000, 2000, 5, 2) {
		t.Fatal("2 of 5 units were refused")
	}
	s.Untake(Taken{Overdrawn: 2, Local: true})
	if !s.TakeLocal(&terms, 1000, 2000, 5, 5) || s.TakeLocal(&terms, 1000, 2000, 5, 1) || s.Overdrawn != 5 {
		t.Errorf("the share was not whole again: overdrawn %d", s.Overdrawn)
	}
}

// An optimistic holder may owe more than one limit. A failure adds nothing to that,
// and takes nothing off.
func TestDebtOfAnOverdraft(t *testing.T) {
	for owes, then := range map[int64]int64{0: 4, 7: 10, 9: 10, 10: 10, 25: 25} {
		s, terms := Slot{Overdrawn: owes}, Terms{Consistency: Optimistic, Capacity: 10, Overdraft: 30}
		if s.Overdraw(&terms, 4); s.Overdrawn != then || s.Spent != 4 {
			t.Errorf("owed %d, then %d, want %d", owes, s.Overdrawn, then)
		}
	}
}

// A debt costs a key one limit, however long nobody answers.
func TestDebtIsOneLimit(t *testing.T) {
	for _, spec := range []limit.Spec{{Count: 100, Period: limit.Minute, Burst: 30}, {Algorithm: limit.FixedWindow, Count: 30, Period: limit.Minute}} {
		allow, local := newStory(t, spec, Leased), newStory(t, spec, Leased)
		for now := Millis(1000); now < 600_000; now += 60_000 {
			allow.slot.Overdraw(&allow.terms, 20)
			if !local.slot.TakeLocal(&local.terms, now, now+60_000, 20, 20) {
				t.Fatal("a share was refused")
			}
		}
		if allow.slot.Overdrawn != 30 || local.slot.Overdrawn != 30 {
			t.Errorf("%+v: owes %d and %d, want 30", spec, allow.slot.Overdrawn, local.slot.Overdrawn)
		}
	}
}
