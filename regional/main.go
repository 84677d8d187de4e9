// Command weir-regional is the region of Weir: it grants leases on rate limits to
// the points of presence that share them. What it can be told is in package
// config; --help lists it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/regional/config"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "weir-regional: %v\n", err)
		os.Exit(1)
	}
}

// start turns the process into a call of run: arguments into a Config, signals
// into a context and channels.
func start(args []string) error {
	cfg, err := config.Load(args, os.Stdout)
	if errors.Is(err, config.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := telemetry.NewLogger(os.Stderr, cfg.LogFormat, cfg.LogLevel)
	if err != nil {
		return err
	}
	ctx := untilSignal(os.Interrupt, syscall.SIGTERM)
	return run(ctx, cfg, log, hangups)
}

// hangups tells of each SIGHUP, to each of those who asked for it.
func hangups() <-chan os.Signal {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGHUP)
	return received
}

// untilSignal returns a context that the first of these signals ends. By then the
// next one ends the process at once: that is for who cannot wait for the drain.
func untilSignal(signals ...os.Signal) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, signals...)
	go func() {
		<-received
		signal.Stop(received)
		cancel()
	}()
	return ctx
}
