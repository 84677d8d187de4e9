package wire

import "github.com/weirlimit/weir/internal/lease"

// Wire types of protobuf. A tag is a field's number << 3 | its wire type.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
)

// Append appends the encoded message to dst and returns the longer slice.
func (m *Request) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.Holder)
	dst = appendUint(dst, 3, m.Epoch)
	dst = appendUint(dst, 4, m.Seq)
	dst = appendUint(dst, 5, m.Ack)
	dst = appendBytes(dst, 6, m.RulesVersion)
	for i := range m.Wants {
		dst = append(dst, 7<<3|typeBytes, 0)
		start := len(dst)
		dst = closeNested(m.Wants[i].append(dst), start)
	}
	dst = appendBytes(dst, 8, m.Pop)
	for _, s := range m.TraceParent {
		dst = appendVarint(append(dst, 9<<3|typeBytes), uint64(len(s)))
		dst = append(dst, s...) // an empty one is an element too
	}
	dst = appendUint(dst, 10, m.Worker)
	dst = appendUint(dst, 11, uint64(m.ProtocolMax))
	dst = appendUint(dst, 12, m.RulesRevision)
	dst = appendBytes(dst, 13, m.Region)
	return appendStatement(dst, m.Reserve)
}

func (w *Want) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, w.Rule)
	dst = appendUint(dst, 2, uint64(w.Variant))
	dst = appendBytes(dst, 3, w.Key)
	dst = appendUint(dst, 4, uint64(w.Group))
	dst = appendUint(dst, 5, uint64(w.Need))
	dst = appendUint(dst, 6, uint64(w.Waiting))
	dst = appendUint(dst, 7, uint64(w.Want.Want))
	dst = appendUint(dst, 8, uint64(w.Unused))
	dst = appendUint(dst, 9, leaseNumber(w.Shape, w.Lease))
	dst = appendUint(dst, 10, uint64(w.Overdrawn))
	dst = appendUint(dst, 11, uint64(w.Denied))
	dst = appendBool(dst, 12, w.Fresh)
	dst = appendBool(dst, 13, w.Next)
	dst = appendUint(dst, 14, uint64(w.Holding))
	dst = appendUint(dst, 15, w.Debt)
	dst = appendUint(dst, 18, w.Override)
	return appendUint(dst, 20, uint64(w.Soon))
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *Response) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendUint(dst, 2, m.Epoch)
	dst = appendBytes(dst, 3, m.RulesVersion)
	for i := range m.Grants {
		dst = append(dst, 4<<3|typeBytes, 0)
		start := len(dst)
		dst = closeNested(m.Grants[i].append(dst), start)
	}
	dst = appendUint(dst, 5, uint64(m.Holders))
	dst = appendUint(dst, 6, m.Seq)
	dst = appendUint(dst, 7, m.RulesRevision)
	dst = appendBool(dst, 9, m.Dropped)
	dst = appendReply(dst, m.Reserve)
	return appendUint(dst, 11, uint64(m.SharePerMille))
}

func (g *Grant) append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(g.Status))
	dst = appendUint(dst, 2, uint64(g.Granted))
	dst = appendUint(dst, 3, leaseNumber(g.Shape, g.Lease))
	dst = appendUint(dst, 4, uint64(g.StartsIn))
	dst = appendUint(dst, 5, uint64(g.TTL))
	dst = appendUint(dst, 6, Ms(g.RetryAfter))
	dst = appendUint(dst, 7, uint64(g.AskAfter))
	dst = appendUint(dst, 8, uint64(g.Limit))
	dst = appendUint(dst, 9, uint64(g.Remaining))
	dst = appendUint(dst, 10, Ms(g.Reset))
	return appendBool(dst, 11, g.StillOwed)
}

// neverMs in a field of milliseconds means that the time never comes.
const neverMs = 1<<53 - 1

// Ms is a time in a field in which it may never come.
func Ms(d lease.Millis) uint64 {
	if d >= lease.Never {
		return neverMs
	}
	return uint64(d)
}

// leaseNumber names a lease: the shape of the limit that was charged, and the period.
func leaseNumber(shape, period uint32) uint64 { return uint64(shape)<<32 | uint64(period) }

// Append appends the encoded message to dst and returns the longer slice.
func (m *RulesRequest) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.HaveVersion)
	dst = appendBytes(dst, 3, m.Pop)
	return appendUint(dst, 4, uint64(m.ProtocolMax))
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *RulesResponse) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.RulesVersion)
	dst = appendBytes(dst, 3, m.Rules)
	return appendUint(dst, 4, m.RulesRevision)
}

// appendUint appends a field, unless v is its zero value.
func appendUint(dst []byte, number uint64, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return appendVarint(appendVarint(dst, number<<3|typeVarint), v)
}

func appendBool(dst []byte, number byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, number<<3|typeVarint, 1)
}

func appendBytes[T string | []byte](dst []byte, number byte, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = appendVarint(append(dst, number<<3|typeBytes), uint64(len(v)))
	return append(dst, v...)
}

func appendVarint(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// closeNested writes the length of the nested message dst[start:] in front of it,
// where its writer has kept one byte free. Most are shorter than 128 bytes; a
// longer one is moved up, which is cheaper than measuring each beforehand.
func closeNested(dst []byte, start int) []byte {
	n := len(dst) - start
	if n < 0x80 {
		dst[start-1] = byte(n)
		return dst
	}
	var room [9]byte
	length := appendVarint(room[:0], uint64(n))
	dst = append(dst, length[1:]...) // grows dst; overwritten by the move
	copy(dst[start-1+len(length):], dst[start:start+n])
	copy(dst[start-1:], length)
	return dst
}
