//go:build linux

package rig

import (
	"path/filepath"
	"strings"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// Region starts a region with its memory store that enforces rules, a rule file's
// text.
func (r *Rig) Region(name, rules string) (*region.Region, error) {
	return r.region(name, rules, "--state", filepath.Join(r.Dir, name+".state"))
}

// Replica starts a region on Redis without rules, which serves limits, the
// configuration of Envoy's rate limit service.
func (r *Rig) Replica(name string, redis []string, limits string) (s *Service, err error) {
	defer proc.Recover(&err)
	s = &Service{RLS: proc.FreeAddr(r)}
	g, err := r.region(name, "rules: []\n", "--redis", strings.Join(redis, ","),
		"--ratelimit-config", r.limits(name, limits), "--rls-listen", s.RLS)
	if err != nil {
		return nil, err
	}
	s.Process = g.Process
	return s, nil
}

func (r *Rig) region(name, rules string, flags ...string) (g *region.Region, err error) {
	defer proc.Recover(&err)
	g = region.New(r, region.Config{Dir: r.Dir, Name: name, Rules: rules, Flags: flags})
	g.Start()
	r.Count(g.Process)
	return g, nil
}

// limits writes a directory with a configuration of Envoy's rate limit service.
func (r *Rig) limits(name, text string) (dir string) {
	return filepath.Dir(proc.WriteFile(r, filepath.Join(r.Dir, name+".limits", "config", "bench.yaml"), text))
}
