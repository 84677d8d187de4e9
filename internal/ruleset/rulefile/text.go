package rulefile

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// text is the document as one file: each field of a rule, and each override, is on a line of its own.
func (m *merged) text() ([]byte, error) {
	doc := block(&m.root)
	for i := range m.root.Fields {
		f, of := &m.root.Fields[i], (*source)(nil)
		if !slices.Contains(listed, f.Name) {
			continue
		}
		list := block(&f.Value)
		for j := range f.Value.Items {
			item := block(&f.Value.Items[j])
			if overrides := f.Value.Items[j].Field("overrides"); overrides != nil {
				at := slices.IndexFunc(item.Content, func(n *yaml.Node) bool { return n.Value == "overrides" })
				item.Content[at+1] = block(overrides)
			}
			if in := m.items[f.Name][j].in; in != of {
				item.HeadComment, of = "# "+strconv.Quote(filepath.Base(in.file)), in
			}
			list.Content[j] = item
		}
		doc.Content[2*i+1] = list
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(doc)
	return out.Bytes(), err
}

// block is a mapping or a list with a line for each field or item.
func block(n *strict.Node) *yaml.Node {
	out := flow(n)
	out.Style = 0
	return out
}

// flow is a value on one line.
func flow(n *strict.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.ScalarNode, Value: n.Text}
	switch n.Kind {
	case strict.String:
		_ = out.Encode(n.Text) // with quotes, if it needs them
	case strict.List:
		out.Kind, out.Style = yaml.SequenceNode, yaml.FlowStyle
		for i := range n.Items {
			out.Content = append(out.Content, flow(&n.Items[i]))
		}
	case strict.Object:
		out.Kind, out.Style = yaml.MappingNode, yaml.FlowStyle
		for i := range n.Fields {
			name := strict.Node{Kind: strict.String, Text: n.Fields[i].Name}
			out.Content = append(out.Content, flow(&name), flow(&n.Fields[i].Value))
		}
	}
	return out
}
