package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulediff"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

type diffCmd struct {
	Old    string `arg:"" predictor:"file" help:"Rules file, or a directory of them; - is standard input, @current the version in force, @REVISION one that is kept."`
	New    string `arg:"" predictor:"file" help:"The same, for what is compared with it."`
	Format string `enum:"text,json" default:"text" help:"How to print it: text, or json for programs."`
	kv     `embed:""`
}

// errDiffers is the result of a comparison by which requests change, or may change.
var errDiffers = errors.New("requests change")

// Run prints which requests change.
func (d *diffCmd) Run(stdout io.Writer) error {
	var sets [2]*rule.Set
	r := &report{format: "text", out: stdout}
	for i, name := range []string{d.Old, d.New} {
		if doc, err := d.read(name); err != nil {
			r.fail(nameOf(name), err)
		} else {
			sets[i] = doc.Set
		}
	}
	if len(r.found) > 0 {
		return errReported
	}
	return changes(sets[0], sets[1], d.Format, stdout)
}

// read reads a document: a file or a version.
func (d *diffCmd) read(name string) (doc *rulefile.Document, err error) {
	number, ok := strings.CutPrefix(name, "@")
	if !ok {
		return loadDocument(name)
	}
	revision, wrong := strconv.ParseUint(number, 10, 64)
	if wrong != nil && number != "current" {
		return nil, fmt.Errorf("%s must be @current, or @ and a revision of weir history; a file of that name is ./%s", name, name)
	}
	err = d.use(func(ctx context.Context, s store) error {
		v, text, err := versions.Version{}, []byte("rules: []\n"), error(nil)
		if number == "current" {
			v, err = s.Current(ctx)
		} else {
			v, err = s.Version(ctx, revision)
		}
		if err == nil && !v.Zero() {
			text, err = s.Document(ctx, v)
		}
		if err == nil {
			doc, err = rulefile.Read(name, text)
		}
		return err
	})
	return doc, err
}

// changes prints which requests rules change, in the format text or json. The error is errDiffers if any does.
func changes(before, after *rule.Set, format string, out io.Writer) error {
	d := rulediff.Compare(before, after, time.Now())
	var err error
	if format == "json" {
		err = writeJSON(out, d)
	} else {
		_, err = io.WriteString(out, cli.Escaped(d.String(), "\n")) // it may have the words of others
	}
	if err == nil && !d.Same() {
		err = errDiffers
	}
	return err
}
