package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulediff"
)

type diffCmd struct {
	Old        string `arg:"" predictor:"file" help:"Rules file, or a directory of them; - is standard input."`
	New        string `arg:"" predictor:"file" help:"The same, for what is compared with it."`
	cli.Format `embed:""`
}

// errDiffers is the result of a comparison by which rules change.
var errDiffers = errors.New("rules change")

// Run prints what changes.
func (d *diffCmd) Run(stdout io.Writer) error {
	var sets [2]*rule.Set
	r := &report{format: "text", out: stdout}
	for i, name := range []string{d.Old, d.New} {
		if doc, err := loadDocument(name); err != nil {
			r.fail(nameOf(name), err)
		} else {
			sets[i] = doc.Set
		}
	}
	if len(r.found) > 0 {
		return errReported
	}
	return changes(sets[0], sets[1], d.Output, stdout)
}

// changes prints what changes between rules, in the format text or json. The error is errDiffers if any does.
func changes(before, after *rule.Set, format string, out io.Writer) error {
	d, err := rulediff.Compare(context.Background(), before, after, time.Now())
	if err != nil {
		return err
	}
	err = cli.Format{Output: format}.Print(out, d, cli.Escaped(d.String(), "\n")) // it may have the words of others
	if err == nil && !d.Same() {
		err = errDiffers
	}
	return err
}
