//go:build linux

package rig

import (
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// Region is one weir-regional.
type Region struct {
	RLS string // Envoy's rate limit service; empty: it has none
	*region.Region
}

// Region starts a region with its memory store that enforces rules, a rule file's
// text.
func (r *Rig) Region(name, rules string) (*Region, error) {
	return r.region(name, rules, func() (string, []string) {
		return "", []string{"--state", filepath.Join(r.Dir, name+".state")}
	})
}

// Replica starts a region on Redis, which enforces rules, a rule file's text, and
// serves limits, the configuration of Envoy's rate limit service.
func (r *Rig) Replica(name string, redis []string, rules, limits string) (*Region, error) {
	return r.region(name, rules, func() (string, []string) {
		rls := proc.FreeAddr(r)
		return rls, []string{"--pprof", "--max-holders-per-address", "100000", "--redis", strings.Join(redis, ","),
			"--ratelimit-config", r.limits(name, limits), "--rls-listen", rls}
	})
}

func (r *Rig) region(name, rules string, more func() (rls string, flags []string)) (g *Region, err error) {
	defer proc.Recover(&err)
	rls, flags := more()
	g = &Region{rls, region.New(r, region.Config{Dir: r.Dir, Name: name, Rules: rules, Flags: flags})}
	g.Start()
	r.Count(g.Process)
	return g, nil
}

// limits writes a directory with a configuration of Envoy's rate limit service.
func (r *Rig) limits(name, text string) (dir string) {
	return filepath.Dir(proc.WriteFile(r, filepath.Join(r.Dir, name+".limits", "config", "bench.yaml"), text))
}
