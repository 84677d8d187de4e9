// Package rulefile reads and replaces rules files: YAML, or JSON, which is YAML too.
//
// It turns the text into a tree with positions. Package read defines the fields, package check their values, and the compiled
// form is read in the same way. So a mistake has the same message everywhere, and here also a file, a line and a column. Package
// language describes the fields for people and editors.
package rulefile

import (
	"cmp"
	"strings"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Document is a rules file that has been parsed, or a directory of them. It is immutable.
type Document struct {
	Text []byte // of the file, or of one with the same rules as the directory
	Set  *rule.Set

	file   string
	root   *strict.Node
	merged *merged // nil: it is a file
}

// Section reads and checks a section of a document that is not about rules, and so is not part of the filter. set is nil
// if the rules have mistakes.
type Section func(doc strict.Value, set *rule.Set)

// Read parses a rules file, and has its sections read. The file's name is only used in errors. The error, if
// any, is of type [strict.Errors], in the order of the file.
func Read(file string, text []byte, sections ...Section) (*Document, error) {
	var errs strict.Errors
	if root := parse(text, "rules: [] for no rules", &errs); root != nil {
		if set := readRules(root, &errs, sections...); len(errs) == 0 {
			return &Document{Text: text, Set: set, file: file, root: root}, nil
		}
	}
	return nil, located(file, errs)
}

// readRules reads what people wrote; nil: the rules have mistakes.
func readRules(root *strict.Node, errs *strict.Errors, sections ...Section) *rule.Set {
	doc := strict.Root(root, errs)
	plainNames(doc)
	set := read.Document(doc, calendar.Windows)
	for i := range *errs {
		advise(&(*errs)[i], root)
	}
	for _, read := range sections {
		read(doc, set)
	}
	return set
}

// plainNames rejects names of rules as only the compiled form has them.
func plainNames(doc strict.Value) {
	for _, r := range items(doc.Field("rules")) {
		if name := r.Field("name"); name.Kind() == strict.String && strings.Contains(name.Node().Text, "@") {
			name.Fail(strict.Quote(name.Node().Text) + " has an @, which names a counter of a rule that has several; write limits, percent, variants or candidates, and a name without @")
		}
	}
}

// Merge parses files as [ReadFiles] reads them at path: a rules file, or those of a directory. The error is like that of
// [Read], file by file.
func Merge(path string, files []File, sections ...Section) (*Document, error) {
	if len(files) == 1 && files[0].Name == path {
		return Read(path, files[0].Data, sections...)
	}
	m := merge(path, files)
	var errs strict.Errors
	set := readRules(&m.root, &errs, sections...)
	m.report(errs)
	if err := m.err(); err != nil {
		return nil, err
	}
	text := m.text()
	if len(text) > MaxBytes {
		return nil, strict.Errors{{File: path, Reason: tooLarge}}
	}
	return &Document{Text: text, Set: set, root: &m.root, merged: m}, nil
}

// Load reads and parses a rules file, or a directory of them.
func Load(path string, sections ...Section) (*Document, error) {
	files, err := ReadFiles(path)
	if err != nil {
		return nil, err
	}
	return Merge(path, files, sections...)
}

// Place finds a path of the document, or the nearest place above it that exists: its file, its path there, and its position.
func (d *Document) Place(path string) strict.Error {
	place := strict.Error{File: d.file, Path: path, Pos: d.root.Find(path)}
	if d.merged != nil {
		d.merged.move(&place)
	}
	return place
}

// Places returns a function that finds where a field of a rule stands, or the nearest place above it that exists: its
// file, path and position. A rule that is one of several windows, variants or parts of one stands where that does, and a
// candidate among the candidates.
func (d *Document) Places() func(name, field string) strict.Error {
	index := map[string]string{}
	for i, item := range d.root.Field("rules").Items {
		if n := item.Field("name"); n != nil {
			index[n.Text] = strict.Index("rules", i)
		}
	}
	if list := d.root.Field("candidates"); list != nil {
		for i, item := range list.Items {
			index[item.Field("rule").Text+"@candidate"] = strict.Index("candidates", i)
		}
	}
	return func(name, field string) strict.Error {
		path := cmp.Or(index[name], index[rule.Written(name)])
		if path == "" {
			return strict.Error{File: d.file}
		}
		return d.Place(strings.TrimSuffix(path+"."+field, "."))
	}
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

// Root is the tree of the file, or of the files of a directory. It must not be changed.
func (d *Document) Root() *strict.Node { return d.root }

// ReadTree reads a tree like [Document.Root]; nil with mistakes.
func ReadTree(root *strict.Node) (*rule.Set, strict.Errors) {
	var errs strict.Errors
	if set := readRules(root, &errs); set != nil {
		return set, nil
	}
	return nil, errs
}
