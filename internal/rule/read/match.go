package read

import (
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// match reads a condition; fields are those of its place.
func (d *reader) match(v strict.Value, fields rule.ConditionFields) (m rule.Match) {
	if !v.Present() || !v.Object(conditionFields(fields)...) {
		return m
	}
	m.Methods = stringOrList(v.Field(fields.Methods), "a method such as POST, or a list of them")
	m.Hosts = stringOrList(v.Field(fields.Hosts), "a host such as api.example.com or *.example.com, or a list of them")
	if path := v.Field("path"); path.Kind() == strict.List {
		for _, item := range path.List(rule.MaxAlternatives, "") {
			m.Paths = append(m.Paths, d.text(item, pathFields, pathForms))
		}
		nonEmpty(path)
	} else if path.Present() {
		m.Paths = []rule.Text{d.text(path, pathFields, pathForms)}
	}
	headers := v.Field(fields.Headers)
	if headers.Is(strict.Object, "a mapping of header names to values, such as { x-tier: gold }") {
		nonEmpty(headers)
		for _, name := range headers.Names() {
			m.Headers = append(m.Headers, rule.HeaderMatch{Name: name, Text: d.text(headers.Field(name), headerFields, headerForms)})
		}
	}
	if ignore, _ := v.Field("ignore_case").Bool(); ignore {
		m.Ignore |= rule.IgnoreCase
	}
	if ignore, _ := v.Field("trailing_slash").Enum("exact", "ignore"); ignore == 1 {
		m.Ignore |= rule.IgnoreTrailingSlash
	}
	if ignore, _ := v.Field("path_parameters").Enum("exact", "ignore"); ignore == 1 {
		m.Ignore |= rule.IgnorePathParameters
	}
	return m
}

// nonEmpty reports a list or mapping that holds for nothing, or for everything:
// people mean both by it.
func nonEmpty(v strict.Value) {
	if len(v.Node().Items)+len(v.Node().Fields) == 0 {
		v.Fail("is empty; leave it out to match everything")
	}
}

func stringOrList(v strict.Value, want string) []string {
	if v.Kind() == strict.String {
		s, _ := v.String(want)
		return []string{s}
	}
	var out []string
	for _, item := range v.List(rule.MaxAlternatives, want) {
		s, _ := item.String(want)
		out = append(out, s)
	}
	if v.Kind() == strict.List {
		nonEmpty(v)
	}
	return out
}

const (
	pathForms   = "a path such as /login, or { prefix: /v1/ }, or { template: '/users/{id}' }, or { regex: '/users/[0-9]+' }"
	headerForms = "a value, or one of { prefix: v }, { regex: 'v[0-9]+' }, { present: true }"
)

// text reads a string, or a mapping with exactly one of exact, prefix, regex, for
// paths template and for headers present.
func (d *reader) text(v strict.Value, fields []string, forms string) rule.Text {
	if v.Kind() != strict.Object {
		s, _ := v.String(forms)
		return rule.Text{Op: rule.OpExact, Arg: s}
	}
	if !v.Object(fields...) {
		return rule.Text{}
	}
	if len(v.Names()) != 1 {
		v.Fail("has " + strconv.Itoa(len(v.Names())) + " fields; write " + forms)
		return rule.Text{}
	}
	name := v.Names()[0]
	field := v.Field(name)
	if name == rule.OpPresent.String() {
		if present, _ := field.Bool(); present {
			return rule.Text{Op: rule.OpPresent}
		}
		return rule.Text{Op: rule.OpAbsent}
	}
	op := rule.ParseWord[rule.Op](name)
	s, _ := field.String([...]string{rule.OpExact: forms, rule.OpPrefix: "a prefix", rule.OpRegex: "a regular expression", rule.OpTemplate: "a template"}[op])
	return rule.Text{Op: op, Arg: s}
}
