package edge

import (
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// faster is a store in which another worker changes a value first, once.
type faster struct {
	*memory
	other func()
}

func (s *faster) Set(key, value []byte, version uint32) table.Outcome {
	if other := s.other; other != nil {
		s.other = nil
		other()
	}
	return s.memory.Set(key, value, version)
}

// All workers give a name with a limit one number, whichever of them meets it first, and no more than so many have one.
func TestOverridesHaveNumbers(t *testing.T) {
	store := newMemory()
	raced := &faster{memory: store}
	a, b := pop.Join(raced, [6]uint64{1, 2, 3, 4, 5, 6}), pop.Join(store, [6]uint64{1, 2, 3, 4, 7, 8})
	raced.other = func() { b.NumberOf([]byte("acme"), 5) }
	numbers := map[uint16]string{}
	numberOf := func(name string, units int64) bool {
		t.Helper()
		n := a.NumberOf([]byte(name), units)
		if n == 0 {
			return false
		}
		if other := numbers[n]; other != "" || n > lease.MaxOverrides {
			t.Errorf("%s of %d has the number %d, as %s", name, units, n, other)
		}
		numbers[n] = name
		if is, called := b.Override(n); is != units || called != name {
			t.Errorf("%s of %d is %s of %d for another worker", name, units, called, is)
		}
		if again := b.NumberOf([]byte(name), units); again != n {
			t.Errorf("%s of %d has the numbers %d and %d", name, units, n, again)
		}
		return true
	}
	for _, units := range []int64{5, 6, 0, 1<<32 - 2} {
		if !numberOf("acme", units) {
			t.Errorf("acme of %d has no number", units)
		}
	}
	found := 0
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
