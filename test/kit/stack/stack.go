// Package stack starts the real programs for a test: Envoys with the filter, a
// region, an upstream, and a faulty network between them. It speaks to loopback
// only, and nothing that it started outlives the test, not even a killed one.
//
// A PoP runs the bootstrap that is shipped, envoy/pop.yaml, with other addresses,
// paths and plugin JSON; see [envoy.Bootstrap].
//
// A missing binary fails the test with the make target that builds it. It never
// skips.
package stack

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// Config is what to start. The zero value is two PoPs of two workers each, one
// region without rules, and the upstream that envoy/pop.yaml brings along.
type Config struct {
	// PoPs is how many Envoys to start; 0 means 2.
	PoPs int
	// Workers is the number of worker threads of each Envoy; 0 means 2.
	Workers int
	// Rules is the YAML rule file of the region.
	Rules string
	// RegionConfig is the YAML of weir-regional's --config; "" starts it without.
	RegionConfig string
	// RegionAddr is where the PoPs find their region; "" starts weir-regional.
	// A test that plays the region itself names its own server here.
	RegionAddr string
	// Links puts a [Link] between each PoP and the region. It costs processor
	// time per call, so tests of plain load go without.
	Links bool
	// Plugin fields are laid over the plugin JSON of envoy/pop.yaml.
	Plugin map[string]any
	// HotRestart lets [envoy.Envoy.HotRestart] replace an Envoy.
	HotRestart bool
	// Upstream answers what the PoPs let through; nil leaves the bootstrap's own,
	// which is cheap and answers 200 to everything.
	Upstream http.Handler
	// Strangers keeps the PoPs from trusting what clients claim to be, as the shipped
	// bootstrap has it; otherwise tests stand in for what authenticates clients.
	Strangers bool
	// Bootstrap, if not nil, edits each PoP's bootstrap last.
	Bootstrap func(*envoy.Bootstrap)
}

// Stack is a running system. Its fields do not change after Start.
type Stack struct {
	PoPs   []*PoP
	Region *region.Region // nil when Config.RegionAddr was given
}

// Start starts what cfg asks for and returns when every part is ready: the PoPs
// serve, and the region is ready. All of it stops when t ends. The logs stay in .run/ if t fails.
func Start(t testing.TB, cfg Config) *Stack {
	t.Helper()
	s, dir := &Stack{}, proc.LogDir(t)
	regionAddr := cfg.RegionAddr
	if regionAddr == "" {
		var flags []string
		if cfg.RegionConfig != "" {
			flags = []string{"--config", proc.WriteFile(t, filepath.Join(dir, "region.yaml"), cfg.RegionConfig)}
		}
		s.Region = region.New(t, region.Config{Dir: dir, Rules: cfg.Rules, Flags: flags})
		regionAddr = s.Region.Addr
		s.Region.Start()
	}
	upstream := ""
	if cfg.Upstream != nil {
		upstream = serve(t, cfg.Upstream)
	}
	for i := range cmp.Or(cfg.PoPs, 2) {
		s.PoPs = append(s.PoPs, newPoP(t, cfg, dir, fmt.Sprintf("pop-%d", i+1), regionAddr, upstream))
	}
	for _, p := range s.PoPs {
		p.Begin()
	}
	for _, p := range s.PoPs {
		p.AwaitReady()
	}
	return s
}

// Addrs returns the addresses of all PoPs, in order.
func (s *Stack) Addrs() []string {
	var addrs []string
	for _, p := range s.PoPs {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}
