//go:build linux

// Load runs the benchmarks of Weir against real processes on this machine and
// prints what was measured. docs/benchmarks.md has the aims.
//
//	go run ./test/load edge            the edge: Envoy with the filter, and the region behind it
//	go run ./test/load region          the region: its rate limit service beside others
//	go run ./test/load shed            a shed rule beside what Envoy itself has against overload
//	go run ./test/load release         images, programs and the filter of a release: bytes, start, memory
//	go run ./test/load region -quick   each in a minute and a half, with fewer rounds
//	go run ./test/load region -only slow   the parts with these names, with commas between
//
// It needs what `make setup` and `make build` leave (release: and `make release`), sends to the loopback
// interface only, and exits 1 if something could not be measured. Run it on a machine that does nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirlimit/weir/test/load/edge"
	"github.com/weirlimit/weir/test/load/region"
	"github.com/weirlimit/weir/test/load/release"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/shed"
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

type benchmark struct {
	peer string // what its rows are compared with, in a word
	run  func(context.Context, rig.Options) ([]table.Section, error)
}

var benchmarks = map[string]benchmark{"edge": {peer: "bare", run: edge.Run}, "region": {peer: "theirs", run: region.Run},
	"release": {peer: "bare", run: release.Run}, "shed": {"best", shed.Run}}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || benchmarks[args[0]].run == nil {
		return errors.New("which benchmark? there are: edge, region, release, shed")
	}
	b, flags := benchmarks[args[0]], flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(stderr)
	opts := rig.Options{Progress: stderr}
	flags.BoolVar(&opts.Quick, "quick", false, "fewer and shorter rounds: smoke, not figures")
	flags.StringVar(&opts.Only, "only", "", "only the parts with these names, with commas between; they are printed as they end")
	if args[0] == "shed" {
		flags.StringVar(&opts.Plots, "plots", "", "directory to draw a plot of each scenario into; empty: none")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	sections, err := b.run(ctx, opts)
	if len(sections) > 0 {
		err = errors.Join(err, table.Print(stdout, b.peer, sections))
	}
	return err
}
