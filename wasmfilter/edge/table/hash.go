package table

import (
	"encoding/binary"
	"math/bits"
)

// Seed makes the hashes of one Envoy process unlike those of any other, so that
// no client can choose keys that fall into one page. It is random and shared by all
// workers.
type Seed [2]uint64

// Hash is SipHash-1-3 of id and key. It has enough rounds against hash flooding (Rust and
// Python use the same). It is one function because in WebAssembly, as Go compiles it, a
// call costs more than a round.
func (s Seed) Hash(id uint64, key []byte) uint64 {
	v0, v1 := s[0]^0x736f6d6570736575, s[1]^0x646f72616e646f6d
	v2, v3 := s[0]^0x6c7967656e657261, s[1]^0x7465646279746573
	last := uint64(len(key)+8) << 56
	for rest, m := key, id; ; rest = rest[8:] {
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
		if len(rest) < 8 {
			for i, c := range rest {
				last |= uint64(c) << (8 * i)
			}
			break
		}
		m = binary.LittleEndian.Uint64(rest)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xff
	for range 3 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
