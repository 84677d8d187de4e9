package uplink

// TraceParent returns what of a client's traceparent header travels with a call:
// nothing unless it is well formed by W3C Trace Context, level 1, and sampled.
//
//	version - trace id - parent id - flags
//	00 - 0af7651916cd43dd8448eb211c80319c - b7ad6b7169203331 - 01
//
// All are hexadecimal in lower case; version ff does not exist, ids are not all
// zero. Version 00 has just these 55 bytes; of a later one, which may go on behind
// another '-', the first 55 are returned.
func TraceParent(header string) string {
	const size = 55
	switch {
	case len(header) < size,
		header[2] != '-' || header[35] != '-' || header[52] != '-',
		!isHex(header[:2]) || header[:2] == "ff",
		!isID(header[3:35]) || !isID(header[36:52]) || !isHex(header[53:size]),
		!isSampled(header[size-1]),
		len(header) > size && (header[:2] == "00" || header[size] != '-'):
		return ""
	}
	return header[:size]
}

// isSampled reports whether the last digit of the flags has their lowest bit.
func isSampled(digit byte) bool {
	if digit >= 'a' {
		digit -= 'a' - 10
	}
	return digit&1 != 0
}

// isID reports whether s is hexadecimal and not all zero.
func isID(s string) bool {
	zero := true
	for i := range len(s) {
		zero = zero && s[i] == '0'
	}
	return !zero && isHex(s)
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
