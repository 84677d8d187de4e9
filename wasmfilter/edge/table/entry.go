package table

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Entry is what the table keeps of one key. The zero value is a key never used.
type Entry struct {
	// The table rounds Size down to 11 significant bits, so that a top-up comes later, and Left where it rejects
	// nothing, so that a response states up to 0.1 % less. It cuts numbers of units to limit.MaxCount. Times more
	// than 39 days ahead may be cut: Reset, which is then too early, and RetryAt, which becomes lease.Never.
	holder.State
	// Counter is the key's counter where the PoP itself is the granter (scope:
	// pop). Its Log is not kept.
	Counter limit.State
	// Lockout is the key's beside Counter.
	Lockout limit.Lockout
	// Rule is which rule, override and shape of limit the entry belongs to: the
	// lower half of the id that the key was hashed with.
	Rule uint32
	// Key is the key's text, of at most rule.MaxKey bytes. It is kept while there are
	// units to give back or to report, so that a scan of the table can name the key; nil
	// if it was not kept.
	Key []byte
}

// Flags: the parts that follow the fixed part, in this order, and booleans. A part that is
// zero is left out. All bits are used.
const (
	hasLot0 uint16 = 1 << iota
	hasLot1
	hasFrom0
	hasFrom1
	hasLeases // of the lots that are there
	hasEnds   // of the phase, which is Partial or Denied
	isDenied  // which of these
	hasDenial // Least, RetryAt and RetryFor, if one of the first two is not zero
	hasDenied
	hasOverdrawn
	hasCounter
	hasKey
	isLocal0
	isLocal1
	isAsking
	isRejected
)

// rejects are the flags of entries that may reject by Left: they have all its digits.
const rejects = hasEnds | isRejected

// Flags in the upper bits of WantLog2, which is at most 31.
const (
	hasSealed = 1 << 7 // the batch of the debt that was reported
	hasBack   = 1 << 6 // the key is not asked for because asks fail
	hasOwn    = 1 << 5 // the key has a limit of its own; beside a counter: it has a lockout
	wantBits  = 1<<5 - 1
)

// The fixed part: length, tag, flags, rule, asked, reset, left, spent, size, want.
const (
	tagBytes    = 6
	sealedBytes = 4 + 4
	backBytes   = 4 + 1
	ownBytes    = 4
	denialBytes = 4 + 4 + 4
	lockBytes   = 5 * 8  // a counter has no lots, which take as much
	isUnknown   = 1 << 7 // in the number of failures
	fixedBytes  = atWant + 1
	maxEntry    = fixedBytes + 2*(4+4+4+4) + (4 + 4) + denialBytes + 4 + 4 + 24 + sealedBytes + backBytes + 1 + rule.MaxKey
)

// flags is which parts of e are worth keeping at now.
func (e *Entry) flags(now lease.Millis) uint16 {
	var f uint16
	for i := range e.Leases {
		lot := &e.Leases[i]
		if lot.Units == 0 && now >= lot.Expiry {
			continue
		}
		f |= hasLot0<<i | flagIf(lot.From > now, hasFrom0<<i) | flagIf(lot.Local, isLocal0<<i) | flagIf(lot.Lease != 0, hasLeases)
	}
	f |= flagIf(e.Asking, isAsking) | flagIf(e.Rejected && now < e.Reset, isRejected)
	f |= flagIf(e.Phase != holder.PhaseNone, hasEnds) | flagIf(e.Phase == holder.PhaseDenied, isDenied)
	f |= flagIf(e.Least > 0 || e.RetryAt > now, hasDenial) | flagIf(e.Denied > 0, hasDenied) | flagIf(e.Overdrawn > 0, hasOverdrawn)
	f |= flagIf(e.counts(), hasCounter)
	return f | flagIf(e.owes() && e.Key != nil && len(e.Key) <= rule.MaxKey, hasKey)
}

// more is the same for the parts that are flagged beside the want.
func (e *Entry) more(now lease.Millis) byte {
	return byte(flagIf(e.Sealed.Matters(now), hasSealed) | flagIf(e.Back.Matters(now), hasBack) | flagIf(e.OwnLimit > 0 && !e.counts() || !e.Lockout.Empty(), hasOwn))
}

// counts reports whether the entry has a counter.
func (e *Entry) counts() bool { return e.Counter.At != 0 || !e.Lockout.Empty() }

// owes reports units that are to be given back or to be reported one day.
func (e *Entry) owes() bool {
	return e.Leases[0].Units > 0 || e.Leases[1].Units > 0 || e.Overdrawn > 0
}

// flagIf is the flag if it is to be set, else 0.
func flagIf(ok bool, flag uint16) uint16 {
	if ok {
		return flag
	}
	return 0
}

