package convert

import (
	"bytes"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

const rulesHead = `# Rules for weir-regional --rules, converted from a configuration of envoyproxy/ratelimit.
# The file of --ratelimit-bindings binds descriptors to these rules and ignores key and match.
# Before PoPs use the rules, replace each header x-descriptor-* by the header that Envoy sends
# under that key.
`

const bindingsHead = `# Bindings for weir-regional --ratelimit-bindings, to the rules that were converted with them.
# With unbound: true, a value is excluded from the binding for any value beside it.
`

// made is a rule as the rules file has it.
type made struct {
	Name           string
	Mode           string     `yaml:",omitempty"`
	Match          conditions `yaml:",omitempty,flow"`
	Key            []header   `yaml:",flow"`
	Limit          string
	Algorithm      string
	ChargeRejected bool   `yaml:"charge_rejected,omitempty"`
	Consistency    string `yaml:",omitempty"`
	OnFailure      string `yaml:"on_failure,omitempty"`

	from string // its rate limit
}

type conditions struct {
	Header map[string]any `yaml:",omitempty,flow"` // a text, or present
}

type header struct{ Header string }

// present is the condition that a header has any value.
type present struct{ Present bool }

// bound is a binding as its file has it.
type bound struct {
	Domain     string
	Descriptor []entry `yaml:",flow"`
	Unbound    bool    `yaml:",omitempty"`
	Rule       string  `yaml:",omitempty"`

	from string // its rate limit or level
}

type entry struct {
	Key   string
	Value string `yaml:",omitempty"`
}

func (m made) source() string  { return m.from }
func (b bound) source() string { return b.from }

// writeList writes a file with a list of this name. The comment before each item is its source.
func writeList[T interface{ source() string }](head, name string, items []T) ([]byte, error) {
	list := yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range items {
		n := new(yaml.Node)
		if err := n.Encode(item); err != nil {
			return nil, err
		}
		n.HeadComment = "# " + comment(item.source())
		list.Content = append(list.Content, n)
	}
	out := bytes.NewBufferString(head)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	err := encoder.Encode(map[string]*yaml.Node{name: &list})
	return out.Bytes(), err
}

// comment is a text without what a comment cannot have.
func comment(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
