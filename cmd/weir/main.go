// Command weir checks, converts and compiles rules files, and puts them in force through Consul or the admin API. It makes the
// secrets of a deployment, and shows running installations.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/version"
)

// commands is the command line. docs/cli.md has its exit statuses.
type commands struct {
	Rules rulesCommands `cmd:"" help:"Write, check, compare and try rules, and put them in force."`
	Keys  keysCommands  `cmd:"" help:"Look at the counters of keys, and give a key or a rule another limit for a time."`

	Status  cli.Status  `cmd:"" help:"List replicas, PoPs, problems and warnings of an installation; the exit status is its health."`
	Top     cli.Top     `cmd:"" help:"Show which keys come most or are rejected most, or how far rules are used."`
	Tap     cli.Tap     `cmd:"" help:"Print single decisions as they are made, for a time."`
	Explain cli.Explain `cmd:"" help:"Say what each rule in force does with a request, and what its counters hold; nothing is counted."`
	Debug   cli.Debug   `cmd:"" help:"Write an archive for whoever looks into a problem, without keys and secrets."`

	Admin adminCommands `cmd:"" help:"Make tokens, secrets and filters, list changes, and declare a region dead."`

	Help    helpCmd          `cmd:"" help:"Print the help of a command, as --help does."`
	Version versionCmd       `cmd:"" help:"Print the version."`
	Flag    kong.VersionFlag `name:"version" help:"Print the version."`

	Healthcheck healthcheckCmd `cmd:"" help:"Ask a URL once, and fail unless the answer has status 200: a health check for containers."`
}

// rulesCommands are about all rules.
type rulesCommands struct {
	Init     initCmd     `cmd:"" help:"Write a first rules file, with comments."`
	Validate validateCmd `cmd:"" help:"Check rules files, bindings and configurations of envoyproxy/ratelimit, and print all their mistakes."`
	Test     testCmd     `cmd:"" help:"Run the tests of rules, and print how they failed."`
	Diff     diffCmd     `cmd:"" help:"Say what changes between two versions of the rules, with examples of the requests that change."`
	Apply    applyCmd    `cmd:"" help:"Put a rules file in force as a new version, in Consul or through the admin API."`
	History  historyCmd  `cmd:"" help:"List the versions of the rules, the newest first: who, when and why; or print one."`
	Rollback rollbackCmd `cmd:"" help:"Put the rules of an earlier version in force again, as a new version."`
	Convert  convertCmd  `cmd:"" help:"Turn a configuration of envoyproxy/ratelimit into rules and bindings, and list what cannot be converted."`
	Compile  compileCmd  `cmd:"" help:"Print the compiled form of a rules file, to bundle in the filter's plugin configuration."`
	Replay   replayCmd   `cmd:"" help:"Have the requests of an access log decided by rules, and print whom they would reject."`
	Suggest  suggestCmd  `cmd:"" help:"Suggest limits that leave most keys of an access log untouched."`
}

// keysCommands are about single keys, and about limits that are set for a time.
type keysCommands struct {
	Peek      cli.Peek      `cmd:"" help:"Print what the counters of a key hold."`
	Reset     cli.Reset     `cmd:"" help:"Reset the counters of a key; what is on lease stays there."`
	Override  cli.Override  `cmd:"" help:"Set the limit of single keys for a time, list such overrides, and end them."`
	Candidate cli.Candidate `cmd:"" help:"Try a limit, which rejects nothing, for a time; list such candidates, and end them."`
	Hash      hashCmd       `cmd:"" help:"Print the key under which requests with these values are counted, as it is in Redis."`
}