// Offsets in the fixed part.
const (
	atTag   = 1
	atFlags = atTag + tagBytes
	atRule  = atFlags + 2
	atAsked = atRule + 4
	atReset = atAsked + 4
	atLeft  = atReset + 4
	atSpent = atLeft + 2
	atSize  = atSpent + 4
	atWant  = atSize + 2
)

// append appends the packed entry to dst. Times are kept relative to base.
func (e *Entry) append(dst []byte, tag uint64, base, now lease.Millis) []byte {
	start, f := len(dst), e.flags(now)
	dst = slices.Grow(dst, maxEntry)
	b := dst[start : start+maxEntry]
	put32(b[atTag:], uint32(tag))
	put16(b[atTag+4:], uint16(tag>>32))
	put16(b[atFlags:], f)
	put32(b[atRule:], e.Rule)
	put32(b[atAsked:], packTime(e.Asked, base))
	put32(b[atReset:], packTime(e.Reset, base))
	put16(b[atLeft:], packFloat(e.Left))
	put32(b[atSpent:], packUnits(e.Spent))
	put16(b[atSize:], packFloat(e.Size))
	b[atWant] = e.WantLog2 | e.more(now)
	n := fixedBytes
	for i := range e.Leases {
		if f&(hasLot0<<i) != 0 {
			n = e.putLot(b, n, i, f, base)
		}
	}
	if f&hasEnds != 0 {
		put32(b[n:], packTime(e.Ends, base))
		n += 4
	}
	if f&rejects != 0 {
		put32(b[n:], packUnits(e.Left))
		n += 4
	}
	if b[atWant]&hasSealed != 0 {
		put32(b[n:], packUnits(e.Sealed.Units))
		put32(b[n+4:], packTime(e.Sealed.Number, base))
		n += sealedBytes
	}
	if b[atWant]&hasBack != 0 {
		put32(b[n:], packTime(e.Back.Until, base))
		b[n+4] = e.Back.Failures | byte(flagIf(e.Back.Unknown, isUnknown))
		n += backBytes
	}
	if b[atWant]&hasOwn != 0 && f&hasCounter == 0 {
		put32(b[n:], packUnits(e.OwnLimit))
		n += ownBytes
	}
	if f&rare != 0 {
		n = e.putRare(b, n, f, base)
	}
	b[0] = byte(n)
	return dst[:start+n]
}

// putLot packs a lot at b[n:] and returns where it ends.
func (e *Entry) putLot(b []byte, n, i int, f uint16, base lease.Millis) int {
	lot := &e.Leases[i]
	put32(b[n:], packUnits(lot.Units))
	put32(b[n+4:], packTime(lot.Expiry, base))
	n += 8
	if f&(hasFrom0<<i) != 0 {
		put32(b[n:], packTime(lot.From, base))
		n += 4
	}
	if f&hasLeases != 0 {
		put32(b[n:], lot.Lease)
		n += 4
	}
	return n
}

// rare are the parts that few entries have, and the key.
const rare = hasDenial | hasDenied | hasOverdrawn | hasCounter | hasKey

func (e *Entry) putRare(b []byte, n int, f uint16, base lease.Millis) int {
	if f&hasDenial != 0 {
		put32(b[n:], packUnits(e.Least))
		put32(b[n+4:], packTime(e.RetryAt, base))
		put32(b[n+8:], packUnits(e.RetryFor))
		n += denialBytes
	}
	if f&hasDenied != 0 {
		put32(b[n:], packUnits(e.Denied))
		n += 4
	}
	if f&hasOverdrawn != 0 {
		put32(b[n:], packUnits(e.Overdrawn))
		n += 4
	}
	if f&hasCounter != 0 {
		put64(b[n:], uint64(e.Counter.At))
		put64(b[n+8:], uint64(e.Counter.Level))
		put64(b[n+16:], uint64(e.Counter.Aux))
		n += 24
		if b[atWant]&hasOwn != 0 {
			for i, v := range e.lockout() {
				put64(b[n+8*i:], uint64(*v))
			}
			n += lockBytes
		}
	}
	if f&hasKey != 0 {
		b[n] = byte(len(e.Key))
		n += 1 + copy(b[n+1:], e.Key)
	}
	return n
}

// lockout is the numbers of the lockout.
func (e *Entry) lockout() [lockBytes / 8]*int64 {
	k := &e.Lockout
	return [...]*int64{(*int64)(&k.Ends), &k.Open, &k.Before, (*int64)(&k.Period), (*int64)(&k.Earlier)}
}

