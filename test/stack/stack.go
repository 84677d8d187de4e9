// Package stack starts the real programs for a test: Envoys with the filter, a
// region, an upstream, and a faulty network between them. It speaks to loopback
// only, and nothing that it started outlives the test, not even a killed one.
//
// A PoP runs the bootstrap that is shipped, envoy/pop.yaml, with other addresses,
// paths and plugin JSON; see [Bootstrap].
//
// A missing binary fails the test with the make target that builds it. It never
// skips.
package stack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Config says what to start. The zero value is two PoPs of two workers each, one
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
	// RegionLater starts everything but the region; the test calls Region.Start.
	RegionLater bool
	// Plugin fields are laid over the plugin JSON of envoy/pop.yaml.
	Plugin map[string]any
	// HotRestart lets [PoP.HotRestart] replace an Envoy.
	HotRestart bool
	// Upstream answers what the PoPs let through; nil leaves the bootstrap's own,
	// which is cheap and says 200 to everything.
	Upstream http.Handler
	// Strangers keeps the PoPs from trusting what clients claim to be, as the shipped
	// bootstrap has it; otherwise tests stand in for what authenticates clients.
	Strangers bool
	// Bootstrap, if not nil, edits each PoP's bootstrap last.
	Bootstrap func(*Bootstrap)
}

// Stack is a running system. Its fields do not change after Start.
type Stack struct {
	PoPs   []*PoP
	Region *Region // nil when Config.RegionAddr was given
	dir    string
}

// Start starts what cfg asks for and returns when every part is ready: the PoPs
// serve and, unless the region comes later, the region is ready. All of it stops
// when t ends. The logs stay in .run/ if t fails.
func Start(t testing.TB, cfg Config) *Stack {
	t.Helper()
	s := &Stack{dir: logDir(t)}
	regionAddr := cfg.RegionAddr
	if regionAddr == "" {
		s.Region = newRegion(t, s.dir, cfg.Rules, cfg.RegionConfig)
		regionAddr = s.Region.Addr
		if !cfg.RegionLater {
			s.Region.Start()
		}
	}
	upstream := ""
	if cfg.Upstream != nil {
		upstream = serve(t, cfg.Upstream)
	}
	for i := range orDefault(cfg.PoPs, 2) {
		pop := popConfig{
			dir:        s.dir,
			name:       fmt.Sprintf("pop-%d", i+1),
			workers:    orDefault(cfg.Workers, 2),
			region:     regionAddr,
			upstream:   upstream,
			plugin:     cfg.Plugin,
			strangers:  cfg.Strangers,
			bootstrap:  cfg.Bootstrap,
			hotRestart: cfg.HotRestart,
		}
		if cfg.Links {
			pop.link = NewLink(t, regionAddr)
			pop.region = pop.link.Addr
		}
		s.PoPs = append(s.PoPs, newPoP(t, pop))
	}
	var starting sync.WaitGroup
	for _, p := range s.PoPs {
		p.launch()
		starting.Go(p.awaitReady)
	}
	starting.Wait()
	for _, p := range s.PoPs {
		if p.startErr != nil {
			t.Fatal(p.startErr)
		}
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

// Eventually polls ok until it is true and fails the test after within.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Root returns the root of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test's directory")
	return ""
}

// built returns the path of something that make target leaves in the repository.
func built(t testing.TB, path, target string) string {
	t.Helper()
	path = filepath.Join(Root(t), path)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v\nrun `make %s` first", err, target)
	}
	return path
}

// logDir returns a new directory for the logs of t. It goes away if t passes.
func logDir(t testing.TB) string {
	t.Helper()
	parent := filepath.Join(Root(t), ".run")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(parent, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and configuration: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func marshal(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
