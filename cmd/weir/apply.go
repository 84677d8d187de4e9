package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/weirlimit/weir/api/admin/client"
	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

const (
	// consulTime bounds all calls of a command.
	consulTime = 30 * time.Second
	// A command looks for so long whether a new version is in force everywhere, with --wait for waitTime.
	lookTime, waitTime = 5 * time.Second, 15 * time.Second
)

// store keeps versions of the rules.
type store interface {
	Current(ctx context.Context) (versions.Version, error)
	History(ctx context.Context) ([]versions.Version, error)
	Version(ctx context.Context, revision uint64) (versions.Version, error)
	Document(ctx context.Context, v versions.Version) ([]byte, error)
	Apply(ctx context.Context, d *rulefile.Document, c versions.Change) (versions.Version, error)
	Rollback(ctx context.Context, revision uint64, c versions.Change) (versions.Version, error)
	List(ctx context.Context) (versions.Version, *amend.Document, error)
}

// kv has the flags of commands that use the versions of the rules: through the admin API or, with --consul, in Consul.
// The token and TLS of Consul come from its own variables, such as CONSUL_HTTP_TOKEN.
type kv struct {
	Consul           string `placeholder:"HOST:PORT" help:"Agent of Consul, such as 127.0.0.1:8500: use the rules there, not through the admin API."`
	Primary          string `placeholder:"DATACENTER" help:"Datacenter of Consul that has the rules, with --consul; default: the agent's."`
	cli.Installation `embed:""`
}

// Validate returns a mistake in the command line. An installation that WEIR_CONTEXT names is no mistake beside --consul.
func (k *kv) Validate() error {
	switch {
	case k.Consul != "" && k.Admin != "":
		return errors.New("--consul and --admin name two places; give one of them")
	case k.Consul == "" && k.Primary != "":
		return errors.New("--primary needs --consul")
	}
	return nil
}

// use runs calls of the store, which end with ctx.
func (k *kv) use(calls func(ctx context.Context, s store) error) error {
	if k.Consul == "" {
		return k.Use(func(ctx context.Context, c *client.Client) error { return calls(ctx, cli.Versions{Client: c}) })
	}
	s, err := versions.Open(k.Consul, k.Primary)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), consulTime)
	defer cancel()
	return calls(ctx, s)
}

// change has the flags of commands that make a version.
type change struct {
	kv         `embed:""`
	cli.Format `embed:""`

	Reason string `placeholder:"TEXT" help:"Why: it is kept with the version. Required without --dry-run."`
	Author string `placeholder:"NAME" help:"Who, with --consul: it is kept with the version; default: the user of this machine."`
	Wait   bool   `help:"Fail unless every replica and PoP has it within 15 s, not 5 s; not with --consul."`
	DryRun bool   `help:"Only print what would change, and the revision in force; the exit status is 3 if anything would."`
}

// Validate returns a mistake in the command line.
func (c *change) Validate() error {
	if c.Reason == "" && !c.DryRun {
		return errors.New("--reason is missing; write why the rules change")
	}
	if c.Wait && c.Consul != "" {
		return errors.New("--wait needs the admin API; leave out --wait or --consul")
	}
	if c.Author != "" && c.Consul == "" {
		return errors.New("--author needs --consul; the admin API knows who calls")
	}
	return c.kv.Validate()
}

// by is who makes the change, and why.
func (c *change) by() versions.Change {
	who := c.Author
	if who == "" {
		if u, err := user.Current(); err == nil {
			who = u.Username
		}
	}
	return versions.Change{Who: who, Why: c.Reason}
}

// errChanges ends a dry run of a change that would make one: by the text of the document, as a version keeps it.
var errChanges = errors.New("this would make a change")

