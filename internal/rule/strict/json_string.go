package strict

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func (p *parser) string() (string, bool) {
	p.at++
	start := p.at
	for p.at < len(p.doc) { // the usual string has nothing to decode
		switch c := p.doc[p.at]; {
		case c == '"':
			p.at++
			return string(p.doc[start : p.at-1]), true
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return p.decoded(append([]byte(nil), p.doc[start:p.at]...))
		}
		p.at++
	}
	p.expected("a closing quote")
	return "", false
}

// decoded reads the rest of a string whose beginning is in buf.
func (p *parser) decoded(buf []byte) (string, bool) {
	for p.at < len(p.doc) {
		switch c := p.doc[p.at]; {
		case c == '"':
			p.at++
			return string(buf), true
		case c == '\\':
			r, ok := p.escape()
			if !ok {
				return "", false
			}
			buf = utf8.AppendRune(buf, r)
		case c < ' ':
			p.fail("a control character stands in a string; escape it")
			return "", false
		default:
			r, size := utf8.DecodeRune(p.doc[p.at:])
			if r == utf8.RuneError && size == 1 {
				p.fail("a string is not valid UTF-8; encode it")
				return "", false
			}
			buf = append(buf, p.doc[p.at:p.at+size]...)
			p.at += size
		}
	}
	p.expected("a closing quote")
	return "", false
}

func (p *parser) escape() (rune, bool) {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	p.at++
	if p.peek() == 'u' {
		return p.unicode()
	}
	for i := range len(from) {
		if p.peek() == from[i] {
			p.at++
			return rune(to[i]), true
		}
	}
	p.expected(`one of "\/bfnrtu`)
	return 0, false
}

// unicode reads uXXXX, and the second half of a surrogate pair after it.
func (p *parser) unicode() (rune, bool) {
	r, ok := p.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if p.at+1 < len(p.doc) && p.doc[p.at] == '\\' && p.doc[p.at+1] == 'u' {
		p.at++
		low, ok := p.hex4()
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, true
		}
	}
	p.fail("a \\u escape is half of a surrogate pair; write both halves or the character itself")
	return 0, false
}

func (p *parser) hex4() (rune, bool) {
	p.at++
	if p.at+4 <= len(p.doc) {
		if r, err := strconv.ParseUint(string(p.doc[p.at:p.at+4]), 16, 16); err == nil {
			p.at += 4
			return rune(r), true
		}
	}
	p.fail("\\u must be followed by four hexadecimal digits")
	return 0, false
}
