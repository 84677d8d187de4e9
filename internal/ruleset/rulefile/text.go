package rulefile

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// text is the document as one file: each field of a rule, and each override, on a line of its own.
func (m *merged) text() (out []byte) {
	for _, f := range m.root.Fields {
		out = append(appendText(out, f.Name), ':')
		if !slices.Contains(listed, f.Name) || len(f.Value.Items) == 0 {
			out = append(appendValue(append(out, ' '), &f.Value), '\n')
			continue
		}
		out = append(out, '\n')
		var of *source
		for i := range f.Value.Items {
			if in := m.items[f.Name][i].in; in != of {
				of = in
				out = append(append(append(out, "# "...), strconv.Quote(filepath.Base(in.file))...), '\n')
			}
			out = appendItem(out, &f.Value.Items[i])
		}
	}
	return out
}

// appendItem appends a rule.
func appendItem(out []byte, n *strict.Node) []byte {
	for i := range n.Fields {
		f := &n.Fields[i]
		bullet := "  "
		if i == 0 {
			bullet = "- "
		}
		out = append(appendText(append(out, bullet...), f.Name), ':')
		if f.Name != "overrides" || len(f.Value.Items) == 0 {
			out = append(appendValue(append(out, ' '), &f.Value), '\n')
			continue
		}
		for j := range f.Value.Items {
			out = appendValue(append(out, "\n  - "...), &f.Value.Items[j])
		}
		out = append(out, '\n')
	}
	return out
}

// appendValue appends a value without line breaks.
func appendValue(out []byte, n *strict.Node) []byte {
	switch n.Kind {
	case strict.String:
		return appendText(out, n.Text)
	case strict.List:
		out = append(out, '[')
		for i := range n.Items {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = appendValue(out, &n.Items[i])
		}
		return append(out, ']')
	case strict.Object:
		for i := range n.Fields {
			separator := ", "
			if i == 0 {
				separator = "{ "
			}
			out = append(appendText(append(out, separator...), n.Fields[i].Name), ": "...)
			out = appendValue(out, &n.Fields[i].Value)
		}
		if len(n.Fields) == 0 {
			return append(out, "{}"...)
		}
		return append(out, " }"...)
	}
	return append(out, n.Text...)
}

// plainText is what needs no quotes, but for typed words: a name such as login, or a limit such as 5/1m.
var plainText = regexp.MustCompile(`^([a-z][a-z0-9_-]+|[0-9]+/[0-9]+[a-z]+)$`)

var typed = []string{"null", "true", "false", "yes", "no", "on", "off"}

// appendText appends a text. What Go escapes YAML reads as the same.
func appendText(out []byte, text string) []byte {
	if plainText.MatchString(text) && !slices.Contains(typed, text) {
		return append(out, text...)
	}
	return strconv.AppendQuote(out, text)
}
