package script

import (
	"strconv"
	"strings"
)

// field is an unsigned integer in a packed string. Its name is that of the local
// variable in Lua.
type field struct {
	name string
	size int  // in bytes, 1 to 7
	raw  bool // eight bytes that Lua keeps as a string
}

// fields are packed one behind the other, lowest byte first.
type fields []field

// names lists the fields as Lua does.
func (fs fields) names() string {
	var names []string
	for _, f := range fs {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// format is that of struct.pack and struct.unpack in Lua.
func (fs fields) format() string {
	var b strings.Builder
	b.WriteString("<")
	for _, f := range fs {
		switch {
		case f.raw:
			b.WriteString("c8")
		case f.size == 1:
			b.WriteString("B")
		default:
			b.WriteString("I" + strconv.Itoa(f.size))
		}
	}
	return b.String()
}

// size is the length of the packed string.
func (fs fields) size() (n int) {
	for _, f := range fs {
		n += f.size
	}
	return n
}

// append packs values, one for each field. What does not fit into a field is taken
// for the largest that does.
func (fs fields) append(dst []byte, values ...uint64) []byte {
	for i, f := range fs {
		v := values[i]
		if !f.raw {
			v = min(v, 1<<(8*f.size)-1)
		}
		for range f.size {
			dst = append(dst, byte(v))
			v >>= 8
		}
	}
	return dst
}

// parse unpacks into values; s has the right size.
func (fs fields) parse(s string, values []int64) {
	at := 0
	for i, f := range fs {
		var v int64
		for k := range f.size {
			v |= int64(s[at+k]) << (8 * k)
		}
		values[i] = v
		at += f.size
	}
}
