//go:build linux

// Load runs the benchmarks of Weir against real processes on this machine and
// prints, for each figure that the project has to reach, what was measured.
//
//	go run ./test/load edge            the edge: Envoy with the filter, and the region behind it
//	go run ./test/load edge -quick     the same in a minute and a half, with fewer rounds
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
	"syscall"

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

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] != "edge" {
		return errors.New("which benchmark? there is: edge")
	}
	flags := flag.NewFlagSet("edge", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var opts edgeOptions
	quick := flags.Bool("quick", false, "fewer and shorter rounds: smoke, not figures")
	flags.BoolVar(&opts.peersOnly, "peers-only", false, "only bare Envoy and its native limiter: how noisy is this machine?")
	flags.BoolVar(&opts.profile, "profile", false, "profile each mode after measuring it (Envoy by perf, the region by pprof)")
	flags.StringVar(&opts.only, "only", "", "only the part with this name: closed, fixed, path, memory, go")
	jsonPath := flags.String("json", "", "also write every row with its rounds to this file")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	opts.plan = fullPlan
	if *quick {
		opts.plan = quickPlan
	}
	sections, err := edge(ctx, opts, stderr)
	if len(sections) > 0 {
		err = errors.Join(err, table.Print(stdout, sections))
		fmt.Fprintf(stdout, "\nRows short of their target: %d.\n", table.Missed(sections))
	}
	if *jsonPath != "" {
		err = errors.Join(err, writeJSON(*jsonPath, sections))
	}
	return err
}

func writeJSON(path string, sections []table.Section) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return table.WriteJSON(f, sections)
}
