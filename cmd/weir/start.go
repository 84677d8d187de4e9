package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

// completeLine answers a shell that asks how a command line may go on, and ends the program then.
func completeLine(parser *kong.Kong) {
	kongplete.Complete(parser, kongplete.WithPredictor("file", complete.PredictFiles("*")))
}

type completionCmd struct {
	Shell string `arg:"" optional:"" enum:"bash,zsh,fish" default:"bash" help:"bash, zsh or fish."`
}

// Run prints the lines for the shell's start-up file.
func (c *completionCmd) Run(stdout io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	lines := map[string]string{
		"bash": "complete -C %[1]s %[2]s\n",
		"zsh":  "autoload -U +X bashcompinit && bashcompinit\ncomplete -C %[1]s %[2]s\n",
		"fish": "complete -f -c %[2]s -a '(COMP_LINE=(commandline -cp) %[1]s)'\n",
	}
	_, err = fmt.Fprintf(stdout, lines[c.Shell], program, filepath.Base(program))
	return err
}
