// Package rulefile reads rules files: YAML, or JSON, which is YAML too. It also replaces them
// as a whole.
//
// Reading one only turns the text into a tree with positions. Package read alone defines the fields,
// package check their values, and the compiled form is read in the same way. So a mistake has the same
// message everywhere, and here also a file, a line and a column. Package language describes the fields for people and
// editors.
package rulefile

import (
	"math"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// File is a file of configuration as it was read.
type File struct {
	Name string
	Data []byte
	// Modified is the time of its last change; zero if it does not matter.
	Modified time.Time
}

// Document is a rules file that has been parsed. It is immutable.
type Document struct {
	Text []byte
	Set  *rule.Set
}

// Read parses a rules file. The file's name is only used in errors. The error, if
// any, is of type [strict.Errors], in the order of the file.
func Read(file string, text []byte) (*Document, error) {
	var errs strict.Errors
	if root := parse(text, "rules: [] for no rules", &errs); root != nil {
		doc := strict.Root(root, &errs)
		plainNames(doc)
		if set := read.Document(doc); set != nil {
			return &Document{Text: text, Set: set}, nil
		}
		for i := range errs {
			advise(&errs[i], root)
		}
	}
	return nil, located(file, errs)
}

// plainNames refuses names of rules as only the compiled form has them.
func plainNames(doc strict.Value) {
	rules := doc.Field("rules")
	if rules.Kind() != strict.List {
		return
	}
	for _, r := range rules.List(math.MaxInt, "") {
		if name := r.Field("name"); name.Kind() == strict.String && strings.Contains(name.Node().Text, "@") {
			name.Fail(strict.Quote(name.Node().Text) + " has an @, which names a counter of a rule that has several; write limits, percent, variants or candidates, and a name without @")
		}
	}
}

// Place returns where a field of a rule stands, or the nearest place above it that exists: its path, and its
// position. A rule that is one of several windows, variants or parts of one stands where that does.
func (d *Document) Place(name, field string) (path string, at strict.Pos) {
	name, _, _ = strings.Cut(name, "@")
	var errs strict.Errors
	root := parse(d.Text, "", &errs)
	for i, item := range root.Field("rules").Items {
		if n := item.Field("name"); n != nil && n.Text == name {
			path = strict.Index("rules", i) + "." + field
			return path, root.Find(path)
		}
	}
	return "", strict.Pos{}
}

// Parse is [Read] for who only needs the rules.
func Parse(file string, text []byte) (*rule.Set, error) {
	d, err := Read(file, text)
	if err != nil {
		return nil, err
	}
	return d.Set, nil
}

// ReadDocument reads another file as strictly as a rules file. read reads and checks its
// fields; nothing is the text to write into an empty file, as in "rules: [] for no rules".
// The error is like that of [Parse].
func ReadDocument(file string, data []byte, nothing string, read func(doc strict.Value)) error {
	var errs strict.Errors
	if root := parse(data, nothing, &errs); root != nil {
		read(strict.Root(root, &errs))
	}
	return located(file, errs)
}

// located returns the mistakes of a file as an error, nil if there are none.
func located(file string, errs strict.Errors) error {
	for i := range errs {
		errs[i].File = file
	}
	errs.SortFrom(0)
	return errs.Err()
}
