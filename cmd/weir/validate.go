package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

type validateCmd struct {
	Files           []string  `arg:"" optional:"" name:"file" help:"Rules files: YAML, or JSON."`
	Descriptors     string    `placeholder:"FILE" help:"Also check a file of bindings and, with a rules file, that its rules can be bound."`
	RatelimitConfig string    `placeholder:"DIR" help:"Also check a directory with envoyproxy/ratelimit's YAML."`
	Ratelimit       ratelimit `embed:"" prefix:"ratelimit-"`
	Format          string    `enum:"text,json" default:"text" help:"How to print mistakes: text, or json for programs."`
}

// ratelimit has the settings for reading a configuration of envoyproxy/ratelimit.
type ratelimit struct {
	MergeDomains bool `negatable:"" help:"Let several files have the same domain."`
}

// Validate returns a mistake in the command line.
func (v *validateCmd) Validate() error {
	switch {
	case len(v.Files) == 0 && v.Descriptors == "" && v.RatelimitConfig == "":
		return errors.New(`expected "<file> ...", --descriptors or --ratelimit-config`)
	case len(v.Files) > 1 && v.Descriptors != "":
		return errors.New("--descriptors are checked against one rules file; give no other")
	}
	return nil
}

// finding is one mistake as --format json prints it. Line and column count from
// 1; 0 means that the place is unknown.
type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Reason  string `json:"reason"`
	Warning bool   `json:"warning,omitempty"` // no mistake
}

// Run checks all files, whatever is wrong with the first.
func (v *validateCmd) Run(stdout io.Writer) error {
	r := validation{found: []finding{}}
	if v.Format == "text" {
		r.text = stdout
	}
	var rules *rule.Set // of the last file
	for _, file := range v.Files {
		rules = r.rules(file)
	}
	if v.Descriptors != "" {
		r.bindings(v.Descriptors, rules)
	}
	if v.RatelimitConfig != "" {
		r.ratelimit(v.RatelimitConfig, descriptor.Options{MergeDomains: v.Ratelimit.MergeDomains})
	}
	if v.Format == "json" {
		out := json.NewEncoder(stdout)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if err := out.Encode(r.found); err != nil {
			return fmt.Errorf("weir validate: %w", err)
		}
	}
	if slices.ContainsFunc(r.found, func(f finding) bool { return !f.Warning }) {
		return errReported
	}
	return nil
}

// validation collects what is found in files, and prints it at once if text is not nil.
type validation struct {
	found []finding
	text  io.Writer
}

// fail reports what is wrong with a file.
func (v *validation) fail(file string, err error) {
	v.found = append(v.found, findings(file, err)...)
	v.printf("%v\n", err)
}

func (v *validation) printf(format string, args ...any) {
	if v.text != nil {
		fmt.Fprintf(v.text, format, args...)
	}
}

// rules checks a rules file; nil if it has mistakes.
func (v *validation) rules(file string) *rule.Set {
	set, err := load(file)
	if err != nil {
		v.fail(file, err)
		return nil
	}
	keys := 0
	for i := range set.Len() {
		keys += len(set.Rule(i).Keys)
	}
	v.printf("%s: ok, rules: %d, ", file, set.Len())
	if keys > 0 {
		v.printf("limits of single keys: %d, ", keys)
	}
	v.printf("version: %s\n", set.Version)
	return set
}

// bindings checks a file of bindings, if there are rules with them.
func (v *validation) bindings(file string, rules *rule.Set) {
	bindings, err := loadBindings(file, rules)
	if err != nil {
		v.fail(file, err)
		return
	}
	v.printf("%s: ok, bindings: %d, version: %s\n", file, bindings.Len(), bindings.Version())
}

func loadBindings(file string, rules *rule.Set) (*binding.Set, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	bindings, err := binding.Parse(file, data)
	if err != nil || rules == nil {
		return bindings, err
	}
	if errs, _ := bindings.Check(func(name string) (binding.Target, bool) { return target(rules, name) }); len(errs) > 0 {
		return nil, errs
	}
	return bindings, nil
}

func target(rules *rule.Set, name string) (binding.Target, bool) {
	i, found := rules.Find(name)
	if !found {
		return binding.Target{}, false
	}
	r := rules.Rule(i)
	return binding.Target{Algorithm: r.Limits[0].Limit.Algorithm, Parts: len(r.Key), Off: r.Mode == rule.Off}, true
}

// ratelimit checks a configuration of envoyproxy/ratelimit as weir-regional reads it.
func (v *validation) ratelimit(dir string, o descriptor.Options) {
	config, err := loadDescriptors(dir, o)
	if err != nil {
		v.fail(dir, err)
		return
	}
	for _, w := range config.Warnings() {
		v.found = append(v.found, finding{w.File, w.Pos.Line, w.Pos.Column, w.Path, w.Reason, true})
		v.printf("warning: %s\n", w.Error())
	}
	count := 0
	for range config.Rules() {
		count++
	}
	v.printf("%s: ok, rate limits: %d, warnings: %d, version: %s\n", dir, count, len(config.Warnings()), config.Version())
}

func loadDescriptors(dir string, o descriptor.Options) (*descriptor.Config, error) {
	files, err := descriptor.Read(dir)
	if err != nil {
		return nil, err
	}
	return descriptor.Parse(files, o)
}

func findings(file string, err error) []finding {
	var mistakes strict.Errors
	if !errors.As(err, &mistakes) {
		return []finding{{File: file, Reason: err.Error()}}
	}
	out := make([]finding, len(mistakes))
	for i, m := range mistakes {
		out[i] = finding{m.File, m.Pos.Line, m.Pos.Column, m.Path, m.Reason, false}
	}
	return out
}

// load reads a rules file.
func load(file string) (*rule.Set, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory; write --ratelimit-config %s if it has envoyproxy/ratelimit's YAML", file, file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return rulefile.Parse(file, data)
}
