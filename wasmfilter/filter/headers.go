package filter

import (
	"encoding/binary"

	"github.com/weirlimit/weir/internal/rule"
)

// pairs walks through a serialised map of headers: a count, the sizes of all names
// and values, then these themselves, each with a zero byte behind it. A map that is
// cut short ends early.
type pairs struct {
	name, value string // valid as long as the map is

	raw  []byte
	left int // pairs
	size int // where the sizes of the next pair stand
	at   int // where its name begins
}

func pairsOf(raw []byte) pairs {
	if len(raw) < 4 {
		return pairs{}
	}
	n := int(binary.LittleEndian.Uint32(raw))
	if n < 0 || n > (len(raw)-4)/8 {
		return pairs{}
	}
	return pairs{raw: raw, left: n, size: 4, at: 4 + 8*n}
}

// next goes to the next pair whose name may be one of those; false if there is none. All others are
// passed over here, without a call for each: of a request's headers rules look at few.
func (p *pairs) next(of lengths) bool {
	raw, left, size, at := p.raw, p.left, p.size, p.at
	for ; left > 0; left-- {
		name, value := int(binary.LittleEndian.Uint32(raw[size:])), int(binary.LittleEndian.Uint32(raw[size+4:]))
		from := at + name + 1
		end := from + value
		if name < 0 || value < 0 || end < from || end > len(raw) {
			break
		}
		size += 8
		if of>>min(name, longest)&1 == 1 {
			p.name, p.value = text(raw[at:at+name]), text(raw[from:end])
			p.left, p.size, p.at = left-1, size, end+1
			return true
		}
		at = end + 1
	}
	p.left = 0
	return false
}

// valueOf returns the first value of a header, and how many it has.
func (p pairs) valueOf(name string) (value string, n int) {
	for of := lengths(1) << min(len(name), longest); p.next(of); {
		if p.name == name {
			if n++; n == 1 {
				value = p.value
			}
		}
	}
	return value, n
}

// sole returns the value of a header, empty if there is none, or several.
func (p pairs) sole(name string) string {
	value, n := p.valueOf(name)
	if n > 1 {
		return ""
	}
	return value
}

// lengths has a bit for each length that some names have, the last one for all that are longer.
type lengths uint64

const longest = 63

// Wanted are the headers that rules look at.
type Wanted struct {
	Inputs  *rule.Inputs
	lengths lengths
}

func wantedBy(in *rule.Inputs) Wanted {
	w := Wanted{Inputs: in}
	for _, name := range in.Headers {
		w.lengths |= 1 << min(len(name), longest)
	}
	return w
}

// May reports whether a header may be one of them, by the length of its name.
func (w *Wanted) May(length int) bool { return w.lengths>>min(length, longest)&1 == 1 }

// addTo adds those headers of a map to in that rules look at.
func (p pairs) addTo(in *rule.Request, of *Wanted) {
	for p.next(of.lengths) {
		in.Add(of.Inputs, p.name, p.value)
	}
}

// headerMap serialises headers, see [pairs].
type headerMap struct {
	n     int
	sizes []byte
	texts []byte
	out   []byte
}

func (h *headerMap) reset() { h.n, h.sizes, h.texts = 0, h.sizes[:0], h.texts[:0] }

// add is not inlined: its callers add many.
//
//go:noinline
func (h *headerMap) add(name, value string) {
	h.n++
	h.sizes = binary.LittleEndian.AppendUint32(h.sizes, uint32(len(name)))
	h.sizes = binary.LittleEndian.AppendUint32(h.sizes, uint32(len(value)))
	h.texts = append(append(h.texts, name...), 0)
	h.texts = append(append(h.texts, value...), 0)
}

// bytes returns the map; it is valid until the next reset.
func (h *headerMap) bytes() []byte {
	h.out = binary.LittleEndian.AppendUint32(h.out[:0], uint32(h.n))
	h.out = append(append(h.out, h.sizes...), h.texts...)
	return h.out
}
