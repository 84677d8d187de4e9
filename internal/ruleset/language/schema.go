package language

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// SchemaPath is where the JSON Schema is in the repository.
const SchemaPath = "schema/rules.schema.json"

const schemaID = "https://github.com/weirlimit/weir/raw/main/" + SchemaPath

// Schema returns the JSON Schema (2020-12) of rules files.
func Schema() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"` + schemaID + `",`)
	if err := writeFields(&out, load(), false); err != nil {
		return nil, err
	}
	out.WriteString("}\n")
	var pretty bytes.Buffer
	err := json.Indent(&pretty, out.Bytes(), "", "  ")
	return pretty.Bytes(), err
}

// write writes a part as JSON. names is set for a mapping of names, which has no keywords.
func write(out *bytes.Buffer, p part, names bool) error {
	switch p.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		if err := writeFields(out, p, names); err != nil {
			return err
		}
		out.WriteByte('}')
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, item := range p.items() {
			comma(out, i)
			if err := write(out, item, false); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		var value any
		if err := p.Decode(&value); err != nil {
			return err
		}
		return writeJSON(out, value)
	}
	return nil
}

func writeFields(out *bytes.Buffer, p part, names bool) error {
	n := 0
	for _, e := range p.entries() {
		fields := []entry{e}
		if !names {
			var err error
			if fields, err = standard(e); err != nil {
				return err
			}
		}
		for _, f := range fields {
			comma(out, n)
			n++
			fmt.Fprintf(out, "%q:", f.name)
			if err := write(out, f.value, !names && (f.name == "properties" || f.name == "$defs")); err != nil {
				return err
			}
		}
	}
	return nil
}

// standard are the keywords of JSON Schema that stand for one of language.yaml.
func standard(e entry) ([]entry, error) {
	node := func(value any) part {
		var n yaml.Node
		if err := n.Encode(value); err != nil {
			panic(err) // numbers and words
		}
		return part{&n}
	}
	switch e.name {
	case "absent", "test", "example", "mistakes":
		return nil, nil
	case "range":
		r, ok := ranges[e.value.Value]
		if !ok {
			return nil, fmt.Errorf("language.yaml:%d: range %s is not in language.go", e.value.Line, e.value.Value)
		}
		return []entry{{"minimum", node(r.Low)}, {"maximum", node(r.High)}}, nil
	case "words":
		list, ok := words[e.value.Value]
		if !ok {
			return nil, fmt.Errorf("language.yaml:%d: words %s are not in language.go", e.value.Line, e.value.Value)
		}
		return []entry{{"enum", node(list)}}, nil
	}
	return []entry{e}, nil
}

func comma(out *bytes.Buffer, index int) {
	if index > 0 {
		out.WriteByte(',')
	}
}

func writeJSON(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
