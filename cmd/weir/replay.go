package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/ruleset/replay"
)

// logFlags name a log and the rules for it.
type logFlags struct {
	Log        string `arg:"" predictor:"file" help:"Access log: JSON or default format of Envoy, or combined format of Apache and nginx; also compressed by gzip. - is standard input."`
	Rules      string `required:"" placeholder:"FILE" predictor:"file" help:"Rules file, or a directory of them."`
	Region     string `placeholder:"NAME" help:"Region of the PoP, for rules that look at it; default: that of each line."`
	cli.Format `embed:""`
}

// Validate returns a mistake in the command line.
func (f *logFlags) Validate() error {
	if f.Log == standardStream && f.Rules == standardStream {
		return errors.New("the log and --rules are both standard input; name a file for one of them")
	}
	return nil
}

// read calls do with the log, and with how to replay it.
func (f *logFlags) read(do func(io.Reader, replay.Config) error) error {
	set, err := load(f.Rules)
	if err != nil {
		return err
	}
	log := os.Stdin
	if f.Log != standardStream {
		if log, err = os.Open(f.Log); err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
	}
	if err = do(log, replay.Config{Rules: set, Region: f.Region}); err != nil {
		err = fmt.Errorf("%s: %w", nameOf(f.Log), err)
	}
	return err
}

// print prints an answer to programs, or some of it as a table to people.
func (f *logFlags) print(out io.Writer, answer, items any, columns string) error {
	o := cli.Output{Output: f.Output}
	return o.Print(out, answer, items, columns)
}

type replayCmd struct {
	logFlags
	SVG string `name:"svg" placeholder:"FILE" help:"Also draw a plot into this file: requests over time."`
}

// Run replays the log.
func (c *replayCmd) Run(stdout io.Writer) error {
	var r *replay.Report
	err := c.read(func(log io.Reader, with replay.Config) (err error) {
		r, err = replay.Run(log, with)
		return err
	})
	if err == nil && c.SVG != "" {
		var plot string
		if plot, err = r.SVG(); err == nil {
			err = os.WriteFile(c.SVG, []byte(plot), 0o666)
		}
	}
	if err != nil {
		return err
	}
	if c.Output == "text" {
		writeSummary(stdout, r)
	}
	err = c.print(stdout, r, r.Rules, "rule mode matched admitted denied=rejected keys keys_denied=keys_rejected no_key unknown")
	if err != nil || c.Output == "json" {
		return err
	}
	for i := range r.Rules {
		writeNote(stdout, r.Rules[i].Rule, r.Rules[i].Note)
	}
	if len(r.Top) == 0 {
		return nil
	}
	fmt.Fprintln(stdout)
	return c.print(stdout, nil, r.Top, "rule key denied=rejected at_least")
}

// writeSummary prints what is not about single rules.
func writeSummary(out io.Writer, r *replay.Report) {
	fmt.Fprintf(out, "%d requests from %s to %s: %d admitted, %d rejected\n",
		r.Requests, r.From.Format(time.RFC3339), r.Until.Format(time.RFC3339), r.Admitted, r.Denied)
	for _, note := range []struct {
		n    int64
		text string
	}{
		{r.Uncounted, "not counted by a rule that had no room for their keys"},
		{r.Late, "decided at a later time than theirs, because their lines are too far out of order"},
		{r.Broken.Lines, "lines that cannot be used"},
	} {
		if note.n > 0 {
			fmt.Fprintf(out, "%d %s\n", note.n, note.text)
		}
	}
	for _, line := range r.Broken.First {
		fmt.Fprintf(out, "  %s\n", cli.Escaped(line, ""))
	}
	writeSheds(out, r.Sheds)
	fmt.Fprintln(out)
}

// writeNote prints what the log lacks for a rule, if it lacks anything.
func writeNote(out io.Writer, name, note string) {
	if note != "" {
		fmt.Fprintf(out, "%s %s\n", name, cli.Escaped(note, ""))
	}
}

// writeSheds prints which rules are left out, if any are.
func writeSheds(out io.Writer, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(out, "Not decided, because they depend on the load of a PoP, which is not in a log: %s\n", strings.Join(names, ", "))
	}
}

type suggestCmd struct {
	logFlags
	Share float64 `default:"99.9" help:"Percent of the keys that a limit leaves untouched."`
	Least int64   `default:"10" help:"How many requests a key has at least to count."`
}

// Validate returns a mistake in the command line.
func (c *suggestCmd) Validate() error {
	if !(c.Share > 0 && c.Share <= 100) || c.Least < 1 {
		return errors.New("--share must be above 0 and at most 100, and --least at least 1")
	}
	return c.logFlags.Validate()
}

// Run finds limits.
func (c *suggestCmd) Run(stdout io.Writer) error {
	var all []replay.Suggestion
	var sheds []string
	err := c.read(func(log io.Reader, of replay.Config) (err error) {
		sheds = replay.Sheds(of.Rules)
		all, err = replay.Suggest(log, of, replay.Aim{Share: c.Share / 100, Least: c.Least})
		return err
	})
	if err != nil {
		return err
	}
	if c.Output == "text" {
		writeSheds(stdout, sheds)
	}
	err = c.print(stdout, all, all, "rule limit_now keys sampled largest_peak limit_suggested note")
	for i := range all {
		if err == nil && c.Output == "text" {
			writeNote(stdout, all[i].Rule, all[i].Lacks)
		}
	}
	return err
}
