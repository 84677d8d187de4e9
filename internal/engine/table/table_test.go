package table

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func policy(t testing.TB, rule string) *engine.Policy {
	l := fatal.Get(limit.New(limit.Spec{Count: 1, Period: limit.Second}))(t)
	return engine.NewPolicy(rule, 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
}

// The table is a map: any sequence of adding, finding, removing and scanning
// agrees with one, in a shard so small that cells collide and wrap round.
func TestTableIsAMap(t *testing.T) {
	policies := []*engine.Policy{policy(t, "a"), policy(t, "b")}
	long := "a key that is too long to lie in its entry, number "
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "max keys")
		table := New[int](most, 1<<20)
		s := &table.shards[0]
		twin := map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.IntRange(0, 60).Draw(t, "key")
			p, key := policies[n%2], fmt.Sprint("k", n)
			if n%3 == 0 {
				key = long + key
			}
			name := p.Rule + key
			hash := table.Hash(p, []byte(key))
			e := s.Find(hash, p, []byte(key))
			value, known := twin[name]
			switch {
			case known != (e != nil):
				t.Fatalf("%s: known %v, found %v", name, known, e != nil)
			case known && (e.Value != value || string(e.Key()) != key || e.Policy != p):
				t.Fatalf("%s: found %q of %s with %d, want %d", name, e.Key(), e.Policy.Rule, e.Value, value)
			case known && n%5 < 2:
				s.Remove(e)
				delete(twin, name)
			case !known:
				if e := s.Add(hash, p, []byte(key)); e != nil {
					e.Value = n
					twin[name] = n
				} else if len(twin) < most {
					t.Fatalf("no room for key %d of %d", len(twin)+1, most)
				}
			}
			if len(twin) > most {
				t.Fatalf("%d keys, at most %d", len(twin), most)
			}
		}
		seen := map[string]bool{}
		s.Scan(int(s.made), func(e *Entry[int]) { seen[e.Policy.Rule+string(e.Key())] = true })
		if len(seen) != len(twin) {
			t.Fatalf("a whole round saw %d of %d keys", len(seen), len(twin))
		}
		walked := 0
		table.Walk(func(e *Entry[int]) bool {
			if !seen[e.Policy.Rule+string(e.Key())] {
				t.Fatalf("walked to %q, which is not there", e.Key())
			}
			walked++
			return walked%3 == 0
		}, func() bool { return true })
		if walked != len(twin) {
			t.Fatalf("walked to %d of %d keys", walked, len(twin))
		}
		if keys, size := table.Size(); keys != len(twin) || keys == 0 && size != 0 {
			t.Fatalf("size is %d keys in %d bytes, want %d keys", keys, size, len(twin))
		}
	})
}

func TestBoundInBytes(t *testing.T) {
	p := policy(t, "r")
	table := New[int](1000, 1000)
	s := &table.shards[0]
	keys := 0
	for s.Add(table.Hash(p, []byte{byte(keys)}), p, []byte{byte(keys)}) != nil {
		keys++
	}
	if keys == 0 || s.Over(0) || !s.Over(s.weight()) {
		t.Errorf("%d keys in %d of 1000 bytes", keys, s.bytes)
	}
	s.Took(-s.weight())
	if s.Add(table.Hash(p, []byte("x")), p, []byte("x")) == nil {
		t.Error("what was given up makes no room")
	}
}

func TestShards(t *testing.T) {
	p := policy(t, "r")
	table := New[int](1_000_000, 1<<40)
	if n := len(table.shards); n != mostShards {
		t.Fatalf("%d shards for a million keys, want %d", n, mostShards)
	}
	for i := range 100_000 {
		key := fmt.Append(nil, i)
		hash := table.Hash(p, key)
		if table.Shard(hash).Add(hash, p, key) == nil {
			t.Fatalf("no room for key %d of a million", i)
		}
	}
	for i := range table.shards {
		if n := table.shards[i].index.used; n < 250 || n > 550 {
			t.Errorf("shard %d has %d of 100000 keys in 256 shards", i, n)
		}
	}
}
