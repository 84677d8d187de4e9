//go:build linux

// Load runs the benchmarks of Weir against real processes on this machine and
// prints, for each figure that the project has to reach, what was measured.
//
//	go run ./test/load edge            the edge: Envoy with the filter, and the region behind it
//	go run ./test/load region          the region: its rate limit service and its Redis scripts, beside others
//	go run ./test/load region -quick   either in a minute and a half, with fewer rounds
//
// It needs what `make setup` and `make build` leave, sends to the loopback
// interface only, and exits 0 whether or not every target was reached, 1 if
// something could not be measured: a benchmark reports, tests judge. Run it on a machine that does nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/test/load/edge"
	"github.com/weirlimit/weir/test/load/region"
	"github.com/weirlimit/weir/test/load/table"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// benchmark is what the flags of one chose.
type benchmark struct {
	peer    string // what its rows are compared with, in a word
	measure func(ctx context.Context, progress io.Writer) ([]table.Section, error)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var name string
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	var b benchmark
	switch name {
	case "edge":
		b = edgeFlags(flags)
	case "region":
		b = regionFlags(flags)
	default:
		return errors.New("which benchmark? there are: edge, region")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	sections, err := b.measure(ctx, stderr)
	if len(sections) > 0 {
		err = errors.Join(err, table.Print(stdout, b.peer, sections))
		fmt.Fprintf(stdout, "\nRows short of their target: %d.\n", table.Missed(sections))
	}
	return err
}

func edgeFlags(flags *flag.FlagSet) benchmark {
	var opts edge.Options
	flags.BoolVar(&opts.Quick, "quick", false, "fewer and shorter rounds: smoke, not figures")
	flags.StringVar(&opts.Only, "only", "", "only the part with this name: closed, fixed, path, memory")
	return benchmark{"bare", func(ctx context.Context, progress io.Writer) ([]table.Section, error) {
		return edge.Run(ctx, opts, progress)
	}}
}

func regionFlags(flags *flag.FlagSet) benchmark {
	var opts region.Options
	flags.BoolVar(&opts.Quick, "quick", false, "fewer and shorter rounds: smoke, not figures")
	flags.StringVar(&opts.Only, "only", "", "only these parts: "+strings.Join(region.Parts, ", "))
	return benchmark{"theirs", func(ctx context.Context, progress io.Writer) ([]table.Section, error) {
		return region.Run(ctx, opts, progress)
	}}
}
