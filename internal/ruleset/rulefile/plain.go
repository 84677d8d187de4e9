package rulefile

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// The YAML library takes most of the time of a file with the limits of 100,000 keys: half a second and more in each process that
// follows the rules. So it reads only the first of lines that are one below the other and all of the form
//
//	- { name: acme, key: [acme, "10.0.0.1"], limit: 50000/1m, until: 2026-12-01T00:00:00Z }
//
// Plain reads the others, each as the YAML library does. It reads no other line.

// plain is a run of such lines.
type plain struct {
	column int           // of the first line's item
	below  []strict.Node // the items of the other lines
}

// leastRun is how many lines make it worth while to copy the text.
const leastRun = 100

// otherBreaks are what ends a line for the YAML library beside a line feed: in a text with one, lines have other numbers.
var otherBreaks = []string{"\r", "\u0085", "\u2028", "\u2029"}

// plainRuns finds the runs by the numbers of their first lines. rest is the text in which their other lines are empty, so
// that all others keep their numbers.
func plainRuns(text []byte) (rest []byte, runs map[int]plain) {
	var first, column, copied int // of the run that goes on: its line; how much of the text is in rest
	var below []strict.Node
	var second, end int // where its other lines begin and end
	finish := func() {
		if len(below) >= leastRun {
			if runs == nil {
				runs = map[int]plain{}
			}
			runs[first] = plain{column, below}
			rest = append(rest, text[copied:second]...)
			rest = append(rest, bytes.Repeat([]byte{'\n'}, len(below))...)
			copied = end
		}
		first, below = 0, nil
	}
	if slices.ContainsFunc(otherBreaks, func(b string) bool { return bytes.Contains(text, []byte(b)) }) {
		return text, nil
	}
	line := 0
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			break
		}
		line++
		item, ok := plainItem(text[at:at+n], line)
		switch {
		case ok && first > 0 && item.Pos.Column == column:
			below = append(below, item)
		case ok:
			finish()
			first, column, second = line, item.Pos.Column, at+n+1
		case first > 0:
			finish()
		}
		at += n + 1
		end = at
	}
	finish()
	if runs == nil {
		return text, nil
	}
	return append(rest, text[copied:]...), runs
}

// plainFields are the fields of an override by key.
var plainFields = []string{"name", "key", "hash", "limit", "limits", "until"}

// plainItem reads a line.
func plainItem(line []byte, number int) (item strict.Node, ok bool) {
	l := plainLine{text: line, number: number}
	for l.has(" ") {
	}
	if !l.has("- ") {
		return item, false
	}
	item = strict.Node{Kind: strict.Object, Pos: l.pos(), Fields: make([]strict.Field, 0, 2)}
	for separator := "{ "; l.has(separator); separator = ", " {
		f := strict.Field{Pos: l.pos(), Name: l.while(letter)}
		if !slices.Contains(plainFields, f.Name) || item.Field(f.Name) != nil || !l.has(": ") {
			return item, false
		}
		if f.Value, ok = l.value(); !ok {
			return item, false
		}
		item.Fields = append(item.Fields, f)
	}
	return item, len(item.Fields) > 0 && l.has(" }") && l.at == len(line)
}

// plainLine is a line that is read from left to right.
type plainLine struct {
	text   []byte
	at     int
	number int
}

func (l *plainLine) pos() strict.Pos { return strict.Pos{Line: l.number, Column: l.at + 1} }

// has reports whether the line goes on with a word, and passes it.
func (l *plainLine) has(word string) bool {
	if len(l.text)-l.at < len(word) || string(l.text[l.at:l.at+len(word)]) != word {
		return false
	}
	l.at += len(word)
	return true
}

// while passes the bytes that f likes.
func (l *plainLine) while(f func(byte) bool) string {
	from := l.at
	for l.at < len(l.text) && f(l.text[l.at]) {
		l.at++
	}
	return string(l.text[from:l.at])
}

// value reads a text, or a list of some.
func (l *plainLine) value() (n strict.Node, ok bool) {
	n = strict.Node{Kind: strict.List, Pos: l.pos()}
	for separator := "["; l.has(separator); separator = ", " {
		item, ok := l.scalar()
		if !ok {
			return n, false
		}
		n.Items = append(n.Items, item)
	}
	if len(n.Items) > 0 {
		return n, l.has("]")
	}
	return l.scalar()
}

// scalar reads a text: in quotes without an escape, or a plain one that is no other type of YAML, which is a word, a
// limit such as 5/1m or a time such as 2026-12-01T00:00:00Z.
func (l *plainLine) scalar() (n strict.Node, ok bool) {
	n = strict.Node{Kind: strict.String, Pos: l.pos()}
	if l.has(`"`) {
		n.Text = l.while(func(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' })
		return n, l.has(`"`)
	}
	n.Text = l.while(func(c byte) bool { return letter(c) || digit(c) || strings.IndexByte("-_/:", c) >= 0 })
	switch text := n.Text; {
	case text == "":
		return n, false
	case !strings.Contains(text, ":"):
		return n, letter(text[0]) && !isTyped(text) || strings.Contains(text, "/")
	default:
		_, err := time.Parse(time.RFC3339, text)
		return n, err == nil
	}
}

// isTyped reports whether a plain word is no text to YAML.
func isTyped(word string) bool {
	return strings.EqualFold(word, "true") || strings.EqualFold(word, "false") || strings.EqualFold(word, "null")
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func digit(c byte) bool { return '0' <= c && c <= '9' }
