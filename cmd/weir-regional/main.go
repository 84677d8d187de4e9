// Command weir-regional is the region of Weir: it grants leases on rate limits to its PoPs. Package config has its settings;
// --help lists them.
package main

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir/cmd/weir-regional/config"
	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/server"
)

func main() { daemon.Main("weir-regional", config.Load, run) }

// run is a tier with Envoy's rate limit service, if that is configured.
func run(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	t, err := daemon.New(&cfg.Config, daemon.Program{Name: "weir-regional", CallTime: cfg.RLS.Budget, AggregatorCalls: &cfg.AggregatorCalls}, log)
	if err != nil {
		return err
	}
	if cfg.RatelimitConfig == "" && cfg.RatelimitBindings == "" {
		return t.Run(ctx)
	}
	s, err := newRateLimitService(cfg, t)
	if err != nil {
		return err
	}
	port, err := server.Listen(ctx, cfg.RLS.Listen, "rls-listen", 0)
	if err != nil {
		return err
	}
	defer func() { _ = port.Close() }() // Shut has closed it already, unless nothing was served
	t.Ready.Notify(s.SetReady)
	t.OnRules(s.RulesChanged)
	s.Handle(t.Calls)
	return t.Run(ctx, daemon.Port{Name: "rls", Listener: port, Server: s})
}
