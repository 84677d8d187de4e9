package table

import (
	"encoding/binary"
	"math/bits"

	"github.com/weirlimit/weir/internal/lease"
)

// writer packs numbers, little endian. Times are 32 bits of milliseconds after
// base, 0 for base and before: 49 days, within which a page gets a new base.
type writer struct {
	dst  []byte
	base lease.Millis
}

func (w *writer) u16(v uint16)        { w.dst = binary.LittleEndian.AppendUint16(w.dst, v) }
func (w *writer) u32(v uint64)        { w.dst = binary.LittleEndian.AppendUint32(w.dst, uint32(v)) }
func (w *writer) u64(v uint64)        { w.dst = binary.LittleEndian.AppendUint64(w.dst, v) }
func (w *writer) bytes6(v uint64)     { w.u32(v); w.u16(uint16(v >> 32)) }
func (w *writer) units(n int64)       { w.u32(uint64(within32(n))) }
func (w *writer) time(t lease.Millis) { w.u32(uint64(within32(int64(t - w.base)))) }
func (w *writer) float(n int64)       { w.u16(packFloat(within32(n))) }
func within32(n int64) int64          { return min(max(n, 0), 1<<32-1) }

func (w *writer) lot(l *lease.Lot, from, lot bool) {
	w.units(l.Units)
	w.time(l.Expiry)
	if from {
		w.time(l.From)
	}
	if lot {
		w.u32(uint64(l.Lease))
	}
}

// reader unpacks what writer packed. Beyond the end everything is 0 and short.
type reader struct {
	src   []byte
	base  lease.Millis
	short bool
}

func (r *reader) bytes(n int) []byte {
	if len(r.src) < n {
		r.src, r.short = nil, true
		return nil
	}
	b := r.src[:n:n]
	r.src = r.src[n:]
	return b
}

func (r *reader) u8() uint8 {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint64 {
	if b := r.bytes(4); b != nil {
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) float() int64 { return unpackFloat(r.u16()) }

func (r *reader) time() lease.Millis {
	if t := r.u32(); t > 0 {
		return r.base + lease.Millis(t)
	}
	return 0
}

func (r *reader) lot(from, lot bool) lease.Lot {
	l := lease.Lot{Units: int64(r.u32()), Expiry: r.time()}
	if from {
		l.From = r.time()
	}
	if lot {
		l.Lease = uint32(r.u32())
	}
	return l
}

// packFloat keeps the 11 most significant bits of n, 0 <= n < 2^32, and rounds
// the rest down: the exponent in the upper 5 bits, the mantissa in the lower 11.
func packFloat(n int64) uint16 {
	shift := max(0, bits.Len64(uint64(n))-11)
	return uint16(shift)<<11 | uint16(n>>shift)
}

func unpackFloat(f uint16) int64 { return int64(f&(1<<11-1)) << (f >> 11) }
