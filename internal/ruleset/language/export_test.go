package language

// Field is a field as language.yaml describes it.
type Field struct {
	Path, Description, Example, Test string
	Mistakes                         map[string]string // and what to write instead
}

// Fields are all fields.
func Fields() (all []Field) {
	for _, s := range sections() {
		text := func(name string) string { return s.field.get(name).text() }
		f := Field{s.path, text("description"), text("example"), text("test"), map[string]string{}}
		for _, m := range s.field.get("mistakes").entries() {
			f.Mistakes[m.name] = m.value.text()
		}
		all = append(all, f)
	}
	return all
}
