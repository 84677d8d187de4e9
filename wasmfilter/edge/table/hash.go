package table

import (
	"encoding/binary"
	"math/bits"
)

// Seed makes the hashes of one Envoy process unlike those of any other, so that
// nobody can choose keys that fall into one page. It is random and shared by all
// workers.
type Seed [2]uint64

// Hash is SipHash-1-3 of id and key: enough rounds against flooding, which is
// all it is for (Rust's and Python's tables use the same).
func (s Seed) Hash(id uint64, key []byte) uint64 {
	v := sip{
		s[0] ^ 0x736f6d6570736575,
		s[1] ^ 0x646f72616e646f6d,
		s[0] ^ 0x6c7967656e657261,
		s[1] ^ 0x7465646279746573,
	}
	v.block(id)
	last := uint64(len(key)+8) << 56
	for ; len(key) >= 8; key = key[8:] {
		v.block(binary.LittleEndian.Uint64(key))
	}
	for i, c := range key {
		last |= uint64(c) << (8 * i)
	}
	v.block(last)
	v[2] ^= 0xff
	v.round()
	v.round()
	v.round()
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

type sip [4]uint64

func (v *sip) block(m uint64) {
	v[3] ^= m
	v.round()
	v[0] ^= m
}

func (v *sip) round() {
	v[0] += v[1]
	v[1] = bits.RotateLeft64(v[1], 13) ^ v[0]
	v[0] = bits.RotateLeft64(v[0], 32)
	v[2] += v[3]
	v[3] = bits.RotateLeft64(v[3], 16) ^ v[2]
	v[0] += v[3]
	v[3] = bits.RotateLeft64(v[3], 21) ^ v[0]
	v[2] += v[1]
	v[1] = bits.RotateLeft64(v[1], 17) ^ v[2]
	v[2] = bits.RotateLeft64(v[2], 32)
}
