package table

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
)

// layout is the version of the layout of pages. Every page begins with it, and the vm_id
// that names the memory ends with it: raise both together.
const layout = 5

// PageEntries is how many keys a page holds at most. With 32,768 pages 600,000
// keys fill one page in 1,000.
const PageEntries = 32

const (
	headerBytes = 1 + 1 + 8 // layout, number of entries, base
	maxPage     = headerBytes + PageEntries*maxEntry + maxShared*(fixedBytes+24)

	// rebaseAfter is how long a page keeps the base of its times. Of the 49 days that 32 bits of
	// milliseconds hold, 39 are left for the future: the end of a month is always within them.
	rebaseAfter lease.Millis = 10 * day
	// rebaseTo is how far before now a new base is: what is older becomes 0.
	rebaseTo lease.Millis = day

	day lease.Millis = 24 * 3600 * 1000
)

// page is a page as it was read. The zero value is an empty one.
type page struct {
	raw   []byte // whole, header included; of the store, valid until its next call
	count int
	base  lease.Millis
}

// readPage checks a page from end to end, so that whatever is read from it later
// is in bounds. False if it is broken, or of another layout.
func readPage(raw []byte) (page, bool) {
	if len(raw) == 0 {
		return page{}, true
	}
	if len(raw) < headerBytes || raw[0] != layout || raw[1] > maxEntries {
		return page{}, false
	}
	p := page{raw: raw, count: int(raw[1]), base: lease.Millis(binary.LittleEndian.Uint64(raw[2:]))}
	at := headerBytes
	for range p.count {
		if at >= len(raw) || raw[at] < fixedBytes {
			return page{}, false
		}
		at += int(raw[at])
	}
	if at != len(raw) || p.base < 0 {
		return page{}, false
	}
	return p, true
}

// find returns where the entry with this tag begins and ends; both are the end of
// the page if there is none.
func (p *page) find(tag uint64) (start, end int) {
	low, high := uint32(tag), uint16(tag>>32)
	at := headerBytes
	for at < len(p.raw) {
		e := p.raw[at:]
		if binary.LittleEndian.Uint32(e[1:]) == low && binary.LittleEndian.Uint16(e[5:]) == high {
			return at, at + int(e[0])
		}
		at += int(e[0])
	}
	return len(p.raw), len(p.raw)
}

// tagOf returns the tag of the packed entry b.
func tagOf(b []byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(b[1:])) | uint64(binary.LittleEndian.Uint16(b[5:]))<<32
}

// hostBytes is what the host keeps of an entry of its map beside the value, at most:
// its key and version, a node of the map, and what the allocator rounds up.
const hostBytes = 256

// Bytes is the most memory that a table of so many pages takes in the host, with each
// page full of the longest entries. There is a second one of the same size where there
// are shadow rules.
func Bytes(pages int) int { return pages * (maxPage + hostBytes) }
