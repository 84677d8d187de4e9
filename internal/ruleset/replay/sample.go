package replay

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/rule/siphash"
)

// sample keeps a value for each key of all rules. When it is full it drops every second key, by its hash, and takes no more of
// that half: of a key that it has, it has seen all requests.
type sample[T any] struct {
	most   int  // keys
	halved uint // how often half of the keys were dropped
	of     map[sampled]T
}

// sampled names a key of a rule.
type sampled struct {
	rule int
	hash uint64
}

// hashOf is the hash of a key of a rule. It is the same in every run, so that the same log gives the same sample.
func hashOf(rule int, key []byte) uint64 {
	var seed [16]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(rule))
	sum := siphash.Sum(&seed, key)
	return binary.LittleEndian.Uint64(sum[:])
}

// has reports whether the sample has keys of this hash.
func (s *sample[T]) has(hash uint64) bool { return hash&(1<<s.halved-1) == 0 }

// weight is how many keys each key of the sample stands for; 1: it has all.
func (s *sample[T]) weight() int64 { return 1 << s.halved }

// put keeps the value of a key that the sample has.
func (s *sample[T]) put(k sampled, value T) {
	if s.of == nil {
		s.of = map[sampled]T{}
	}
	for s.of[k] = value; len(s.of) > s.most; {
		s.halved++
		for k := range s.of {
			if !s.has(k.hash) {
				delete(s.of, k)
			}
		}
	}
}
