package descriptor

import "unicode/utf8"

// A path is "domain|key=value|key": levels end at |, keys at the first =. Where
// these occur in a domain or key, and | in a value, they are written as %XX, as are
// %, control characters and what is not UTF-8: two paths are equal only if their
// parts are, and every path is a legal label.

// appendKeyName appends a domain or a key.
func appendKeyName(dst []byte, s string) []byte { return appendEscaped(dst, s, '=') }

// appendLevel appends a level; without a value there is only the key.
func appendLevel(dst []byte, key, value string) []byte {
	dst = appendKeyName(append(dst, '|'), key)
	if value == "" {
		return dst
	}
	return appendEscaped(append(dst, '='), value, '|')
}

// appendEscaped appends s with %, |, control characters, bytes that are not UTF-8,
// and also as %XX.
func appendEscaped(dst []byte, s string, also byte) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); {
		c, size := s[i], 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[i:]); r < 0xa0 {
				size = 1 // a control character
			}
		}
		if size == 1 && (c < ' ' || c >= 0x7f || c == '%' || c == '|' || c == also) {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return dst
}
