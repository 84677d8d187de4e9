package language

// Field is a field as language.yaml describes it.
type Field struct {
	Path, Description, Example, TestDir, TestName string
	Mistakes                                      map[string]string // and what to write instead
}

// Fields are all fields.
func Fields() (all []Field) {
	for _, s := range sections() {
		f := Field{Path: s.path, Description: s.field.get("description").text(), Example: s.field.get("example").text(), Mistakes: map[string]string{}}
		f.TestDir, f.TestName = s.field.testOf()
		for _, m := range s.field.get("mistakes").entries() {
			f.Mistakes[m.name] = m.value.text()
		}
		all = append(all, f)
	}
	return all
}