// length returns how long an entry with these flags is, but for the key's text.
func length(f uint16, more byte) int {
	n := fixedBytes
	if more&hasSealed != 0 {
		n += sealedBytes
	}
	if more&hasBack != 0 {
		n += backBytes
	}
	switch {
	case more&hasOwn != 0 && f&hasCounter != 0:
		n += lockBytes
	case more&hasOwn != 0:
		n += ownBytes
	}
	for i := range 2 {
		if f&(hasLot0<<i) != 0 {
			n += 8 + 4*int(f>>(2+i)&1) + 4*int(f>>4&1) // hasFrom, hasLeases
		}
	}
	n += 4 * int(f>>5&1) // hasEnds
	if f&rejects != 0 {
		n += 4
	}
	n += denialBytes*int(f>>7&1) + 4*int(f>>8&1) + 4*int(f>>9&1) + 24*int(f>>10&1)
	return n + int(f>>11&1) // the length of the key
}

// decode unpacks an entry. Key is a part of b. False if b is no entry.
func (e *Entry) decode(b []byte, base lease.Millis) bool {
	if len(b) < fixedBytes {
		return false
	}
	f := get16(b[atFlags:])
	if n := length(f, b[atWant]); f&hasKey == 0 && len(b) != n || f&hasKey != 0 && (len(b) < n || len(b) != n+int(b[n-1])) {
		return false
	}
	*e = Entry{Rule: get32(b[atRule:])}
	e.Asked = unpackTime(get32(b[atAsked:]), base)
	e.Reset = unpackTime(get32(b[atReset:]), base)
	e.Left = unpackFloat(get16(b[atLeft:]))
	e.Spent = int64(get32(b[atSpent:]))
	e.Size = unpackFloat(get16(b[atSize:]))
	e.WantLog2 = b[atWant] & wantBits
	e.Asking, e.Rejected = f&isAsking != 0, f&isRejected != 0
	n := fixedBytes
	for i := range e.Leases {
		if f&(hasLot0<<i) != 0 {
			n = e.getLot(b, n, i, f, base)
		}
	}
	e.Phase = phaseOf(f)
	if f&hasEnds != 0 {
		e.Ends = unpackTime(get32(b[n:]), base)
		n += 4
	}
	if f&rejects != 0 {
		e.Left = int64(get32(b[n:]))
		n += 4
	}
	if b[atWant]&hasSealed != 0 {
		e.Sealed = holder.Debt{Units: int64(get32(b[n:])), Number: unpackTime(get32(b[n+4:]), base)}
		n += sealedBytes
	}
	if b[atWant]&hasBack != 0 {
		e.Back = holder.Backoff{Until: unpackTime(get32(b[n:]), base), Failures: b[n+4] &^ isUnknown, Unknown: b[n+4]&isUnknown != 0}
		n += backBytes
	}
	if b[atWant]&hasOwn != 0 && f&hasCounter == 0 {
		e.OwnLimit = int64(get32(b[n:]))
		n += ownBytes
	}
	if f&rare != 0 {
		e.getRare(b, n, f, base)
	}
	return true
}

// phaseOf is the phase of an entry by its flags.
func phaseOf(f uint16) holder.Phase {
	switch {
	case f&isDenied != 0:
		return holder.PhaseDenied
	case f&hasEnds != 0:
		return holder.PhasePartial
	}
	return holder.PhaseNone
}

func (e *Entry) getLot(b []byte, n, i int, f uint16, base lease.Millis) int {
	lot := &e.Leases[i]
	lot.Local = f&(isLocal0<<i) != 0
	lot.Units = int64(get32(b[n:]))
	lot.Expiry = unpackTime(get32(b[n+4:]), base)
	n += 8
	if f&(hasFrom0<<i) != 0 {
		lot.From = unpackTime(get32(b[n:]), base)
		n += 4
	}
	if f&hasLeases != 0 {
		lot.Lease = get32(b[n:])
		n += 4
	}
	return n
}

func (e *Entry) getRare(b []byte, n int, f uint16, base lease.Millis) {
	if f&hasDenial != 0 {
		e.Least, e.RetryFor = int64(get32(b[n:])), int64(get32(b[n+8:]))
		if at := get32(b[n+4:]); at == 1<<32-1 {
			e.RetryAt = lease.Never // it was cut
		} else {
			e.RetryAt = unpackTime(at, base)
		}
		n += denialBytes
	}
	if f&hasDenied != 0 {
		e.Denied = int64(get32(b[n:]))
		n += 4
	}
	if f&hasOverdrawn != 0 {
		e.Overdrawn = int64(get32(b[n:]))
		n += 4
	}
	if f&hasCounter != 0 {
		e.Counter.At = limit.Micros(get64(b[n:]))
		e.Counter.Level = int64(get64(b[n+8:]))
		e.Counter.Aux = int64(get64(b[n+16:]))
		n += 24
		if b[atWant]&hasOwn != 0 {
			for i, v := range e.lockout() {
				*v = int64(get64(b[n+8*i:]))
			}
			n += lockBytes
		}
	}
	if f&hasKey != 0 {
		e.Key = b[n+1:]
	}
}
