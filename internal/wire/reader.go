package wire

import (
	"strconv"
	"unicode/utf8"
)

// malformed is why a message was rejected. The sender writes something else than
// weir.quota.v1, or something between cut or changed the message.
type malformed struct {
	Message string // name of the message in quota.proto
	Offset  int    // byte at which the rejected part begins
	Reason  string // one of a small fixed set, fit for a metric label
}

func (e *malformed) Error() string {
	return "malformed " + e.Message + " at byte " + strconv.Itoa(e.Offset) + ": " + e.Reason
}

// The reasons.
const (
	reasonCut     = "message is cut short"
	reasonVarint  = "varint of more than 64 bits"
	reasonTag     = "illegal field number or wire type"
	reasonGroup   = "group, which proto3 does not have"
	reasonUTF8    = "string is not UTF-8"
	reasonTooLong = "message is longer than its maximum"
	reasonTooMany = "list is longer than its maximum"
)

const maxFieldNumber = 1<<29 - 1 // protobuf's

// reader walks over the fields of a message and of those nested in it. A failure
// sticks: next answers false from then on.
type reader struct {
	b      []byte // the outermost message; offsets are into it
	at     int    // what comes next
	end    int    // of the message that is being read; at <= end <= len(b)
	begin  int    // of the field last read
	from   int    // of that field's value: b[from:at], where it is of typeBytes
	tag    uint64 // of that field
	num    uint64 // its value, where it is of typeVarint
	reason string // of the failure; empty: none
}

func newReader(b []byte, longest int) reader {
	r := reader{b: b, end: len(b)}
	if len(b) > longest {
		r.begin = longest
		r.reason = reasonTooLong
	}
	return r
}

// next reads one field. It answers false at the end of the message and on a failure.
func (r *reader) next() bool {
	if r.reason != "" || r.at == r.end {
		return false
	}
	r.begin = r.at
	r.tag = r.varint()
	if r.reason != "" {
		return false
	}
	if number := r.tag >> 3; number == 0 || number > maxFieldNumber {
		r.reason = reasonTag
		return false
	}
	switch r.tag & 7 {
	case typeVarint:
		r.num = r.varint()
	case typeBytes:
		n := r.varint()
		r.from = r.at
		r.skip(n)
	case typeFixed64:
		r.skip(8)
	case typeFixed32:
		r.skip(4)
	case 3, 4:
		r.reason = reasonGroup
	default:
		r.reason = reasonTag
	}
	return r.reason == ""
}

func (r *reader) varint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		if r.at == r.end {
			r.reason = reasonCut
			return 0
		}
		c := r.b[r.at]
		r.at++
		if shift == 63 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.reason = reasonVarint
	return 0
}

func (r *reader) skip(n uint64) {
	if r.reason != "" {
		return
	}
	if n > uint64(r.end-r.at) {
		r.reason = reasonCut
		return
	}
	r.at += int(n)
}

// bytes is the value of the field last read, a part of the input.
func (r *reader) bytes() []byte { return r.b[r.from:r.at:r.at] }

// text is the value of the field last read, as a string: old, if it is the same.
func (r *reader) text(old string) string {
	b := r.bytes()
	if !utf8.Valid(b) {
		r.reason = reasonUTF8
		return ""
	}
	if string(b) == old { // this conversion does not allocate, the one below does
		return old
	}
	return string(b)
}

// enter begins to read the field last read as a nested message; leave, with what
// enter answered, goes back to the message around it.
func (r *reader) enter() (outer int) {
	outer, r.end, r.at = r.end, r.at, r.from
	return outer
}

func (r *reader) leave(outer int) { r.end = outer }

// failure is why reading ended before the end of the message; nil if it did not.
func (r *reader) failure(message string) error {
	if r.reason == "" {
		return nil
	}
	return &malformed{Message: message, Offset: r.begin, Reason: r.reason}
}

// extend makes list one longer, with whatever lies in its capacity, and answers
// the new last element; nil, and a failure, if the list is as long as it may be.
func extend[T any](r *reader, list *[]T, longest int) *T {
	n := len(*list)
	if n == longest {
		r.reason = reasonTooMany
		return nil
	}
	if n < cap(*list) {
		*list = (*list)[:n+1]
	} else {
		var zero T
		*list = append(*list, zero)
	}
	return &(*list)[n]
}
