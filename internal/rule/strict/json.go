package strict

import (
	"strconv"
	"unicode/utf8"
)

// Bounds of a JSON document. Beyond them every document is an error.
const (
	MaxDepth  = 32      // lists and objects inside each other
	maxFields = 256     // fields of one object
	MaxBytes  = 4 << 20 // length of the document
)

// ParseJSON reads one JSON value (RFC 8259) and nothing after it. Beyond the
// RFC it rejects what readers disagree about: field names given twice, invalid
// UTF-8, half surrogate pairs. The error is an *[Error].
func ParseJSON(doc []byte) (*Node, error) {
	n, err := ParsePartOfJSON(doc)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ParsePartOfJSON is [ParseJSON], but with an error it also returns what is before the
// mistake: the complete fields of an object.
func ParsePartOfJSON(doc []byte) (*Node, error) {
	if len(doc) > MaxBytes {
		return &Node{}, &Error{Reason: "the document has " + strconv.Itoa(len(doc)) + " bytes; at most " + strconv.Itoa(MaxBytes) + " are allowed"}
	}
	p := parser{doc: doc, line: 1}
	n, ok := p.value(0)
	if ok {
		if p.space(); p.at < len(doc) {
			p.fail("unexpected text after the end of the document; remove it")
		}
	}
	if p.err != nil {
		return &n, p.err
	}
	return &n, nil
}

// AppendString appends s as a JSON string in its one canonical form: only what
// must be escaped is, bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}

type parser struct {
	doc  []byte
	at   int // next byte
	line int
	bol  int // where the current line begins
	err  *Error
}

func (p *parser) pos() Pos { return Pos{Line: p.line, Column: p.at - p.bol + 1} }

// fail records the first mistake; others would only follow from it.
//
//go:noinline
func (p *parser) fail(reason string) {
	if p.err == nil {
		p.err = &Error{Pos: p.pos(), Reason: reason}
	}
}

// expected reports an unexpected character, and what was expected.
func (p *parser) expected(what string) {
	if p.at >= len(p.doc) {
		p.fail("the document ends where " + what + " is expected")
		return
	}
	p.fail("found " + strconv.QuoteRune(p.rune()) + " where " + what + " is expected")
}

func (p *parser) rune() rune {
	r, _ := utf8.DecodeRune(p.doc[p.at:])
	return r
}

func (p *parser) space() {
	for ; p.at < len(p.doc); p.at++ {
		switch p.doc[p.at] {
		case ' ', '\t', '\r':
		case '\n':
			p.line++
			p.bol = p.at + 1
		default:
			return
		}
	}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.doc) {
		return p.doc[p.at]
	}
	return 0
}

func (p *parser) value(depth int) (Node, bool) {
	p.space()
	n := Node{Pos: p.pos()}
	ok := false
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			p.fail("lists and objects are nested more than " + strconv.Itoa(MaxDepth) + " deep")
			return n, false
		}
		if c == '{' {
			ok = p.object(&n, depth)
		} else {
			ok = p.list(&n, depth)
		}
	case c == '"':
		n.Kind = String
		n.Text, ok = p.string()
	case c == '-' || isDigit(c):
		ok = p.number(&n)
	default:
		ok = p.literal(&n)
	}
	return n, ok
}

func (p *parser) literal(n *Node) bool {
	for _, l := range [...]struct {
		text string
		kind Kind
	}{{"null", Null}, {"true", Bool}, {"false", Bool}} {
		if len(p.doc)-p.at >= len(l.text) && string(p.doc[p.at:p.at+len(l.text)]) == l.text {
			n.Kind, n.Text = l.kind, l.text
			p.at += len(l.text)
			return true
		}
	}
	p.expected("a value")
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func (p *parser) digits() bool {
	start := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	if p.at == start {
		p.expected("a digit")
	}
	return p.at > start
}

func (p *parser) number(n *Node) bool {
	n.Kind = Int
	start := p.at
	if p.peek() == '-' {
		p.at++
	}
	zero := p.peek() == '0'
	first := p.at
	if !p.digits() {
		return false
	}
	if zero && p.at > first+1 {
		p.at = first
		p.fail("a number begins with 0; remove the leading zeros")
		return false
	}
	if p.peek() == '.' {
		n.Kind = Number
		p.at++
		if !p.digits() {
			return false
		}
	}
	if c := p.peek(); c == 'e' || c == 'E' {
		n.Kind = Number
		p.at++
		if c := p.peek(); c == '+' || c == '-' {
			p.at++
		}
		if !p.digits() {
			return false
		}
	}
	n.Text = string(p.doc[start:p.at])
	return true
}

func (p *parser) list(n *Node, depth int) bool {
	n.Kind = List
	for more := p.open(']'); more; {
		item, ok := p.value(depth + 1)
		if !ok {
			return false
		}
		n.Items = append(n.Items, item)
		if more, ok = p.next(']'); !ok {
			return false
		}
	}
	return true
}

func (p *parser) object(n *Node, depth int) bool {
	n.Kind = Object
	for more := p.open('}'); more; {
		if !p.field(n, depth) {
			return false
		}
		var ok bool
		if more, ok = p.next('}'); !ok {
			return false
		}
	}
	return true
}

// open passes the bracket that opens a list or an object; more is false if the next one
// closes it.
func (p *parser) open(end byte) (more bool) {
	p.at++
	if p.space(); p.peek() == end {
		p.at++
		return false
	}
	return true
}

// next passes what is behind an item: a comma, or the bracket that closes the list.
func (p *parser) next(end byte) (more, ok bool) {
	p.space()
	c := p.peek()
	if c != ',' && c != end {
		p.expected("',' or '" + string(end) + "'")
		return false, false
	}
	p.at++
	return c == ',', true
}

func (p *parser) field(n *Node, depth int) bool {
	p.space()
	f := Field{Pos: p.pos()}
	if p.peek() != '"' {
		p.expected("a field name in quotes")
		return false
	}
	if len(n.Fields) == maxFields {
		p.fail("an object has more than " + strconv.Itoa(maxFields) + " fields")
		return false
	}
	start, ok := p.at, false
	if f.Name, ok = p.string(); !ok {
		return false
	}
	if n.Field(f.Name) != nil {
		p.at = start
		p.fail("field " + Quote(f.Name) + " is given twice; remove one")
		return false
	}
	if p.space(); p.peek() != ':' {
		p.expected("':'")
		return false
	}
	p.at++
	if f.Value, ok = p.value(depth + 1); ok {
		n.Fields = append(n.Fields, f)
	}
	return ok
}
