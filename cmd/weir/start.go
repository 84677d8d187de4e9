package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"
)

// first is the file that init writes.
//
//go:embed first.yaml
var first []byte

type initCmd struct {
	File string `arg:"" optional:"" default:"rules.yaml" help:"File to write; one that exists is not replaced."`
}

// Run writes the file.
func (i *initCmd) Run(stdout io.Writer) error {
	f, err := os.OpenFile(i.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("weir init: %s exists and is not replaced; name another file", i.File)
	}
	if err != nil {
		return err
	}
	if _, err = f.Write(first); err != nil {
		return errors.Join(err, f.Close())
	}
	if err = f.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s; edit it, then: weir validate %s\n", i.File, i.File)
	return err
}

// completeLine answers a shell that asks how a command line may go on, and ends the program then. docs/cli.md has what
// makes a shell ask.
func completeLine(parser *kong.Kong) {
	kongplete.Complete(parser, kongplete.WithPredictor("file", complete.PredictFiles("*")))
}
