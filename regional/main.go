// Command weir-regional is the region of Weir: it grants leases on rate limits to
// the points of presence that share them. Package config has its settings; --help
// lists them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/tier"
	"github.com/weirlimit/weir/regional/config"
)

func main() {
	if err := start(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "weir-regional: %v\n", err)
		os.Exit(1)
	}
}

// start makes a Config of the arguments, and runs until a signal.
func start(args []string) error {
	cfg, err := config.Load(args, os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return run(tier.UntilSignal(), cfg, telemetry.NewLogger(os.Stderr, cfg.LogFormat, cfg.LogLevel))
}

// run is a tier with Envoy's rate limit service, if that is configured.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	t, err := tier.New(&cfg.Config, tier.Program{Name: "weir-regional", CallTime: cfg.RLS.Budget, Above: &cfg.Above}, log)
	if err != nil {
		return err
	}
	address := "" // none
	if cfg.RatelimitConfig != "" || cfg.Descriptors != "" {
		s, err := newRateLimitService(ctx, cfg, t)
		if err != nil {
			return err
		}
		t.Extend(s)
		address = s.port.Addr().String()
	}
	return t.Run(ctx, tier.Hangups, "rls", address)
}
