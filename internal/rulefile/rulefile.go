// Package rulefile reads rules files: YAML, or JSON, which is YAML too.
//
// It only turns the text into a tree with positions. What the fields are called
// and what their values may be is known to package rule alone, which reads the
// compiled form in the same way; so a mistake has the same message everywhere, and
// here a file, a line and a column beside it. schema.json says the same to
// editors.
package rulefile

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Schema is the JSON Schema (2020-12) of a rules file.
//
//go:embed schema.json
var Schema []byte

// Error is one mistake in a rules file.
type Error struct {
	File string
	At   strict.Error
}

// Error returns "file:line:column: path: reason", without the parts that are not
// known.
func (e *Error) Error() string {
	sep := ":"
	if e.At.Pos.Line == 0 {
		sep = ": "
	}
	return e.File + sep + e.At.Error()
}

// Errors are all mistakes of a rules file, in the order of the file.
type Errors []Error

// Error returns one line for each mistake.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i := range es {
		lines[i] = es[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Parse reads a rules file. The file's name is only used in errors. The error, if
// any, is of type Errors.
func Parse(file string, data []byte) (*rule.Set, error) {
	var errs strict.Errors
	if root := parse(data, "rules: [] for no rules", &errs); root != nil {
		if set := rule.Read(strict.Root(root, &errs)); set != nil {
			return set, nil
		}
	}
	return nil, located(file, errs)
}

// ReadDocument reads another file as strictly as a rules file. What its fields may
// be is for read to say, and to report; nothing is what to write into an empty file,
// as in "rules: [] for no rules". The error, if any, is of type Errors.
func ReadDocument(file string, data []byte, nothing string, read func(doc strict.Value)) error {
	var errs strict.Errors
	if root := parse(data, nothing, &errs); root != nil {
		read(strict.Root(root, &errs))
	}
	if len(errs) > 0 {
		return located(file, errs)
	}
	return nil
}

func located(file string, errs strict.Errors) Errors {
	out := make(Errors, len(errs))
	for i, e := range errs {
		out[i] = Error{File: file, At: e}
	}
	slices.SortStableFunc(out, func(a, b Error) int { // what has no place comes first
		return cmp.Or(cmp.Compare(a.At.Pos.Line, b.At.Pos.Line), cmp.Compare(a.At.Pos.Column, b.At.Pos.Column))
	})
	return out
}