// adminCommands set up a deployment and keep it.
type adminCommands struct {
	Token     tokenCmd     `cmd:"" help:"Make a token of the admin API, and print it and its item for the file of tokens."`
	Audit     cli.Audit    `cmd:"" help:"List who changed what through the admin API, the newest first."`
	Bootstrap bootstrapCmd `cmd:"" help:"Make certificates, tokens, keys and passwords of a deployment, keep them, and publish them."`
	Forget    forgetCmd    `cmd:"" name:"forget-region" help:"Declare a region dead, so that an aggregator withholds nothing for it any more."`
	Filter    exportCmd    `cmd:"" name:"export-filter" help:"Write the Envoy filter that is beside this program to a file."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var c commands
	exit := -1 // set by --help
	parser, err := kong.New(&c, kong.Name("weir"), kong.Description("Weir: one limit for many Envoys."),
		kong.Writers(stdout, stderr), kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true}), kong.Exit(func(code int) { exit = code }), kong.Vars{"version": "weir " + version.Version})
	if err != nil {
		fmt.Fprintln(stderr, "weir:", err)
		return 2
	}
	kongplete.Complete(parser, kongplete.WithPredictor("file", complete.PredictFiles("*")), // if a shell asks, see docs/cli.md
		kongplete.WithPredictor("rule", complete.PredictFunc(func(args complete.Args) []string { return cli.RuleNames(args.All) })))
	if len(args) > 0 && args[0] == "help" {
		args = append(slices.Clone(args[1:]), "--help")
	}
	cmd, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		command := "weir"
		if wrong := new(kong.ParseError); errors.As(err, &wrong) && wrong.Context.Selected() != nil {
			command = wrong.Context.Selected().FullPath()
		}
		fmt.Fprintf(stderr, "weir: %v; see %s --help\n", err, command)
		return 2
	}
	for _, warning := range settings.Environment(os.Environ()) {
		fmt.Fprintln(stderr, "weir: warning:", cli.Escaped(warning, "\n"))
	}
	cmd.BindTo(stdout, (*io.Writer)(nil))
	cmd.Bind(errorWriter{stderr})
	switch err := cmd.Run(); {
	case errors.Is(err, errReported):
		return 1
	case errors.Is(err, errLeftOut), errors.Is(err, errChanges), errors.Is(err, errDiffers), errors.Is(err, cli.ErrUnwell):
		return 3
	case err != nil:
		fmt.Fprintln(stderr, cli.Escaped(err.Error(), "\n\t")) // it may have the words of others
		return 1
	}
	return 0
}

// errorWriter is standard error, where a command prints to both.
type errorWriter struct{ io.Writer }

// errReported fails a command that has printed why.
var errReported = errors.New("mistakes were found")

// first is the file that init writes.
//
//go:embed first.yaml
var first []byte

type initCmd struct {
	File string `arg:"" optional:"" default:"rules.yaml" help:"File to write; one that exists is not replaced; - is standard output."`
}

// Run writes the file.
func (i *initCmd) Run(stdout io.Writer) error {
	if i.File == standardStream {
		_, err := stdout.Write(first)
		return err
	}
	err := writeNew(i.File, first)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("weir rules init: %s exists and is not replaced; name another file", i.File)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "Wrote %s. Edit it, then run: weir rules validate %s && weir rules test %s\n", i.File, i.File, i.File)
	return err
}

type compileCmd struct {
	File string `arg:"" predictor:"file" help:"Rules file, or a directory of them."`
}

// Run prints the compiled form.
func (c *compileCmd) Run(stdout io.Writer) error {
	set, err := load(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n", set.Encode())
	return err
}

type exportCmd struct {
	File string `arg:"" predictor:"file" help:"File to write, such as weir.wasm; with the ending .so, the native module. One that exists is replaced at once."`
}

// Run copies the filter that is beside this program, as archives and images have it. Who reads the file meanwhile has
// the old one or the new one, whole.
func (e *exportCmd) Run(stdout io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return err
	}
	name, magic, kind := "weir.wasm", "\x00asm", "WebAssembly module"
	if filepath.Ext(e.File) == ".so" {
		name, magic, kind = "weir.so", "\x7fELF", "shared library"
	}
	filter := filepath.Join(filepath.Dir(program), name)
	module, err := os.ReadFile(filter)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("weir admin export-filter: there is no %s; call the program of a release's archive, of its image weir, or of `make build`", filter)
	}
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(module, []byte(magic)) {
		return fmt.Errorf("weir admin export-filter: %s is no %s; unpack the archive or get the image again", filter, kind)
	}
	if about, err := os.Stat(e.File); err == nil && !about.Mode().IsRegular() {
		return fmt.Errorf("weir admin export-filter: %s is no file; name one, such as %s", e.File, filepath.Join(e.File, "weir.wasm"))
	}
	if err := rulefile.Replace(e.File, module, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s\n", e.File)
	return err
}

// helpCmd is in the list of commands. The program takes the words behind it, before it reads the command line, with --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Words of the command."`
}

type versionCmd struct {
	cli.Format `embed:""`
}

// Run prints the version.
func (v *versionCmd) Run(stdout io.Writer) error {
	return v.Print(stdout, map[string]string{"version": version.Version}, "weir "+version.Version+"\n")
}
