package language

import (
	"bytes"
	"encoding/json"
)

// SchemaPath is where the JSON Schema is in the repository.
const SchemaPath = "schema/rules.schema.json"

// Schema returns the JSON Schema (2020-12) of rules files.
func Schema() []byte {
	var schema map[string]any
	if err := load().Decode(&schema); err != nil {
		panic("language.yaml: " + err.Error())
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(standard(schema)); err != nil {
		panic("language.yaml: " + err.Error())
	}
	return out.Bytes()
}

// standard is a value of a schema without the keywords that only language.yaml has.
func standard(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = standard(v[i])
		}
	case map[string]any:
		for keyword, of := range v {
			switch keyword {
			case "absent", "test", "example", "mistakes":
				delete(v, keyword)
			case "range":
				r := known(ranges, of.(string))
				delete(v, keyword)
				v["minimum"], v["maximum"] = r.Low, r.High
			case "words":
				delete(v, keyword)
				v["enum"] = known(words, of.(string))
			case "properties", "$defs": // have names in the place of keywords
				for name, named := range of.(map[string]any) {
					of.(map[string]any)[name] = standard(named)
				}
			default:
				v[keyword] = standard(of)
			}
		}
	}
	return value
}

// known is what language.go has by a name.
func known[T any](all map[string]T, name string) T {
	value, ok := all[name]
	if !ok {
		panic("language.yaml: " + name + " is not in language.go")
	}
	return value
}
