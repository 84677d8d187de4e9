package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/replay"
)

// logFlags name a log and the rules for it.
type logFlags struct {
	Log    string `arg:"" predictor:"file" help:"Access log of Envoy in JSON lines, also compressed by gzip; - is standard input."`
	Rules  string `required:"" placeholder:"FILE" predictor:"file" help:"Rules file, or a directory of them."`
	Region string `placeholder:"NAME" help:"Region of lines that state none, for rules that look at it."`
	Format string `enum:"text,json" default:"text" help:"How to print: text, or json for programs."`
	SVG    string `name:"svg" placeholder:"FILE" help:"Also draw a plot into this file."`
}

// Validate returns a mistake in the command line.
func (f *logFlags) Validate() error {
	if f.Log == standardInput && f.Rules == standardInput {
		return errors.New("the log and --rules are both standard input; name a file for one of them")
	}
	return nil
}

// read calls do with the log.
func (f *logFlags) read(do func(io.Reader) error) error {
	if f.Log == standardInput {
		return do(os.Stdin)
	}
	log, err := os.Open(f.Log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := do(log); err != nil {
		return fmt.Errorf("%s: %w", f.Log, err)
	}
	return nil
}

// print prints an answer to programs, or some of it as a table to people.
func (f *logFlags) print(out io.Writer, answer, items any, columns string) error {
	o := cli.Output{Output: f.Format}
	return o.Print(out, answer, items, columns)
}

// draw writes a plot, if it is to.
func (f *logFlags) draw(plot func() (string, error)) error {
	if f.SVG == "" {
		return nil
	}
	text, err := plot()
	if err != nil {
		return err
	}
	return os.WriteFile(f.SVG, []byte(text), 0o666)
}

type replayCmd struct {
	logFlags
	Keys int `default:"10" help:"How many keys to name of each rule: those that are denied most."`
}

// Run replays the log.
func (c *replayCmd) Run(stdout io.Writer) error {
	set, err := load(c.Rules)
	if err != nil {
		return err
	}
	var r *replay.Report
	err = c.read(func(log io.Reader) (err error) {
		r, err = replay.Run(log, replay.Config{Rules: set, Region: c.Region, Keys: max(c.Keys, 0)})
		return err
	})
	if err == nil {
		err = c.draw(r.SVG)
	}
	if err != nil {
		return err
	}
	if c.Format == "text" {
		writeSummary(stdout, r)
	}
	err = c.print(stdout, r, r.Rules, "rule mode matched admitted denied denied_share=share denied_then keys keys_denied no_key unknown missing")
	type row struct {
		Rule string `json:"rule"`
		replay.Key
		Least int64 `json:"at_least"`
	}
	var rows []row
	for _, of := range r.Rules {
		for _, k := range of.Top {
			rows = append(rows, row{of.Rule, k, k.Denied - k.Over})
		}
	}
	if err != nil || len(rows) == 0 || c.Format == "json" {
		return err
	}
	fmt.Fprintln(stdout)
	return c.print(stdout, nil, rows, "rule key denied at_least")
}

// writeSummary prints what is not about single rules.
func writeSummary(out io.Writer, r *replay.Report) {
	fmt.Fprintf(out, "%d requests from %s to %s: %d admitted, %d denied\n",
		r.Requests, r.From.Format(time.DateTime), r.Until.Format(time.DateTime), r.Admitted, r.Denied)
	if t := r.Then; t != nil {
		fmt.Fprintf(out, "by the log %d were denied: %d are now, too; %d are denied only now\n", t.Denied, t.Denied-t.OnlyThen, t.OnlyNow)
	}
	for _, note := range []struct {
		n    int64
		text string
	}{
		{r.Partly, "decided without a rule that may apply: the log lacks what it looks at"},
		{r.Undecided, "decided by on_failure: there was no room for their keys"},
		{r.Late, "decided later than they came: their lines are too far out of order"},
		{r.Broken.Lines, "lines that cannot be used"},
	} {
		if note.n > 0 {
			fmt.Fprintf(out, "%d %s\n", note.n, note.text)
		}
	}
	for _, line := range r.Broken.First {
		fmt.Fprintf(out, "  %s\n", cli.Escaped(line, ""))
	}
	fmt.Fprintln(out)
}

type suggestCmd struct {
	logFlags
	Rule  []string `placeholder:"NAME" help:"Only for these rules."`
	Share float64  `default:"99.9" help:"Percent of the keys that a limit leaves untouched."`
	Least int64    `default:"10" help:"How many requests a key has at least to count."`
}

// Validate returns a mistake in the command line.
func (c *suggestCmd) Validate() error {
	if !(c.Share > 0 && c.Share <= 100) || c.Least < 1 {
		return errors.New("--share must be above 0 and at most 100, and --least at least 1")
	}
	return c.logFlags.Validate()
}

// maxPanels is how many rules one plot can show.
const maxPanels = 6

// Run finds limits and, with a log that can be read twice, what they would refuse.
func (c *suggestCmd) Run(stdout io.Writer) error {
	set, err := load(c.Rules)
	if err != nil {
		return err
	}
	var rules []int
	for i := range set.Len() {
		if r := set.Rule(i); len(r.Limits) > 0 && r.Mode != rule.Off && (len(c.Rule) == 0 || slices.Contains(c.Rule, r.Name)) {
			rules = append(rules, i)
		}
	}
	if len(rules) < max(len(c.Rule), 1) {
		return fmt.Errorf("%s: has no rule with a limit, or none of a name of --rule", c.Rules)
	}
	if c.SVG != "" && len(rules) > maxPanels {
		return fmt.Errorf("--svg draws at most %d rules; name them with --rule", maxPanels)
	}
	config := replay.Config{Rules: set, Region: c.Region}
	var all []replay.Suggestion
	err = c.read(func(log io.Reader) (err error) {
		all, err = replay.Suggest(log, config, replay.Aim{Share: c.Share / 100, Least: c.Least}, rules)
		return err
	})
	if err == nil && c.Log != standardInput {
		err = c.read(func(log io.Reader) error { return replay.Try(log, config, all) })
	}
	if err == nil {
		err = c.draw(func() (string, error) { return replay.SuggestionSVG(all) })
	}
	if err != nil {
		return err
	}
	return c.print(stdout, all, all, "rule limit_now keys sampled requests largest_peak limit_suggested "+
		"tried.requests_denied_share=denies_requests tried.keys_denied_share=denies_keys note")
}
