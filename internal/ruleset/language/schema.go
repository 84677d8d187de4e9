package language

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// SchemaPath is where the JSON Schema is in the repository.
const SchemaPath = "schema/rules.schema.json"

// Schema returns the JSON Schema (2020-12) of rules files.
func Schema() []byte {
	var out, pretty bytes.Buffer
	write(&out, load(), false)
	if err := json.Indent(&pretty, out.Bytes(), "", "  "); err != nil {
		panic("language.yaml: " + err.Error())
	}
	return append(pretty.Bytes(), '\n')
}

// write writes a part as JSON. names is set for a mapping of names, which has no keywords.
func write(out *bytes.Buffer, p part, names bool) {
	switch p.Kind {
	case yaml.MappingNode:
		all := p.entries()
		if !names {
			all = standard(all)
		}
		out.WriteByte('{')
		for i, k := range all {
			comma(out, i)
			writeJSON(out, k.name)
			out.WriteByte(':')
			write(out, k.value, !names && (k.name == "properties" || k.name == "$defs"))
		}
		out.WriteByte('}')
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range p.items() {
			comma(out, i)
			write(out, item, false)
		}
		out.WriteByte(']')
	default:
		var value any
		if err := p.Decode(&value); err != nil {
			panic("language.yaml: " + err.Error())
		}
		writeJSON(out, value)
	}
}

// standard has the keywords of JSON Schema in the place of those that only language.yaml has.
func standard(keywords []entry) (all []entry) {
	for _, k := range keywords {
		switch k.name {
		case "absent", "test", "example", "mistakes":
		case "range":
			r := known(ranges, k.value)
			all = append(all, entry{name: "minimum", value: node(r.Low)}, entry{name: "maximum", value: node(r.High)})
		case "words":
			all = append(all, entry{name: "enum", value: node(known(words, k.value))})
		default:
			all = append(all, k)
		}
	}
	return all
}

// known is what language.go has by a name.
func known[T any](all map[string]T, name part) T {
	value, ok := all[name.Value]
	if !ok {
		panic(fmt.Sprintf("language.yaml:%d: %s is not in language.go", name.Line, name.Value))
	}
	return value
}

// node makes a part of a number or of words.
func node(value any) part {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic(err)
	}
	return part{&n}
}

func comma(out *bytes.Buffer, i int) {
	if i > 0 {
		out.WriteByte(',')
	}
}

func writeJSON(out *bytes.Buffer, value any) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
}
