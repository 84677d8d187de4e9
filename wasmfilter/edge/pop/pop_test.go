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
	store.Between = func() { // b is faster, once
		store.Between = nil
		b.NumberOf([]byte("acme"), 5)
	}
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
	if is, called := a.Override(lease.MaxOverrides + 1); is != 0 || called != "" {
		t.Errorf("a number that nobody has is %s of %d", called, is)
	}
}

// There is one leader, which keeps it; an idle worker takes it from one that serves requests. When it is gone another one takes
// over within a second, and one of an older plugin configuration, which keeps ticking while its listener drains, after five.
func TestLeader(t *testing.T) {
	store := tabletest.New()
	number := uint64(10)
	start := func(config uint64) *Leader {
		number += 2
		l := NewLeader(join(store, number), config)
		l.Enlist()
		return l
	}
	a, b := start(1), start(1)
	now := lease.Millis(1000)
	ticks := func(what string, d lease.Millis, want *Leader, all ...*Leader) {
		t.Helper()
		for end := now + d; now < end; now += 100 {
			for _, l := range all {
				l.Lead(now)
			}
		}
		for i, l := range all {
			if l.Leads != (l == want) {
				t.Errorf("%s: worker %d leads: %v", what, i, l.Leads)
			}
		}
	}
	ticks("the first to ask", 5000, a, a, b)
	a.Busy = true
	a.Lead(now)
	for range 20 {
		a.Busy = true
		ticks("the idle one", 100, b, b, a)
		b.Busy = false
	}
	for range 20 {
		a.Busy, b.Busy = true, true
		ticks("of busy ones, the one that leads", 100, b, b, a)
	}
	ticks("the other", 1100, a, a)
	c := start(2)
	ticks("the newest configuration", 100, c, a, b, c)
	if !a.Fenced() || !b.Fenced() || c.Fenced() {
		t.Error("not the workers of the old configuration are fenced")
	}
	ticks("the old one, not at once", 5800, nil, a)
	ticks("the old one when the new one is gone", 400, a, a)
	if again := start(1); again.Fenced() || a.Fenced() || !c.Fenced() {
		t.Error("not the worker of the configuration that is gone is fenced")
	}
}

// The time of day goes on from where it was set, and jitter keeps within a tenth.
func TestTimeAndChance(t *testing.T) {
	p := join(tabletest.New(), 2)
	p.SetClock(5000, 7*limit.Second)
	if at := p.TimeOfDay(6500); at != 8500*limit.Millisecond {
		t.Errorf("the time of day is %d", at)
	}
	seen := map[lease.Percent]bool{}
	for range 1000 {
		d := p.Jitter()
		if seen[d] = true; d < 90 || d > 110 || p.UpTo(3) > 3 {
			t.Fatalf("a jitter of %d", d)
		}
	}
	if len(seen) != 21 {
		t.Errorf("%d values of jitter", len(seen))
	}
}

// Workers agree on the process.
func TestProcess(t *testing.T) {
	store := tabletest.New()
	a, b := join(store, 6), Join(store, [6]uint64{9, 9, 9, 9, 8, 8})
	if a.Holder != b.Holder || a.Seed != b.Seed || a.Number == b.Number {
		t.Errorf("%+v and %+v are of two processes", a, b)
	}
	if alone := Join(tabletest.Nowhere{}, [6]uint64{1, 2, 3, 4, 5, 6}); alone.Holder != a.Holder || alone.Seed != a.Seed {
		t.Errorf("a worker without memory has the identity %+v", alone)
	}
}
