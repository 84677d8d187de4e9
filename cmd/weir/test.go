package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
)

type testCmd struct {
	Files    []string `arg:"" name:"file" predictor:"file" help:"Rules files, YAML or JSON, or directories of them; all are read as one document."`
	Only     string   `name:"run" placeholder:"TEXT" help:"Run the tests that have this text in their names."`
	Coverage bool     `help:"Also list the rules, overrides and alternatives of conditions that no test reaches."`
	Output   string   `short:"o" enum:"text,json,junit" default:"text" help:"How to print the result: text, or json or junit for programs."`
}

// Validate returns a mistake in the command line.
func (c *testCmd) Validate() error {
	if c.Coverage && c.Output != "text" {
		return errors.New("--coverage is printed as text alone; leave out -o")
	}
	return nil
}

// tested is a test that ran.
type tested struct {
	*ruletests.Test
	Failure *ruletests.Failure `json:"failure,omitempty"`
}

// Run runs the tests, whatever becomes of the first.
func (c *testCmd) Run(stdout io.Writer) error {
	names := strings.Join(c.Files, " ")
	var files []rulefile.File
	var suite *ruletests.Suite
	var err error
	for i := 0; i < len(c.Files) && err == nil; i++ {
		var more []rulefile.File
		more, err = rulefile.ReadFiles(c.Files[i])
		files = append(files, more...)
	}
	if err == nil {
		suite, err = ruletests.Read(names, files)
	}
	if err != nil {
		r := &report{format: c.Output, out: stdout, files: c.Files}
		r.fail(names, err)
		return r.end()
	}
	var seen *ruletests.Coverage
	if c.Coverage {
		seen = suite.Coverage()
	}
	all, failed := []tested{}, 0
	for i := range suite.Tests {
		t := &suite.Tests[i]
		if !strings.Contains(t.Name, c.Only) {
			continue
		}
		failure, err := suite.Run(context.Background(), t, seen)
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", t.File, t.Line, t.Name, err)
		}
		if all = append(all, tested{t, failure}); failure != nil {
			failed++
		}
	}
	if len(all) == 0 && c.Only != "" {
		return fmt.Errorf("weir rules test: %s: no test has %q in its name", names, c.Only)
	}
	if len(all) == 0 {
		return fmt.Errorf("weir rules test: %s: no test to run; write one below tests: (docs/testing.md)", names)
	}
	if err = c.print(stdout, all, failed, seen); err == nil && failed > 0 {
		return errReported
	}
	return err
}

func (c *testCmd) print(out io.Writer, all []tested, failed int, seen *ruletests.Coverage) error {
	if c.Output == "json" {
		return writeJSON(out, all)
	}
	var cases []testCase
	var text strings.Builder
	for _, t := range all {
		one := testCase{Name: t.Name, Class: t.File}
		if t.Failure != nil {
			one.Failures = []failure{{t.message(), "test", t.diff()}}
			text.WriteString(t.diff())
		}
		cases = append(cases, one)
	}
	if c.Output == "junit" {
		return writeJUnit(out, "weir rules test", cases)
	}
	if failed > 0 {
		fmt.Fprintf(&text, "%d of %d tests failed\n", failed, len(all))
	} else {
		fmt.Fprintf(&text, "%d of %[1]d tests passed\n", len(all))
	}
	if c.Coverage {
		places, parts := seen.Unreached()
		reached := parts - len(places)
		fmt.Fprintf(&text, "coverage: %d %%, %d of %d\n", 100*reached/max(parts, 1), reached, parts)
		for _, p := range places {
			fmt.Fprintf(&text, "  no test reaches %s\n", p.Error())
		}
	}
	_, err := io.WriteString(out, cli.Escaped(text.String(), "\n")) // names and keys may have anything
	return err
}

// message is how a test failed, in one line.
func (t *tested) message() string {
	return fmt.Sprintf("step %d: expected %s; got %s", t.Failure.Step, strings.Join(t.Failure.Expected, ", "), strings.Join(t.Failure.Got, ", "))
}

// diff is how a test failed: the step, and what differs there.
func (t *tested) diff() string {
	text := fmt.Sprintf("%s:%d: %s, step %d", t.File, t.Failure.Line, t.Name, t.Failure.Step)
	if t.Failure.Note != "" {
		text += ": " + t.Failure.Note
	}
	for i, want := range t.Failure.Expected {
		text += "\n  expected: " + want + "\n  got:      " + t.Failure.Got[i]
	}
	return text + "\n"
}
