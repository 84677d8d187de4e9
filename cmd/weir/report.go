package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/ruleset/finding"
)

// report is what is found in files, and how it is printed.
type report struct {
	format string
	strict bool     // warnings are mistakes
	ignore []string // codes of warnings
	out    io.Writer
	found  []finding.Finding
	files  []string
}

// file notes that a file is checked.
func (r *report) file(name string) { r.files = append(r.files, name) }

// fail reports what is wrong with a file.
func (r *report) fail(file string, err error) {
	for _, f := range finding.Mistakes(file, err) {
		r.add(f)
	}
}

// warn reports what is legal and likely not meant.
func (r *report) warn(f finding.Finding) {
	if !slices.Contains(r.ignore, f.Code) {
		r.add(f)
	}
}

// add keeps a finding, and prints it at once to people.
func (r *report) add(f finding.Finding) {
	r.found = append(r.found, f)
	r.printf("%s\n", cli.Escaped(f.String(), "\n\t")) // a name may have anything
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
		err = writeJSON(r.out, append([]finding.Finding{}, r.found...))
	case "junit":
		err = r.junit()
	}
	if err == nil && slices.ContainsFunc(r.found, r.fails) {
		return errReported
	}
	return err
}

// fails reports whether a finding fails the command.
func (r *report) fails(f finding.Finding) bool { return r.strict || !f.Warning }

// writeJSON prints a value for programs.
func writeJSON(to io.Writer, value any) error {
	return (&cli.Output{Output: "json"}).Print(to, value, nil, "")
}

// testCase and failure are those of JUnit.
type testCase struct {
	Name     string    `xml:"name,attr"`
	Class    string    `xml:"classname,attr"`
	Failures []failure `xml:"failure"`
	Out      string    `xml:"system-out,omitempty"`
}

type failure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// junit prints a test case for each file.
func (r *report) junit() error {
	var cases []testCase
	for _, file := range r.files {
		c := testCase{Name: file, Class: "weir.validate"}
		for _, f := range r.found {
			switch {
			case f.File != file:
			case r.fails(f):
				c.Failures = append(c.Failures, failure{f.Reason, f.Code, f.String()})
			default:
				c.Out += f.String() + "\n"
			}
		}
		cases = append(cases, c)
	}
	return writeJUnit(r.out, "weir rules validate", cases)
}

// writeJUnit prints test cases for programs.
func writeJUnit(to io.Writer, name string, cases []testCase) error {
	suite := struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testCase `xml:"testcase"`
	}{Name: name, Tests: len(cases), Cases: cases}
	for _, c := range cases {
		if len(c.Failures) > 0 {
			suite.Failures++
		}
	}
	out, err := xml.MarshalIndent(suite, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(to, "%s%s\n", xml.Header, out)
	}
	return err
}
