package language

import (
	"fmt"
	"strings"
)

// Reference returns the page that describes each field.
func Reference() []byte {
	all := sections()
	var b strings.Builder
	b.WriteString(`# What does each field mean?

This page is generated from [language.yaml](../internal/ruleset/language/language.yaml), and so is the
[JSON Schema](../` + SchemaPath + `). [How rules are written and changed](rules.md) is a page of its own.
Examples and mistakes show the lines of a rule, or for fields outside of ` + "`rules`" + ` of the file. A test reads all of them.

| field | write | without it | test |
| - | - | - | - |
`)
	for _, s := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", s.path, anchor(s.path), cell(s.field.form()), cell(s.absent()), s.test())
	}
	for _, s := range all {
		s.write(&b)
	}
	return []byte(b.String())
}

// anchor is that of a heading.
func anchor(path string) string { return strings.ReplaceAll(path, ".", "") }

// cell escapes what would end a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// code shows YAML, a line each.
func code(text string) string {
	return "`" + strings.Join(strings.Split(strings.TrimSpace(text), "\n"), "`<br>`") + "`"
}

// absent is what counts without the field.
func (s *section) absent() string {
	standard, other := s.field.get("default"), s.field.get("absent")
	switch {
	case s.required:
		return "required"
	case standard.Node != nil:
		return "`" + standard.text() + "`"
	case other.Node != nil:
		return other.text()
	}
	return "–"
}

// test is the test of the field: language.yaml has its directory, a dot, and the name of the function.
func (s *section) test() string {
	dir, name, _ := strings.Cut(s.field.get("test").text(), ".")
	return fmt.Sprintf("`%s` in `%s`", name, dir)
}

func (s *section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", s.path, s.field.get("description").text())
	fmt.Fprintf(b, "- Write %s.", s.field.form())
	if s.below != "" {
		fmt.Fprintf(b, " Its fields are those of [`%s`](#%s).", s.below, anchor(s.below))
	}
	if absent := s.absent(); absent == "required" {
		b.WriteString("\n- It is required.")
	} else if absent != "–" {
		fmt.Fprintf(b, "\n- Without it: %s.", absent)
	}
	fmt.Fprintf(b, "\n- Example: %s\n- Test: %s\n", code(s.field.get("example").text()), s.test())
	for i, m := range s.field.get("mistakes").entries() {
		if i == 0 {
			b.WriteString("\n| people write | write instead |\n| - | - |\n")
		}
		fmt.Fprintf(b, "| %s | %s |\n", cell(code(m.name)), cell(code(m.value.text())))
	}
}

// form is what may be written, in words.
func (p part) form() string {
	if title := p.get("title").text(); title != "" {
		return title
	}
	var list []string
	for _, w := range words[p.get("words").text()] {
		list = append(list, "`"+w+"`")
	}
	for _, w := range p.get("enum").items() {
		list = append(list, "`"+w.text()+"`")
	}
	forms := p.get("oneOf").items()
	if p.get("properties").Node != nil {
		forms = nil // these are conditions of a mapping
	}
	for i, form := range forms {
		text := form.form()
		if i > 0 && form.get("type").text() == "array" && form.get("items").form() == list[0] {
			text = "a list of these"
		}
		list = append(list, text)
	}
	switch {
	case len(list) == 1:
		return list[0]
	case len(list) > 1:
		return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
	case p.get("$ref").Node != nil:
		return p.target().form()
	}
	switch p.get("type").text() {
	case "integer":
		if r := p.get("range"); r.Node != nil {
			return "a whole number, " + known(ranges, r.text()).String()
		}
		return "a whole number, " + p.get("minimum").text() + " to " + p.get("maximum").text()
	case "boolean":
		return "`true` or `false`"
	case "array":
		return "a list, each " + p.get("items").form()
	case "object":
		fields, _ := p.fields()
		for _, f := range fields {
			list = append(list, "`"+f.name+"`")
		}
		return "a mapping with " + strings.Join(list, ", ")
	}
	return "a text"
}
