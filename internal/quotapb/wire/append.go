package wire

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
	return appendUint(dst, 14, m.RegionStore)
}

func (w *Want) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, w.Rule)
	dst = appendUint(dst, 2, uint64(w.Variant))
	dst = appendBytes(dst, 3, w.Key)
	dst = appendUint(dst, 4, uint64(w.Group))
	dst = appendUint(dst, 5, w.Need)
	dst = appendUint(dst, 6, w.Waiting)
	dst = appendUint(dst, 7, w.Want)
	dst = appendUint(dst, 8, w.Unused)
	dst = appendUint(dst, 9, w.Lease)
	dst = appendUint(dst, 10, w.Overdrawn)
	dst = appendUint(dst, 11, w.Denied)
	dst = appendBool(dst, 12, w.Fresh)
	dst = appendBool(dst, 13, w.Next)
	dst = appendUint(dst, 14, w.Holding)
	dst = appendUint(dst, 15, w.Debt)
	dst = appendUint(dst, 16, w.Left)
	dst = appendUint(dst, 17, w.ResetMs)
	dst = appendUint(dst, 18, w.Override)
	for _, r := range w.Returned {
		dst = append(appendVarint(dst, 19<<3|typeBytes), 0)
		start := len(dst)
		dst = closeNested(r.append(dst), start)
	}
	return appendUint(dst, 20, w.Soon)
}

func (m *Returned) append(dst []byte) []byte {
	dst = appendUint(dst, 1, m.Name)
	return appendUint(dst, 2, m.Units)
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
	dst = appendBool(dst, 8, m.RegionDoubled)
	return appendBool(dst, 9, m.Dropped)
}

func (g *Grant) append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(g.Status)) // sign-extended, as enums are
	dst = appendUint(dst, 2, g.Granted)
	dst = appendUint(dst, 3, g.Lease)
	dst = appendUint(dst, 4, g.StartsInMs)
	dst = appendUint(dst, 5, g.TTLMs)
	dst = appendUint(dst, 6, g.RetryAfterMs)
	dst = appendUint(dst, 7, g.AskAfterMs)
	dst = appendUint(dst, 8, g.Limit)
	dst = appendUint(dst, 9, g.Remaining)
	dst = appendUint(dst, 10, g.ResetMs)
	return appendBool(dst, 11, g.StillOwed)
}

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
