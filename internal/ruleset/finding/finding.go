// Package finding has mistakes in rules, and warnings, in a form for programs: each with its place, a code and the page of the
// code.
package finding

import (
	"errors"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/language"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Finding is one mistake or warning.
type Finding struct {
	File    string `json:"file" doc:"File, or document."`
	Line    int    `json:"line" doc:"From 1; 0: unknown."`
	Column  int    `json:"column" doc:"From 1; 0: unknown."`
	Path    string `json:"path" doc:"Of the field, such as rules[0].limit."`
	Code    string `json:"code" doc:"Of a mistake the field, of a warning a heading of docs/warnings.md."`
	Page    string `json:"page" doc:"In the repository, about the code."`
	Reason  string `json:"reason" doc:"What is wrong, and what to write instead."`
	Warning bool   `json:"warning,omitempty" doc:"It is legal, and likely not meant."`
}

// String is a finding as people read it.
func (f *Finding) String() string {
	if f.Path == "" && strings.Contains(f.Reason, f.File) { // the system's words
		return f.Reason
	}
	e := strict.Error{File: f.File, Pos: strict.Pos{Line: f.Line, Column: f.Column}, Path: f.Path, Reason: f.Reason}
	if f.Warning {
		return "warning: " + e.Error() + " [" + f.Code + "]"
	}
	return e.Error()
}

const (
	warningsPage = "docs/warnings.md"
	noField      = "document" // the code of a mistake that is in no field
)

// codeOf is the code of a mistake: the field in which it is.
func codeOf(path string) (code, page string) {
	if code = language.Section(path); code == "" {
		return noField, language.ReferencePath
	}
	return code, language.ReferencePath + "#" + strings.ReplaceAll(code, ".", "")
}

// Mistakes are what an error states about a file.
func Mistakes(file string, err error) (all []Finding) {
	var mistakes strict.Errors
	if !errors.As(err, &mistakes) {
		mistakes = strict.Errors{{File: file, Reason: err.Error()}}
	}
	for _, m := range mistakes {
		code, page := codeOf(m.Path)
		all = append(all, Finding{m.File, m.Pos.Line, m.Pos.Column, m.Path, code, page, m.Reason, false})
	}
	return all
}

// Warning is a warning of a code at a place.
func Warning(code string, at strict.Error) Finding {
	return Finding{at.File, at.Pos.Line, at.Pos.Column, at.Path, code, warningsPage + "#" + code, at.Reason, true}
}

// Warnings are those about a document. now is the time by which an override is over.
func Warnings(d *rulefile.Document, now time.Time) (all []Finding) {
	found := lint.Check(d.Set, now)
	if len(found) == 0 {
		return nil
	}
	place := d.Places()
	for _, w := range found {
		at := place(w.Rule, w.Field)
		at.Reason = w.Reason
		all = append(all, Warning(w.Code, at))
	}
	return all
}
