// Package language describes the rule language for people and editors. language.yaml has each field with its meaning, values,
// an example, frequent mistakes and its test. Package read is the reader; tests compare both, and make the JSON Schema and the
// reference.
//
// To add a field, write it into language.yaml and run `make generate`.
package language

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed language.yaml
var text []byte

// part is a schema, or another mapping or list of language.yaml. The zero value is one that is absent.
type part struct{ *yaml.Node }

// load reads language.yaml, which is part of the program and has no mistake.
var load = sync.OnceValue(func() part {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic("language.yaml: " + err.Error())
	}
	return part{doc.Content[0]}
})

// entry is a field of a mapping.
type entry struct {
	name     string
	value    part
	required bool // a schema requires it
}

// entries are the fields of a mapping, in their order.
func (p part) entries() (all []entry) {
	if p.Node == nil || p.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(p.Content); i += 2 {
		value := p.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		all = append(all, entry{name: p.Content[i].Value, value: part{value}})
	}
	return all
}

// items are those of a list.
func (p part) items() (all []part) {
	if p.Node == nil || p.Kind != yaml.SequenceNode {
		return nil
	}
	for _, n := range p.Content {
		all = append(all, part{n})
	}
	return all
}

// get is the field of that name.
func (p part) get(name string) part {
	for _, e := range p.entries() {
		if e.name == name {
			return e.value
		}
	}
	return part{}
}

// text is that of a scalar.
func (p part) text() string {
	if p.Node == nil {
		return ""
	}
	return p.Value
}

// target follows a $ref.
func (p part) target() part {
	name, ok := strings.CutPrefix(p.get("$ref").text(), "#/$defs/")
	if !ok {
		return p
	}
	return load().get("$defs").get(name).target()
}

// fields are the fields that a value of a schema may have, be it one of several forms or in a list; any are the schemas
// of fields with any name.
func (p part) fields() (fields []entry, any []part) {
	p = p.target()
	fields = p.get("properties").entries()
	for _, name := range p.get("required").items() {
		if i := slices.IndexFunc(fields, func(f entry) bool { return f.name == name.Value }); i >= 0 {
			fields[i].required = true
		}
	}
	if others := p.get("additionalProperties"); others.entries() != nil {
		any = append(any, others)
	}
	for _, form := range append(p.get("oneOf").items(), p.get("items")) {
		if form.Node != nil {
			f, a := form.fields()
			fields, any = append(fields, without(f, fields)...), append(any, a...)
		}
	}
	return fields, any
}

// without are the fields that others do not have: a list of values has those of the value beside it.
func without(fields, others []entry) []entry {
	return slices.DeleteFunc(fields, func(f entry) bool {
		return slices.ContainsFunc(others, func(o entry) bool { return o.name == f.name })
	})
}
