package topkeys

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/rule"
)

// naive counts every key, as the sketch would if it had a counter for each.
type naive map[uint64]uint64

func (n naive) decay() {
	for key := range n {
		n[key] = decayed(n[key])
	}
}

// spread is a hash of a number, as that of a key is.
func spread(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func add(s *Sketch, key uint64) {
	s.Add(spread(key), uint32(key), int64(key), binary.BigEndian.AppendUint64(nil, key))
}

// check compares a sketch with the naive one.
func check(t interface{ Fatalf(string, ...any) }, s *Sketch, n naive) {
	all := s.Top(nil)
	listed, least := map[uint64]bool{}, uint64(0)
	for i, k := range all {
		key := binary.BigEndian.Uint64(k.Text)
		if n[key] > k.Count || n[key] < k.Count-k.Over || k.Over > k.Count || k.Rule != uint32(key) || k.Own != int64(key) {
			t.Fatalf("key %d came %d times: %+v", key, n[key], k)
		}
		if i > 0 && k.Count > all[i-1].Count {
			t.Fatalf("%d comes after %d", k.Count, all[i-1].Count)
		}
		if listed[key] {
			t.Fatalf("key %d is there twice", key)
		}
		listed[key], least = true, k.Count
	}
	for key, count := range n {
		if !listed[key] && (count > least || len(all) < counters && count > 0) {
			t.Fatalf("key %d came %d times and has no counter; the least is %d", key, count, least)
		}
	}
}

// The bounds hold at any time, whatever comes: few keys and many, floods of new ones, and silence.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := New(), naive{}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range rapid.IntRange(1, 12).Draw(t, "seconds") {
			keys := rapid.SampledFrom([]uint64{1, 10, counters - 1, counters, counters + 1, 2 * counters, 1 << 40}).Draw(t, "keys")
			for range rapid.SampledFrom([]int{0, 10, 2000, 5000}).Draw(t, "requests") {
				key := rnd.Uint64N(keys)
				add(s, key)
				n[key] += One
			}
			check(t, s, n)
			if rapid.Bool().Draw(t, "decays") {
				s.Decay()
				n.decay()
				check(t, s, n)
			}
		}
	})
}

// The longest key is kept whole.
func TestLongestKey(t *testing.T) {
	s := New()
	s.Add(1, 7, 0, make([]byte, rule.MaxKey))
	if top := s.Top(nil); len(top) != 1 || len(top[0].Text) != rule.MaxKey || top[0].Rule != 7 {
		t.Errorf("%+v", top)
	}
}

// Two sketches have at most 256 KB.
func TestSize(t *testing.T) {
	if n := 2 * unsafe.Sizeof(Sketch{}); n > 256_000 {
		t.Errorf("two have %d bytes", n)
	}
}
