package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
)

type validateCmd struct {
	Files             []string  `arg:"" optional:"" name:"file" predictor:"file" help:"Rules files, YAML or JSON, or directories of them; - is standard input."`
	RatelimitBindings string    `placeholder:"FILE" predictor:"file" help:"Also check a file of bindings and, with a rules file, that its rules can be bound."`
	RatelimitConfig   string    `placeholder:"DIR" predictor:"file" help:"Also check a directory with envoyproxy/ratelimit's YAML."`
	Ratelimit         ratelimit `embed:"" prefix:"ratelimit-"`
	Output            string    `short:"o" enum:"text,json,junit" default:"text" help:"How to print what is found: text, or json or junit for programs."`
	Strict            bool      `help:"Fail on warnings, too."`
	Ignore            []string  `placeholder:"CODE" help:"Leave out warnings of these codes."`
}

// ratelimit has the settings for reading a configuration of envoyproxy/ratelimit.
type ratelimit struct {
	MergeDomains bool `negatable:"" help:"Let several files have the same domain."`
}

// Validate returns a mistake in the command line.
func (v *validateCmd) Validate() error {
	switch {
	case len(v.Files) == 0 && v.RatelimitBindings == "" && v.RatelimitConfig == "":
		return errors.New(`expected "<file> ...", --ratelimit-bindings or --ratelimit-config`)
	case len(v.Files) > 1 && v.RatelimitBindings != "":
		return errors.New("--ratelimit-bindings are checked against one rules file; give no other")
	}
	for _, code := range v.Ignore {
		if !slices.Contains(lint.Codes, code) {
			return fmt.Errorf("--ignore %s: there is no such warning; write one of %s", code, strings.Join(lint.Codes, ", "))
		}
	}
	return nil
}

// Run checks all files, whatever is wrong with the first.
func (v *validateCmd) Run(stdout io.Writer) error {
	r := &report{format: v.Output, strict: v.Strict, ignore: v.Ignore, out: stdout}
	var rules *rule.Set // of the last file
	for _, file := range v.Files {
		rules = checkRules(r, file)
	}
	if v.RatelimitBindings != "" {
		checkBindings(r, v.RatelimitBindings, rules)
	}
	if v.RatelimitConfig != "" {
		checkRatelimit(r, v.RatelimitConfig, descriptor.Options{MergeDomains: v.Ratelimit.MergeDomains})
	}
	return r.end()
}

// checkRules checks a rules file; nil if it has mistakes.
func checkRules(r *report, file string) *rule.Set {
	r.file(nameOf(file))
	doc, err := loadDocument(file, ruletests.Check)
	if err != nil {
		r.fail(nameOf(file), err)
		return nil
	}
	keys := 0
	for i := range doc.Set.Len() {
		keys += len(doc.Set.Rule(i).Keys)
	}
	r.printf("%s: ok, rules: %d, ", nameOf(file), doc.Set.Len())
	if keys > 0 {
		r.printf("limits of single keys: %d, ", keys)
	}
	r.printf("version: %s\n", doc.Set.Version)
	for _, w := range finding.Warnings(doc, time.Now()) {
		r.warn(w)
	}
	return doc.Set
}

// checkBindings checks a file of bindings, if there are rules with them.
func checkBindings(r *report, file string, rules *rule.Set) {
	r.file(file)
	bindings, err := loadBindings(file, rules)
	if err != nil {
		r.fail(file, err)
		return
	}
	r.printf("%s: ok, bindings: %d, version: %s\n", file, bindings.Len(), bindings.Version())
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
	if errs, _ := bindings.Check(func(name string) []*rule.Rule {
		return slices.DeleteFunc(rules.Named(name), func(r *rule.Rule) bool { return !r.Limited() })
	}); len(errs) > 0 {
		return nil, errs
	}
	return bindings, nil
}

// checkRatelimit checks a configuration of envoyproxy/ratelimit as weir-regional reads it.
func checkRatelimit(r *report, dir string, o descriptor.Options) {
	r.file(dir)
	config, err := loadDescriptors(dir, o)
	if err != nil {
		r.fail(dir, err)
		return
	}
	for _, w := range config.Warnings() {
		r.warn(finding.Warning(ratelimitCode, w))
	}
	count := 0
	for range config.Rules() {
		count++
	}
	r.printf("%s: ok, rate limits: %d, warnings: %d, version: %s\n", dir, count, len(config.Warnings()), config.Version())
}

// ratelimitCode is the code of warnings about a configuration of envoyproxy/ratelimit.
const ratelimitCode = "ratelimit-config"

func loadDescriptors(dir string, o descriptor.Options) (*descriptor.Config, error) {
	files, err := descriptor.Read(dir)
	if err != nil {
		return nil, err
	}
	return descriptor.Parse(files, o)
}

// load reads a rules file.
func load(file string) (*rule.Set, error) {
	doc, err := loadDocument(file)
	if err != nil {
		return nil, err
	}
	return doc.Set, nil
}

// standardStream is the argument that names standard input, or standard output.
const standardStream = "-"

// loadDocument reads a rules file, or a directory of them, and their sections; - is standard input.
func loadDocument(file string, sections ...rulefile.Section) (*rulefile.Document, error) {
	if file != standardStream {
		return rulefile.Load(file, sections...)
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, rulefile.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return rulefile.Read(nameOf(file), data, sections...)
}

// nameOf names a file in messages.
func nameOf(file string) string {
	if file == standardStream {
		return "stdin"
	}
	return file
}
