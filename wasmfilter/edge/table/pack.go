package table

import (
	"encoding/binary"
	"math/bits"

	"github.com/weirlimit/weir/internal/lease"
)

// Numbers are packed little endian. Each of these is one instruction: an entry is
// unpacked and packed for every request.
func put16(b []byte, v uint16) { binary.LittleEndian.PutUint16(b, v) }
func put32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
func put64(b []byte, v uint64) { binary.LittleEndian.PutUint64(b, v) }
func get16(b []byte) uint16    { return binary.LittleEndian.Uint16(b) }
func get32(b []byte) uint32    { return binary.LittleEndian.Uint32(b) }
func get64(b []byte) uint64    { return binary.LittleEndian.Uint64(b) }

// packTime keeps a time as milliseconds after base, 0 for base and before: 49 days,
// within which a page gets a new base.
func packTime(t, base lease.Millis) uint32 { return packUnits(int64(t - base)) }

func unpackTime(t uint32, base lease.Millis) lease.Millis {
	if t == 0 {
		return 0
	}
	return base + lease.Millis(t)
}

// packUnits cuts a number to what 32 bits hold, which is what a limit can be.
func packUnits(n int64) uint32 { return uint32(min(max(n, 0), 1<<32-1)) }

// packFloat keeps the 11 most significant bits of a number and rounds the rest
// down: the exponent in the upper 5 bits, the mantissa in the lower 11.
func packFloat(n int64) uint16 {
	u := packUnits(n)
	shift := max(0, bits.Len32(u)-11)
	return uint16(shift)<<11 | uint16(u>>shift)
}

func unpackFloat(f uint16) int64 { return int64(f&(1<<11-1)) << (f >> 11) }
