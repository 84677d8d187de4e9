package language

import (
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// ReferencePath is where the reference is in the repository.
const ReferencePath = "docs/reference.md"

// section describes a field, where it is used first, in the reference.
type section struct {
	path     string // such as rules.limit.count
	field    part
	required bool
	below    string // the path of the section whose fields it has, too; empty: none, or its own are described below it
}

// sections are those of all fields, in the order of the language.
var sections = sync.OnceValue(func() (all []section) {
	described := map[any]string{} // by the first field of a mapping: the path that has it
	var walk func(path string, in part)
	walk = func(path string, in part) {
		fields, any := in.fields()
		for _, f := range fields {
			s := section{path: strict.Join(path, f.name), field: f.value, required: f.required}
			first, below := f.value.fields()
			for _, a := range below {
				more, _ := a.fields()
				first = append(first, more...)
			}
			if len(first) > 0 {
				s.below = described[first[0].value.Node]
			}
			all = append(all, s)
			if len(first) > 0 && s.below == "" {
				described[first[0].value.Node] = s.path
				walk(s.path, f.value)
			}
		}
		for _, a := range any {
			walk(path, a)
		}
	}
	walk("", load())
	return all
})

// Section returns the path of the section of [ReferencePath] for a field, given the path of a mistake such as
// rules[2].overrides[0].limit.count: here rules.limit.count. It is empty for the document itself. The section's
// heading is the path, and its anchor the path without dots.
func Section(path string) string {
	at, found := load(), ""
	for path != "" && at.Node != nil {
		var name string
		name, path, _ = strings.Cut(path, ".")
		name, _, _ = strings.Cut(name, "[")
		fields, any := at.fields()
		if i := slices.IndexFunc(fields, func(f entry) bool { return f.name == name }); i >= 0 {
			at = fields[i].value
			if i := slices.IndexFunc(sections(), func(s section) bool { return s.field.Node == at.Node }); i >= 0 {
				found = sections()[i].path
			}
		} else if len(any) > 0 {
			at = any[0]
		} else {
			break
		}
	}
	return found
}
