package lease

import (
	"math"
	"testing"
)

func TestCaller(t *testing.T) {
	var c Caller
	for _, row := range []struct {
		seq  uint64
		want bool
	}{{1, true}, {1, false}, {3, true}, {2, true}, {2, false}, {1026, true}, {3, false}, {4, true}, {2, false},
		{1 << 40, true}, {1<<40 - 1024, false}, {1<<40 - 1023, true}, {1<<40 - 1023, false}, {1 << 40, false}, {1 << 63, true}, {1<<63 - 1, true},
		{math.MaxUint64 - 2, true}, {math.MaxUint64, true}, {math.MaxUint64 - 1, true}, {math.MaxUint64, false}, {math.MaxUint64 - 1, false}, {1, false}} {
		if got := c.Accept(row.seq); got != row.want {
			t.Errorf("seq %d accepted: %v", row.seq, got)
		}
	}
}

// What a reply states of a key's limit is its limit, or the number of the override by which it has that.
func TestOwnLimit(t *testing.T) {
	terms := Terms{Capacity: 100}
	for _, c := range []struct {
		grant  Grant
		own    int64 // -1: whatever has the number
		number uint16
	}{
		{Grant{Limit: 100}, 0, 0}, {Grant{Limit: 99}, 100, 0}, {Grant{}, 1, 0},
		{Grant{Limit: Unlimited}, Unlimited, 0}, {Grant{Limit: Unlimited - 1}, Unlimited, 0},
		{Grant{Limit: 100, Override: 1}, -1, 1}, {Grant{Limit: 7, Override: MaxOverrides}, -1, MaxOverrides},
	} {
		own := terms.OwnLimit(&c.grant)
		if c.own >= 0 && own != c.own || Override(own) != c.number || c.number > 0 && (own <= 0 || own >= Unlimited) {
			t.Errorf("%+v: %d of the override %d, want %d of %d", c.grant, own, Override(own), c.own, c.number)
		}
	}
	for limit := int64(Unlimited - MaxOverrides - 10); limit < Unlimited-1; limit++ { // nearly as large as limits can be
		if own := terms.OwnLimit(&Grant{Limit: limit}); Override(own) != 0 || own > limit+1 || own < limit-MaxOverrides {
			t.Errorf("a limit of %d is taken for %d, of the override %d", limit, own, Override(own))
		}
	}
}
