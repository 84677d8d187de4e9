package rulefile

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// text is the document as one file: each field of a rule, and each override, is on a line of its own.
func (m *merged) text() (out []byte) {
	for i := range m.root.Fields {
		f, of := &m.root.Fields[i], (*source)(nil)
		if !slices.Contains(listed, f.Name) || len(f.Value.Items) == 0 {
			out = appendField(out, f)
			continue
		}
		out = append(out, f.Name+":\n"...)
		for j := range f.Value.Items {
			if in := m.items[f.Name][j].in; in != of {
				out, of = append(out, "  # "+strconv.Quote(filepath.Base(in.file))+"\n"...), in
			}
			out = appendItem(out, &f.Value.Items[j])
		}
	}
	return out
}

// appendItem appends a rule or a candidate, which is not empty.
func appendItem(out []byte, n *strict.Node) []byte {
	indent := "  - "
	for i := range n.Fields {
		f := &n.Fields[i]
		out, indent = append(out, indent...), "    "
		if f.Name != "overrides" || len(f.Value.Items) == 0 {
			out = appendField(out, f)
			continue
		}
		out = append(out, "overrides:\n"...)
		for j := range f.Value.Items {
			out = append(appendValue(append(out, "      - "...), &f.Value.Items[j]), '\n')
		}
	}
	return out
}

// appendField appends a line.
func appendField(out []byte, f *strict.Field) []byte {
	return append(appendValue(append(appendText(out, f.Name), ": "...), &f.Value), '\n')
}

// appendValue appends a value on one line.
func appendValue(out []byte, n *strict.Node) []byte {
	separator := ""
	switch n.Kind {
	case strict.String:
		return appendText(out, n.Text)
	case strict.List:
		out = append(out, '[')
		for i := range n.Items {
			out, separator = appendValue(append(out, separator...), &n.Items[i]), ", "
		}
		return append(out, ']')
	case strict.Object:
		out = append(out, "{ "...)
		for i := range n.Fields {
			out = append(appendText(append(out, separator...), n.Fields[i].Name), ": "...)
			out, separator = appendValue(out, &n.Fields[i].Value), ", "
		}
		return append(out, " }"...)
	}
	return append(out, n.Text...)
}

// appendText appends a text, in quotes if it needs them: what Go escapes YAML reads as the same.
func appendText(out []byte, text string) []byte {
	if plain.MatchString(text) && !words.MatchString(text) {
		return append(out, text...)
	}
	return strconv.AppendQuoteToASCII(out, text)
}

// plain are names and limits, which need no quotes; words are those of YAML that are no strings, in any version of it.
var (
	plain = regexp.MustCompile(`^(?:[A-Za-z][A-Za-z0-9_./-]*|[0-9]+/[0-9]*[a-z]+)$`)
	words = regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`)
)
