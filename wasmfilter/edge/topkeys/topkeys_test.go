package topkeys

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"slices"
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

// top are the keys with the largest counts.
func (n naive) top(most int) (keys []uint64) {
	for key := range n {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b uint64) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
	return keys[:min(most, len(keys))]
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

// zipf draws keys of which the i-th comes in proportion to i^-1.1.
func zipf(seed uint64, keys uint64) *rand.Zipf {
	return rand.NewZipf(rand.New(rand.NewPCG(seed, 2)), 1.1, 1, keys-1)
}

// Of the 50 keys of a million that come most, the sketch names at least 45: after a burst, after a minute, and after
// others have taken their place.
func TestFindsTheTop(t *testing.T) {
	for seed := range uint64(2) {
		s, n, draw := New(), naive{}, zipf(seed, 1_000_000)
		for second := range 40 {
			moved := uint64(second/20) * 1_000_000 // later there are other keys
			for range 20_000 {
				key := draw.Uint64() + moved
				add(s, key)
				n[key] += One
			}
			if second%10 == 9 {
				found, top := 0, n.top(50)
				for _, k := range s.Top(nil)[:50] {
					if slices.Contains(top, binary.BigEndian.Uint64(k.Text)) {
						found++
					}
				}
				if found < 45 {
					t.Errorf("seed %d, second %d: %d of the top 50", seed, second, found)
				}
			}
			s.Decay()
			n.decay()
		}
		check(t, s, n)
	}
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
