package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/language"
)

// finding is one mistake or warning as programs get it. Line and column count from
// 1; 0 means that the place is unknown.
type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Code    string `json:"code"` // of a mistake the field, of a warning a heading of docs/warnings.md
	Page    string `json:"page"` // in the repository, about the code
	Reason  string `json:"reason"`
	Warning bool   `json:"warning,omitempty"` // no mistake
}

// text is a finding as people read it.
func (f *finding) text() string {
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

// report is what is found in files, and how it is printed.
type report struct {
	format string
	strict bool     // warnings are mistakes
	ignore []string // codes of warnings
	out    io.Writer
	found  []finding
	files  []string
}

// file notes that a file is checked.
func (r *report) file(name string) { r.files = append(r.files, name) }

// fail reports what is wrong with a file.
func (r *report) fail(file string, err error) {
	var mistakes strict.Errors
	if !errors.As(err, &mistakes) {
		mistakes = strict.Errors{{File: file, Reason: err.Error()}}
	}
	for _, m := range mistakes {
		code, page := codeOf(m.Path)
		r.add(finding{m.File, m.Pos.Line, m.Pos.Column, m.Path, code, page, m.Reason, false})
	}
}

// warn reports what is legal and likely not meant.
func (r *report) warn(code string, e strict.Error) {
	if !slices.Contains(r.ignore, code) {
		r.add(finding{e.File, e.Pos.Line, e.Pos.Column, e.Path, code, warningsPage + "#" + code, e.Reason, true})
	}
}

// add keeps a finding, and prints it at once to people.
func (r *report) add(f finding) {
	r.found = append(r.found, f)
	r.printf("%s\n", f.text())
}

// printf prints to people alone.
func (r *report) printf(format string, args ...any) {
	if r.format == "text" {
		fmt.Fprintf(r.out, format, args...)
	}
}

// end prints the report to programs, and fails if there are mistakes.
func (r *report) end() error {
	var err error
	switch r.format {
	case "json":
		out := json.NewEncoder(r.out)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		err = out.Encode(append([]finding{}, r.found...))
	case "junit":
		err = r.junit()
	}
	if err == nil && slices.ContainsFunc(r.found, r.fails) {
		return errReported
	}
	return err
}

// fails reports whether a finding fails the command.
func (r *report) fails(f finding) bool { return r.strict || !f.Warning }

// junit prints a test case for each file.
func (r *report) junit() error {
	type failure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
	type testCase struct {
		Name     string    `xml:"name,attr"`
		Class    string    `xml:"classname,attr"`
		Failures []failure `xml:"failure"`
		Out      string    `xml:"system-out,omitempty"`
	}
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}{Name: "weir validate"}
	for _, file := range r.files {
		c := testCase{Name: file, Class: "weir.validate"}
		for _, f := range r.found {
			switch {
			case f.File != file:
			case r.fails(f):
				c.Failures = append(c.Failures, failure{f.Reason, f.Code, f.text()})
			default:
				c.Out += f.text() + "\n"
			}
		}
		suite.Tests++
		if len(c.Failures) > 0 {
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
	}
	out, err := xml.MarshalIndent(suite, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(r.out, "%s%s\n", xml.Header, out)
	}
	return err
}
