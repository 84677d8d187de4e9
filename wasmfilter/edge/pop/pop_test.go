package pop

import (
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// join makes a worker of a PoP.
func join(s *tabletest.Store, number uint64) *PoP {
	return Join(s, [6]uint64{1, 2, 3, 4, number, number})
}

// All workers give a name with a limit one number, whichever of them meets it first, and no more than so many have one.
func TestOverridesHaveNumbers(t *testing.T) {
	store := tabletest.New()
	a, b := join(store, 6), join(store, 8)
	store.Between = func() { b.NumberOf([]byte("acme"), 5) } // b is faster
	a.NumberOf([]byte("acme"), 5)
	store.Between = nil
	numbers, found := map[uint16]string{}, 0
	numberOf := func(name string, units int64) bool {
		t.Helper()
		n := a.NumberOf([]byte(name), units)
		if n == 0 {
			return false
		}
		is, called := b.Override(n)
		if other := numbers[n]; other != "" || n > lease.MaxOverrides || is != units || called != name || b.NumberOf([]byte(name), units) != n {
			t.Errorf("%s of %d has the number %d, as %q; for another worker it is %s of %d", name, units, n, other, called, is)
		}
		numbers[n] = name
		return true
	}
	for _, units := range []int64{5, 6, 0, 1<<32 - 2} {
		if !numberOf("acme", units) {
			t.Errorf("acme of %d has no number", units)
		}
	}
	for i := range 3000 {
		if numberOf("n"+strconv.Itoa(i), 9) {
			found++
		} else if i < 400 {
			t.Errorf("the name %d has no number", i)
		}
	}
	if found+4 > lease.MaxOverrides || found < lease.MaxOverrides*9/10 {
		t.Errorf("%d names have a number", found)
	}
	store.Set(keyOverride(7), []byte{5, 0, 0, 0}, 0)
	if is, called := a.Override(7); is != 5 || called != "" {
		t.Errorf("an override without a name is %q of %d", called, is)
	}
	if is, called := a.Override(lease.MaxOverrides + 1); is != 0 || called != "" {
		t.Errorf("a number that nobody has is %s of %d", called, is)
	}
}

// A worker leads if nobody does, if it is idle and the leader is not, or if its plugin configuration is newer. The leader writes
// its record anew after half a second. A worker of an older configuration takes over when there was no leader for 5 s.
func TestLeader(t *testing.T) {
	const me, other = 11, 21
	for _, c := range []struct {
		record []uint64 // number of the leader, until when, its generation, whether it serves requests; nil: there is none
		fenced bool     // a newer configuration is at work
		busy   bool
		now    lease.Millis
		leads  bool
		after  [4]uint64 // the record
	}{
		{nil, false, false, 1000, true, [4]uint64{me, 2000, 1, 0}},
		{nil, true, false, 1000, false, [4]uint64{}},
		{[]uint64{other, 2000, 1, 0}, false, false, 1999, false, [4]uint64{other, 2000, 1, 0}},
		{[]uint64{other, 2000, 1, 0}, false, false, 2000, true, [4]uint64{me, 3000, 1, 0}},
		{[]uint64{other, 2000, 1, 1}, false, false, 1000, true, [4]uint64{me, 2000, 1, 0}},
		{[]uint64{other, 2000, 1, 1}, false, true, 1000, false, [4]uint64{other, 2000, 1, 1}},
		{[]uint64{other, 2000, 1, 0}, false, true, 1000, false, [4]uint64{other, 2000, 1, 0}},
		{[]uint64{other, 2000, 0, 0}, false, false, 1000, true, [4]uint64{me, 2000, 1, 0}},
		{[]uint64{me, 2000, 1, 0}, false, false, 1499, true, [4]uint64{me, 2000, 1, 0}},
		{[]uint64{me, 2000, 1, 0}, false, false, 1500, true, [4]uint64{me, 2500, 1, 0}},
		{[]uint64{me, 2000, 1, 0}, false, true, 1499, true, [4]uint64{me, 2499, 1, 1}},
		{[]uint64{other, 2000, 2, 0}, true, false, 6999, false, [4]uint64{other, 2000, 2, 0}},
		{[]uint64{other, 2000, 2, 0}, true, false, 7000, true, [4]uint64{me, 8000, 3, 0}},
		{[]uint64{9}, false, false, 1000, true, [4]uint64{me, 2000, 1, 0}}, // it cannot be read
	} {
		store := tabletest.New()
		l, again := NewLeader(join(store, 10), 1), NewLeader(join(store, 12), 1)
		l.Enlist()
		if again.Enlist(); c.fenced {
			NewLeader(join(store, 30), 2).Enlist()
		}
		if c.record != nil {
			l.pop.SetRecord(keyLeader, 0, c.record...)
		}
		if l.Fenced() != c.fenced || again.Fenced() != c.fenced {
			t.Errorf("%+v: fenced %v", c, l.Fenced())
		}
		var after [4]uint64
		l.Busy = c.busy
		leads := l.Lead(c.now)
		if l.pop.Record(keyLeader, after[:]); leads != c.leads || l.Leads != leads || after != c.after || l.Busy {
			t.Errorf("%+v: leads %v, record %v", c, leads, after)
		}
		if leads && l.Fenced() {
			t.Errorf("%+v: the leader is fenced", c)
		}
	}
}

// The time of day goes on from where it was set, and chance keeps within its bounds and meets both.
func TestTimeAndChance(t *testing.T) {
	p := join(tabletest.New(), 2)
	p.SetClock(5000, 7*limit.Second)
	if at := p.TimeOfDay(6500); at != 8500*limit.Millisecond {
		t.Errorf("the time of day is %d", at)
	}
	jitter, chance := map[lease.Percent]bool{}, map[uint64]bool{}
	for range 1000 {
		jitter[p.Jitter()], chance[p.UpTo(3)] = true, true
	}
	if len(jitter) != 21 || !jitter[90] || !jitter[110] || len(chance) != 4 || !chance[0] || !chance[3] {
		t.Errorf("jitter %v, chance %v", jitter, chance)
	}
}

// Workers agree on the process.
func TestProcess(t *testing.T) {
	store := tabletest.New()
	a, b := join(store, 6), Join(store, [6]uint64{9, 9, 9, 9, 8, 8})
	if a.Holder != b.Holder || a.Seed != b.Seed || a.Number == b.Number {
		t.Errorf("%+v and %+v are of two processes", a, b)
	}
	store.Set(keyProcess, make([]byte, 5), 0) // which nobody wrote
	if broken := join(store, 6); broken.Holder != a.Holder || broken.Seed != a.Seed {
		t.Errorf("beside a broken record a worker has the identity %+v", broken)
	}
	if alone := Join(new(tabletest.Store), [6]uint64{1, 2, 3, 4, 5, 6}); alone.Holder != a.Holder || alone.Seed != a.Seed {
		t.Errorf("a worker without memory has the identity %+v", alone)
	}
}
