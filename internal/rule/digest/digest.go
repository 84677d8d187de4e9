// Package digest makes the hash of keys and versions.
//
// It is part of the Envoy filter, see package rule.
package digest

import (
	"encoding/binary"
	"math/bits"
)

// Sum is BLAKE2b of RFC 7693 with 16 bytes of output and no key. It has to be strong: a
// long key has parts that clients choose and parts that they do not, and a client that
// finds another key with the same hash could use somebody else's counter. The strong hashes
// of the standard library would make the filter a third larger.
func Sum(text []byte) [16]byte {
	h := blakeIV
	h[0] ^= 0x01010000 ^ 16 // no key, one leaf, 16 bytes
	var block [blakeBlock]byte
	size := uint64(len(text))
	for length := uint64(0); ; {
		n := copy(block[:], text)
		clear(block[n:])
		text, length = text[n:], length+uint64(n)
		blakeCompress(&h, &block, length, len(text) == 0)
		if length == size {
			break
		}
	}
	var out [16]byte
	binary.LittleEndian.PutUint64(out[:], h[0])
	binary.LittleEndian.PutUint64(out[8:], h[1])
	return out
}

const blakeBlock = 128 // bytes

var blakeIV = [8]uint64{
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
}

// blakeOrder is the order in which the rounds take the words of a block; rounds 10 and 11
// take them as rounds 0 and 1 do.
var blakeOrder = [10][16]uint8{
	{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	{14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
	{11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
	{7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
	{9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
	{2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
	{12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
	{13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
	{6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
	{10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}

// blakeCompress adds a block to h; length is that of the text up to the block's end.
func blakeCompress(h *[8]uint64, block *[blakeBlock]byte, length uint64, last bool) {
	var m [16]uint64
	for i := range m {
		m[i] = binary.LittleEndian.Uint64(block[8*i:])
	}
	v0, v1, v2, v3, v4, v5, v6, v7 := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	v8, v9, v10, v11 := blakeIV[0], blakeIV[1], blakeIV[2], blakeIV[3]
	v12, v13, v14, v15 := blakeIV[4]^length, blakeIV[5], blakeIV[6], blakeIV[7]
	if last {
		v14 = ^v14
	}
	for round := range 12 {
		s := &blakeOrder[round%10]
		v0, v4, v8, v12 = blakeMix(v0, v4, v8, v12, m[s[0]&15], m[s[1]&15])
		v1, v5, v9, v13 = blakeMix(v1, v5, v9, v13, m[s[2]&15], m[s[3]&15])
		v2, v6, v10, v14 = blakeMix(v2, v6, v10, v14, m[s[4]&15], m[s[5]&15])
		v3, v7, v11, v15 = blakeMix(v3, v7, v11, v15, m[s[6]&15], m[s[7]&15])
		v0, v5, v10, v15 = blakeMix(v0, v5, v10, v15, m[s[8]&15], m[s[9]&15])
		v1, v6, v11, v12 = blakeMix(v1, v6, v11, v12, m[s[10]&15], m[s[11]&15])
		v2, v7, v8, v13 = blakeMix(v2, v7, v8, v13, m[s[12]&15], m[s[13]&15])
		v3, v4, v9, v14 = blakeMix(v3, v4, v9, v14, m[s[14]&15], m[s[15]&15])
	}
	h[0], h[1], h[2], h[3] = h[0]^v0^v8, h[1]^v1^v9, h[2]^v2^v10, h[3]^v3^v11
	h[4], h[5], h[6], h[7] = h[4]^v4^v12, h[5]^v5^v13, h[6]^v6^v14, h[7]^v7^v15
}

func blakeMix(a, b, c, d, x, y uint64) (uint64, uint64, uint64, uint64) {
	a += b + x
	d = bits.RotateLeft64(d^a, -32)
	c += d
	b = bits.RotateLeft64(b^c, -24)
	a += b + y
	d = bits.RotateLeft64(d^a, -16)
	c += d
	return a, bits.RotateLeft64(b^c, -63), c, d
}

// Append appends the digest of a text as 32 hexadecimal digits.
func Append(dst, text []byte) []byte { return AppendHex(dst, Sum(text)) }

// AppendHex appends a hash as 32 hexadecimal digits.
func AppendHex(dst []byte, sum [16]byte) []byte {
	const hex = "0123456789abcdef"
	for _, b := range sum {
		dst = append(dst, hex[b>>4], hex[b&15])
	}
	return dst
}
