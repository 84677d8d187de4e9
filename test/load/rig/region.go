//go:build linux

package rig

import (
	"context"

	"github.com/weirlimit/weir/test/load/measure"
)

// Region is one weir-regional with its memory store.
type Region struct {
	Addr string // QuotaService
	*Process
	admin string
}

// Region starts a region that enforces rules, a rule file's text.
func (r *Rig) Region(ctx context.Context, name, rules string) (*Region, error) {
	bin, err := r.built("weir-regional")
	if err != nil {
		return nil, err
	}
	path, err := r.write(name+".rules.yaml", rules)
	if err != nil {
		return nil, err
	}
	g := &Region{Addr: r.addr(), admin: r.addr()}
	g.Process, err = r.start(ctx, name, "http://"+g.admin+"/readyz",
		bin, "--rules", path, "--listen", g.Addr, "--admin-listen", g.admin)
	return g, err
}

// Metrics reads its counters and gauges.
func (g *Region) Metrics(ctx context.Context) (measure.Metrics, error) {
	return measure.Scrape(ctx, "http://"+g.admin+"/metrics")
}
