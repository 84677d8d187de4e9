package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Main is the main function of a program that grants: it loads a configuration of the
// arguments and runs until a signal. An error ends the process with status 1.
func Main[C interface{ Logger(io.Writer) *slog.Logger }](name string, load func(args []string, out io.Writer) (C, error), run func(context.Context, C, *slog.Logger) error) {
	cfg, err := load(os.Args[1:], os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return
	}
	if err == nil {
		err = run(untilSignal(), cfg, cfg.Logger(os.Stderr))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Logger makes the log that the configuration describes.
func (c *Config) Logger(to io.Writer) *slog.Logger {
	return telemetry.NewLogger(to, c.LogFormat, c.LogLevel)
}

// Hangups returns a channel of its own for each caller, which receives each SIGHUP.
func Hangups() <-chan os.Signal {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGHUP)
	return received
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. A second
// signal ends the process at once: it is for operators who cannot wait for the drain.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	received := make(chan os.Signal, 1)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-received
		signal.Stop(received)
		cancel()
	}()
	return ctx
}
