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

// next goes to the next pair; false if there is none.
func (p *pairs) next() bool {
	if p.left == 0 {
		return false
	}
	name := int(binary.LittleEndian.Uint32(p.raw[p.size:]))
	value := int(binary.LittleEndian.Uint32(p.raw[p.size+4:]))
	from := p.at + name + 1
	if name < 0 || value < 0 || name > len(p.raw) || value > len(p.raw) || from+value > len(p.raw) {
		p.left = 0
		return false
	}
	p.name, p.value = text(p.raw[p.at:p.at+name]), text(p.raw[from:from+value])
	p.left--
	p.size += 8
	p.at = from + value + 1
	return true
}

// names are the headers that rules look at.
type names struct {
	names []string
	// lengths has a bit for each length that a name of them has, the last one for
	// all that are longer: it rules most others out without a comparison.
	lengths uint64
}

func wantedNames(in *rule.Inputs) (w names) {
	w.names = append(w.names, in.Headers...)
	if in.Method {
		w.names = append(w.names, ":method")
	}
	if in.Host {
		w.names = append(w.names, ":authority")
	}
	if in.Path {
		w.names = append(w.names, ":path")
	}
	for _, name := range w.names {
		w.lengths |= 1 << min(len(name), 63)
	}
	return w
}

func (w *names) mayBe(name string) bool { return w.lengths>>min(len(name), 63)&1 == 1 }

// headerMap serialises headers, see [pairs].
type headerMap struct {
	n     int
	sizes []byte
	texts []byte
	out   []byte
}

func (h *headerMap) reset() { h.n, h.sizes, h.texts = 0, h.sizes[:0], h.texts[:0] }

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
