package wire

// Wire types of protobuf. A tag is a field's number << 3 | its wire type.
const (
	typeVarint  = 0
	typeFixed64 = 1
	typeBytes   = 2
	typeFixed32 = 5
)

// appendUint appends a field, unless v is its zero value. It and appendBytes are not inlined: messages have many fields,
// and the filter would be 30 kB larger.
//
//go:noinline
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

//go:noinline
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
