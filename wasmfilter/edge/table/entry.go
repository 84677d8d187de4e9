package table

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Entry is what the table keeps of one key. The zero value is a key never seen.
type Entry struct {
	// Slot is the key's leases from the region. The table rounds Left and Size
	// down to 11 significant bits, and Denied and DeniedNeed to at most 65,535.
	lease.Slot
	// RetryAt is when a client that is refused should come back, as of the last
	// denial; 0: unknown.
	RetryAt lease.Millis
	// Counter is the key's counter where the PoP itself is the granter (scope:
	// pop). Its Log is not kept.
	Counter limit.State
	// Rule is which rule, variant and shape of limit the entry belongs to: the
	// lower half of the id that the key was hashed with.
	Rule uint32
	// Key is the key's text. It is kept while there are units to give back or to
	// report, so that whoever looks through the table can name the key; nil if it
	// is not known. Of keys longer than maxKey it is not kept, and what they leave
	// behind lapses.
	Key []byte
}

// maxKey is the longest key text that an entry keeps, in bytes.
const maxKey = 96

// Parts of an entry that are only there where they say something, in the order in
// which they follow the fixed part, and booleans.
const (
	hasLot0 uint16 = 1 << iota
	hasLot1
	hasFrom0
	hasFrom1
	hasLeases // of the lots that are there
	hasNextAsk
	hasLimited
	hasDenial // DeniedNeed and RetryAt
	hasDenied
	hasOverdrawn
	hasCounter
	hasKey
	isLocal0
	isLocal1
	isAsking
)

// The fixed part: length, tag, flags, rule, asked, reset, left, spent, size, want.
const (
	tagBytes   = 6
	fixedBytes = 1 + tagBytes + 2 + 4 + 4 + 4 + 2 + 4 + 2 + 1
	maxEntry   = fixedBytes + 2*(4+4+4+4) + 4 + 4 + (2 + 4) + 2 + 4 + 24 + 1 + maxKey
)

// flags says which parts of e are worth keeping at now.
func (e *Entry) flags(now lease.Millis) uint16 {
	var f uint16
	for i := range e.Lots {
		lot := &e.Lots[i]
		if lot.Units == 0 && now >= lot.Expiry {
			continue
		}
		f |= hasLot0<<i | when(lot.From > now, hasFrom0<<i) | when(lot.Local, isLocal0<<i) | when(lot.Lease != 0, hasLeases)
	}
	f |= when(e.Asking, isAsking) | when(e.NextAsk > now, hasNextAsk) | when(e.LimitedUntil > now, hasLimited)
	f |= when(e.DeniedNeed > 0, hasDenial) | when(e.Denied > 0, hasDenied) | when(e.Overdrawn > 0, hasOverdrawn)
	f |= when(e.Counter.At != 0, hasCounter)
	return f | when(e.owes() && len(e.Key) <= maxKey, hasKey)
}

// owes reports units that are to be given back or to be reported one day.
func (e *Entry) owes() bool {
	return e.Lots[0].Units > 0 || e.Lots[1].Units > 0 || e.Overdrawn > 0
}

func when(ok bool, flag uint16) uint16 {
	if ok {
		return flag
	}
	return 0
}

// append appends the packed entry to dst. Times are kept relative to base.
func (e *Entry) append(dst []byte, tag uint64, base, now lease.Millis) []byte {
	start, f := len(dst), e.flags(now)
	w := writer{dst: append(dst, 0), base: base}
	w.bytes6(tag)
	w.u16(f)
	w.u32(uint64(e.Rule))
	w.time(e.Asked)
	w.time(e.Reset)
	w.float(e.Left)
	w.units(e.Spent)
	w.float(e.Size)
	w.dst = append(w.dst, e.WantLog2)
	for i := range e.Lots {
		if f&(hasLot0<<i) != 0 {
			w.lot(&e.Lots[i], f&(hasFrom0<<i) != 0, f&hasLeases != 0)
		}
	}
	if f&hasNextAsk != 0 {
		w.time(e.NextAsk)
	}
	if f&hasLimited != 0 {
		w.time(e.LimitedUntil)
	}
	e.appendRare(&w, f)
	w.dst[start] = byte(len(w.dst) - start)
	return w.dst
}

// appendRare appends what most entries do not have.
func (e *Entry) appendRare(w *writer, f uint16) {
	if f&hasDenial != 0 {
		w.u16(uint16(min(e.DeniedNeed, 1<<16-1)))
		w.time(e.RetryAt)
	}
	if f&hasDenied != 0 {
		w.u16(uint16(min(e.Denied, 1<<16-1)))
	}
	if f&hasOverdrawn != 0 {
		w.units(e.Overdrawn)
	}
	if f&hasCounter != 0 {
		w.u64(uint64(e.Counter.At))
		w.u64(uint64(e.Counter.Level))
		w.u64(uint64(e.Counter.Prev))
	}
	if f&hasKey != 0 {
		w.dst = append(w.dst, byte(len(e.Key)))
		w.dst = append(w.dst, e.Key...)
	}
}

// decode unpacks an entry that findEnd has accepted. Key is a part of b. False if
// b is no entry.
func (e *Entry) decode(b []byte, base lease.Millis) bool {
	if len(b) < fixedBytes {
		return false
	}
	r := reader{src: b[1+tagBytes:], base: base}
	f := r.u16()
	*e = Entry{Rule: uint32(r.u32())}
	e.Asked = r.time()
	e.Reset = r.time()
	e.Left = r.float()
	e.Spent = int64(r.u32())
	e.Size = r.float()
	e.WantLog2 = min(r.u8(), 32)
	e.Asking = f&isAsking != 0
	for i := range e.Lots {
		if f&(hasLot0<<i) != 0 {
			e.Lots[i] = r.lot(f&(hasFrom0<<i) != 0, f&hasLeases != 0)
			e.Lots[i].Local = f&(isLocal0<<i) != 0
		}
	}
	if f&hasNextAsk != 0 {
		e.NextAsk = r.time()
	}
	if f&hasLimited != 0 {
		e.LimitedUntil = r.time()
	}
	e.decodeRare(&r, f)
	return !r.short && len(r.src) == 0
}

func (e *Entry) decodeRare(r *reader, f uint16) {
	if f&hasDenial != 0 {
		e.DeniedNeed = int64(r.u16())
		e.RetryAt = r.time()
	}
	if f&hasDenied != 0 {
		e.Denied = int64(r.u16())
	}
	if f&hasOverdrawn != 0 {
		e.Overdrawn = int64(r.u32())
	}
	if f&hasCounter != 0 {
		e.Counter.At = limit.Micros(r.u64())
		e.Counter.Level = int64(r.u64())
		e.Counter.Prev = int64(r.u64())
	}
	if f&hasKey != 0 {
		e.Key = r.bytes(int(r.u8()))
	}
}