// compare prints how a document differs from that of the version in force, which it names, and what changes in the rules. The error is errChanges then.
func (c *change) compare(ctx context.Context, s store, before versions.Version, name string, d *rulefile.Document, out io.Writer) error {
	was, in := []byte(nil), "nothing"
	if !before.Zero() {
		in = fmt.Sprintf("revision %d", before.Revision)
		var err error
		if was, err = s.Document(ctx, before); err != nil {
			return err
		}
	}
	old, unread := versions.Parse(in, was)
	if c.Output == "json" {
		set := new(rule.Set) // of rules that cannot be read
		if unread == nil {
			set = old.Set
		}
		if err := changes(set, d.Set, c.Output, out); err != nil && !errors.Is(err, errDiffers) {
			return err
		}
		out = io.Discard // what is for people
	}
	diff := udiff.Unified(in, name, string(was), string(d.Text))
	if diff == "" {
		_, err := fmt.Fprintf(out, "%s is the same as %s, which is in force\n", name, in)
		return err
	}
	fmt.Fprintln(out, diff)
	same := ""
	if unread == nil && old.Set.Version == d.Set.Version {
		same = ". Only the text differs; the rules are the same"
	} else if unread == nil && !before.Zero() {
		if err := changes(old.Set, d.Set, "text", out); err != nil && !errors.Is(err, errDiffers) {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "Compared with %s%s.\n", in, same); err != nil {
		return err
	}
	return errChanges
}

// finish reports what became of a new version, and deletes what nobody needs any more.
func (c *change) finish(ctx context.Context, in store, v versions.Version, stdout, stderr io.Writer) error {
	if c.Output == "json" {
		if err := writeJSON(stdout, v); err != nil {
			return err
		}
		stdout = io.Discard // what is for people
	}
	s, consul := in.(*versions.Store)
	if !consul {
		most := lookTime
		if c.Wait {
			most = waitTime
		}
		err := cli.Wait(ctx, in.(cli.Versions).Client, v.Revision, most, stdout)
		if err != nil && !c.Wait {
			if !errors.Is(err, cli.ErrUnwell) { // which it has printed
				fmt.Fprintf(stderr, "warning: %s\n", cli.Escaped(err.Error(), ""))
			}
			err = nil
		}
		return err
	}
	behind, err := s.InForce(ctx, v)
	where := "in force in all programs that follow Consul"
	if len(behind) > 0 || err != nil {
		where = "in Consul"
	}
	fmt.Fprintf(stdout, "Applied. Revision %d is %s.\n", v.Revision, where)
	if err != nil && len(behind) == 0 {
		fmt.Fprintf(stderr, "warning: it is unknown whether all programs have it: %v\n", err)
	}
	if err := s.Clean(ctx); err != nil {
		fmt.Fprintf(stderr, "warning: %v\n", err)
	}
	var errs []error
	for _, f := range behind {
		errs = append(errs, fmt.Errorf("it is not in force in %s, which has revision %d: its log and weir_rules_config_ok state why", f.ID, f.Revision))
	}
	return errors.Join(errs...)
}

// warn names the overrides and candidates that do not fit a document which is about to be in force.
func warn(ctx context.Context, s store, d *rulefile.Document, stderr io.Writer) {
	_, amendments, err := s.List(ctx)
	if err != nil { // what damage there is, the change repairs or reports
		return
	}
	amend.Merge(d, amendments)
	for _, problem := range amendments.Problems() {
		fmt.Fprintf(stderr, "warning: not in force with these rules: %s\n", cli.Escaped(problem, ""))
	}
}

type applyCmd struct {
	File   string `arg:"" predictor:"file" help:"Rules file, or a directory of them."`
	change `embed:""`
	On     uint64 `placeholder:"REVISION" help:"Reject if another version is in force: the file was made of that one."`
}

// Run checks the file as a whole, then puts it in force.
func (a *applyCmd) Run(stdout io.Writer, stderr errorWriter) error {
	files, err := rulefile.ReadFiles(a.File)
	if err != nil {
		return err
	}
	document, err := versions.ParseFiles(a.File, files)
	if err != nil {
		return err
	}
	return a.use(func(ctx context.Context, s store) error {
		warn(ctx, s, document, stderr)
		if a.DryRun {
			current, err := s.Current(ctx)
			if err == nil && a.On != 0 && a.On != current.Revision {
				err = &versions.LostError{Winner: current}
			}
			if err != nil {
				return err
			}
			return a.compare(ctx, s, current, a.File, document, stdout)
		}
		by := a.by()
		by.On = a.On
		v, err := s.Apply(ctx, document, by)
		if err != nil {
			return err
		}
		return a.finish(ctx, s, v, stdout, stderr)
	})
}
