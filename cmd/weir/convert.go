package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirlimit/weir/internal/envoyrls/convert"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// errLeftOut ends a command that has done a part of its task.
var errLeftOut = errors.New("rate limits were left out")

type convertCmd struct {
	From              string        `arg:"" predictor:"file" help:"File or directory with envoyproxy/ratelimit's YAML."`
	Rules             string        `placeholder:"FILE" help:"Write the rules file here; else it is printed."`
	RatelimitBindings string        `placeholder:"FILE" help:"Write the file of bindings here; else it is printed."`
	Force             bool          `help:"Overwrite existing files."`
	Ratelimit         ratelimitToBe `embed:"" prefix:"ratelimit-"`
}

// ratelimitToBe are the flags of weir-regional for the directory, which become part
// of the rules.
type ratelimitToBe struct {
	ratelimit
	Consistency    string `enum:"leased,exact" default:"leased" help:"As for weir-regional: leased or exact."`
	OnFailure      string `enum:"allow,deny,local" default:"allow" help:"As for weir-regional: allow, deny or local."`
	ChargeRejected bool   `negatable:"" help:"As for weir-regional: count rejected requests, too."`
}

func (c *convertCmd) Validate() error {
	if c.Rules != "" && filepath.Clean(c.Rules) == filepath.Clean(c.RatelimitBindings) {
		return errors.New("--rules and --ratelimit-bindings are the same file; give two")
	}
	return nil
}

// Run converts all or nothing. The list goes to stderr, so that stdout is YAML.
func (c *convertCmd) Run(stdout io.Writer, stderr errorWriter) error {
	config, err := loadDescriptors(c.From, descriptor.Options{MergeDomains: c.Ratelimit.MergeDomains})
	if err != nil {
		return err
	}
	result, err := convert.Config(config, convert.Options{
		Consistency:    rule.ParseWord[lease.Consistency](c.Ratelimit.Consistency),
		OnFailure:      rule.ParseWord[lease.OnFailure](c.Ratelimit.OnFailure),
		ChargeRejected: c.Ratelimit.ChargeRejected,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	if err := c.write(stdout, result); err != nil {
		return err
	}
	for _, w := range config.Warnings() {
		fmt.Fprintf(stderr, "warning: %s\n", w.Error())
	}
	fmt.Fprintf(stderr, "%s: rules: %d, bindings: %d, rate limits left out: %d\n", c.From, result.RuleCount, result.BoundCount, result.Left())
	result.WriteList(stderr)
	if result.Left() > 0 {
		return errLeftOut
	}
	return nil
}

// write writes both files, or prints them. Without --force it writes both or none.
func (c *convertCmd) write(stdout io.Writer, result *convert.Result) error {
	for _, path := range []string{c.Rules, c.RatelimitBindings} {
		if path == "" || c.Force {
			continue
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: exists already; nothing was written. Give another file, or --force", path)
		}
	}
	if err := c.put(stdout, c.Rules, result.Rules); err != nil {
		return err
	}
	if c.Rules == "" && c.RatelimitBindings == "" {
		fmt.Fprintln(stdout, "---")
	}
	err := c.put(stdout, c.RatelimitBindings, result.Bindings)
	if err != nil && c.Rules != "" && !c.Force {
		_ = os.Remove(c.Rules) // made above
	}
	return err
}

// put writes a file, or prints it if there is no path.
func (c *convertCmd) put(stdout io.Writer, path string, data []byte) error {
	switch {
	case path == "":
		_, err := stdout.Write(data)
		return err
	case c.Force:
		return rulefile.Replace(path, data, 0o644)
	}
	return writeNew(path, data)
}

// writeNew writes a file, unless it exists.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}
