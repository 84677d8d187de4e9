package rulefile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// text is the document as one file: each field of a rule, and each override, is on a line of its own.
func (m *merged) text() (out []byte) {
	for i := range m.root.Fields {
		f := &m.root.Fields[i]
		out = append(appendText(out, f.Name), ':')
		if !slices.Contains(listed, f.Name) || len(f.Value.Items) == 0 {
			out = append(appendValue(append(out, ' '), &f.Value), '\n')
			continue
		}
		var of *source
		for i := range f.Value.Items {
			if in := m.items[f.Name][i].in; in != of {
				out, of = fmt.Appendf(out, "\n# %q", filepath.Base(in.file)), in
			}
			out = appendItem(out, &f.Value.Items[i])
		}
		out = append(out, '\n')
	}
	return out
}

// appendItem appends a rule.
func appendItem(out []byte, n *strict.Node) []byte {
	bullet := "\n- "
	for i := range n.Fields {
		f := &n.Fields[i]
		out = append(appendText(append(out, bullet...), f.Name), ':')
		bullet = "\n  "
		if f.Name != "overrides" || len(f.Value.Items) == 0 {
			out = appendValue(append(out, ' '), &f.Value)
			continue
		}
		for j := range f.Value.Items {
			out = appendValue(append(out, "\n  - "...), &f.Value.Items[j])
		}
	}
	return out
}

// appendValue appends a value without line breaks.
func appendValue(out []byte, n *strict.Node) []byte {
	switch n.Kind {
	case strict.String:
		return appendText(out, n.Text)
	case strict.List:
		separator := "["
		for i := range n.Items {
			out = appendValue(append(out, separator...), &n.Items[i])
			separator = ", "
		}
		if len(n.Items) == 0 {
			out = append(out, '[')
		}
		return append(out, ']')
	case strict.Object:
		separator := "{ "
		for i := range n.Fields {
			out = append(appendText(append(out, separator...), n.Fields[i].Name), ": "...)
			out, separator = appendValue(out, &n.Fields[i].Value), ", "
		}
		if len(n.Fields) == 0 {
			out = append(out, '{')
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
