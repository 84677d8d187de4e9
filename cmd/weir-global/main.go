// Command weir-global is the aggregator of Weir: it grants leases on limits that all regions share to the replicas of the
// regions. --help lists its settings, which package daemon describes.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/settings"
)

func main() { daemon.Main("weir-global", load, run) }

// load reads the configuration. Help goes to out.
func load(args []string, out io.Writer) (*daemon.Config, error) {
	c := new(daemon.Config)
	program := settings.Program{
		Name:        "weir-global",
		Description: "The aggregator of Weir: grants leases on limits that all regions share to the regions.",
	}
	if err := settings.Load(program, c, &c.File, args, out); err != nil {
		return nil, err
	}
	if c.Rules == "" {
		return nil, errors.New("rules: is missing; give the path of a rules file, such as --rules rules.yaml: the same as that of the regions")
	}
	if c.LeaseCache == "on" {
		return nil, errors.New("lease_cache: on is for a region; each call of a region's replica has gathered its asks already: write off, or leave it out")
	}
	return c, errors.Join(c.Check(), c.TLS.CheckRegions(true))
}

// run is a tier without anything beside it. It counts rules with scope: global itself.
func run(ctx context.Context, cfg *daemon.Config, log *slog.Logger) error {
	t, err := daemon.New(cfg, daemon.Program{Name: "weir-global"}, log)
	if err != nil {
		return err
	}
	return t.Run(ctx)
}
