// Command weir-regional is the region of Weir: it grants leases on rate limits to
// the points of presence that share them. Package config has its settings; --help
// lists them.
package main

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/regional/config"
)

func main() { daemon.Main("weir-regional", config.Load, run) }

// run is a tier with Envoy's rate limit service, if that is configured.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	t, err := daemon.New(&cfg.Config, daemon.Program{Name: "weir-regional", CallTime: cfg.RLS.Budget, Above: &cfg.Above}, log)
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
	return t.Run(ctx, daemon.Hangups, "rls", address)
}
