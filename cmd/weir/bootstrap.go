package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/bootstrap"
	"github.com/weirlimit/weir/internal/bootstrap/acl"
	"github.com/weirlimit/weir/internal/settings"
)

type bootstrapCmd struct {
	Make makeCmd `cmd:"" default:"withargs" help:"Make and keep all in a directory; publish it to AWS or Kubernetes."`
	ACL  aclCmd  `cmd:"" name:"acl" help:"Make the policies and tokens of acl.json in Consul, and nothing that is there."`
}

type makeCmd struct {
	Dir     string   `arg:"" help:"Directory that has all of it, the keys of the authorities too; keep it safe."`
	Regions []string `placeholder:"NAME" help:"Names of all regions, such as eu,us; default: those that are there."`
	Home    string   `placeholder:"NAME" help:"Region with the aggregators, the rules and Consul's primary servers; default: as it was, or the only region."`
	Life    cli.Span `default:"90d" placeholder:"TIME" help:"How long new certificates last."`
	Rotate  string   `placeholder:"WHAT" help:"Replace certificates, authority, gossip, tokens, redis (its passwords) or key-secrets."`

	ClientCert string `placeholder:"FILE" help:"Certificate that PoPs show to clients; it is kept."`
	ClientKey  string `placeholder:"FILE" help:"Its key."`

	AWS                 map[string]string `mapsep:"," placeholder:"NAME=REGION,..." help:"Publish to Secrets Manager and ElastiCache, and print Terraform's variables: the region of AWS of each region, such as eu=eu-central-1."`
	Kubernetes          string            `placeholder:"NAME" help:"Print the Secrets of the cluster of this region, for kubectl apply -f -."`
	KubernetesNamespace string            `default:"istio-system" placeholder:"NAME" help:"Namespace of the gateway that is the PoP."`
}

const day = cli.Span(24 * time.Hour)

// Validate returns a mistake in the command line.
func (m *makeCmd) Validate() error {
	switch what := []string{"certificates", "authority", "gossip", "tokens", "redis", "key-secrets"}; {
	case m.Rotate != "" && !slices.Contains(what, m.Rotate):
		return fmt.Errorf("--rotate must be one of %s but got %q", strings.Join(what, ", "), m.Rotate)
	case m.Life < 21*day || m.Life > 3650*day:
		return errors.New("--life must be 21d to 3650d: a third of it is left when a certificate is renewed, and authorities last ten years")
	case len(m.AWS) > 0 && m.Kubernetes != "":
		return errors.New("--aws and --kubernetes both print to standard output; run the command twice")
	case m.Rotate != "" && (len(m.AWS) > 0 || m.Kubernetes != ""):
		return fmt.Errorf("--rotate %s and publishing are separate commands: run --rotate, then publish without it; docs/bootstrap.md has the order", m.Rotate)
	}
	return settings.Pair("--client-cert", m.ClientCert, "--client-key", m.ClientKey)
}

// Run prints what is published to standard output, and what was changed to standard error.
func (m *makeCmd) Run(stdout io.Writer, stderr errorWriter) error {
	report := func(line string) { fmt.Fprintln(stderr, line) }
	_, _, err := bootstrap.Run(bootstrap.Options{
		Dir: m.Dir, Home: m.Home, Regions: m.Regions, Rotate: m.Rotate, Life: time.Duration(m.Life),
		ClientCert: m.ClientCert, ClientKey: m.ClientKey,
		Publish: func(s *bootstrap.State, notes []string) error {
			for _, note := range notes {
				report(note)
			}
			if len(notes) == 0 {
				report(m.Dir + " is complete, nothing was changed")
			}
			return m.publish(s, stdout, report)
		},
	}, time.Now())
	if err != nil {
		return fmt.Errorf("weir admin bootstrap: %w", err)
	}
	return nil
}

func (m *makeCmd) publish(s *bootstrap.State, stdout io.Writer, report func(string)) error {
	switch {
	case m.Kubernetes != "":
		return s.Kubernetes(stdout, m.Kubernetes, m.KubernetesNamespace)
	case len(m.AWS) > 0:
		if s.Client == nil {
			report("no --client-cert and --client-key: PoPs then need client_tls = null, or add these files")
		}
		ctx, stop := interruptible()
		defer stop()
		return s.AWS(ctx, m.AWS, stdout, report)
	}
	return nil
}

type aclCmd struct {
	File   string   `arg:"" help:"acl.json of the home region's servers."`
	Consul string   `default:"127.0.0.1:8500" env:"CONSUL_HTTP_ADDR" placeholder:"HOST:PORT" help:"Agent of Consul. Without CONSUL_HTTP_TOKEN the management token of the file is used."`
	Wait   cli.Span `default:"5m" placeholder:"TIME" help:"How long it is tried, while there is no leader yet."`
	Prune  bool     `help:"Delete tokens and policies that were made so and are not in the file: once no program uses them."`
}

// Run makes what is missing.
func (a *aclCmd) Run(stdout io.Writer) error {
	f, err := acl.Read(a.File)
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(time.Duration(a.Wait), time.Nanosecond))
	defer cancel()
	changed := false
	err = acl.Ensure(ctx, cmp.Or(a.Consul, "127.0.0.1:8500"), os.Getenv("CONSUL_HTTP_TOKEN"), f, a.Prune, func(line string) {
		changed = changed || !strings.HasPrefix(line, acl.Waiting)
		fmt.Fprintln(stdout, line)
	})
	if err == nil && !changed {
		fmt.Fprintln(stdout, "policies and tokens are complete, nothing was changed")
	}
	return err
}

// interruptible ends with the first SIGINT or SIGTERM.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}
