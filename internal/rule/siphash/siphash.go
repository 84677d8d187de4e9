// Package siphash is SipHash-2-4 with 128 bits of output: a hash under a secret. Without the secret nobody can find the hashed
// text, or two texts with the same hash.
package siphash

import (
	"encoding/binary"
	"math/bits"
)

// Sum is the hash of a text under a key.
func Sum(key *[16]byte, text []byte) (out [16]byte) {
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	s := state{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(text)) << 56
	for ; len(text) >= 8; text = text[8:] {
		s.add(binary.LittleEndian.Uint64(text))
	}
	for i, b := range text {
		last |= uint64(b) << (8 * i)
	}
	s.add(last)
	s[2] ^= 0xee
	binary.LittleEndian.PutUint64(out[:], s.end())
	s[1] ^= 0xdd
	binary.LittleEndian.PutUint64(out[8:], s.end())
	return out
}

type state [4]uint64

func (s *state) add(m uint64) {
	s[3] ^= m
	s.rounds(2)
	s[0] ^= m
}

func (s *state) end() uint64 {
	s.rounds(4)
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

//go:noinline
func (s *state) rounds(n int) {
	v0, v1, v2, v3 := s[0], s[1], s[2], s[3]
	for range n {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	*s = state{v0, v1, v2, v3}
}
