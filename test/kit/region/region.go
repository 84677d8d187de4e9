// Package region runs weir-regional, and other programs that take its flags.
package region

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Config is how to run a region. The zero value, but for Dir, has the memory store
// and no rules.
type Config struct {
	Dir   string   // for its log and configuration
	Name  string   // of both; "" means region
	Rules string   // text of its rule file
	Flags []string // beside those that New sets
	// Program is the one to run, of those that `make build` makes; "" means weir-regional.
	Program string

	// Addr and Admin are where it listens; "" is a free port of this machine.
	Addr, Admin string
	// Command, if not nil, changes the command line: to run it elsewhere, for example.
	Command func(argv []string) []string
	// Dial, if not nil, connects to it.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Region is one weir-regional, or the program of its Config.
type Region struct {
	Addr  string // QuotaService
	Admin string // health and metrics
	HTTP  *http.Client
	*proc.Process

	t     proc.T
	rules string // path of its rule file
}

// New prepares a region. Start starts it.
func New(t proc.T, cfg Config) *Region {
	t.Helper()
	cfg.Name = cmp.Or(cfg.Name, "region")
	program := proc.Built(t, "bin/"+cmp.Or(cfg.Program, "weir-regional"), "build")
	r := &Region{Addr: cfg.Addr, Admin: cfg.Admin, t: t}
	for _, addr := range []*string{&r.Addr, &r.Admin} {
		*addr = cmp.Or(*addr, proc.FreeAddr(t))
	}
	transport := &http.Transport{DialContext: cfg.Dial, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	r.HTTP = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	r.rules = proc.WriteFile(t, filepath.Join(cfg.Dir, cfg.Name+".rules.yaml"), cfg.Rules)
	argv := append([]string{program, "--rules", r.rules, "--listen", r.Addr, "--admin-listen", r.Admin,
		"--drain-wait", "0s"}, cfg.Flags...)
	if cfg.Command != nil {
		argv = cfg.Command(argv)
	}
	r.Process = proc.New(t, cfg.Dir, cfg.Name, argv...)
	return r
}

// Program is the path of the built weir-regional.
func Program(t proc.T) string {
	t.Helper()
	return proc.Built(t, "bin/weir-regional", "build")
}

// Start starts the region, or starts it again, and waits until it is ready.
func (r *Region) Start() {
	r.t.Helper()
	r.Begin()
	r.AwaitReady()
}

// AwaitReady waits until the region is ready.
func (r *Region) AwaitReady() {
	r.t.Helper()
	r.AwaitUp(func() string {
		status, text := r.Ready()
		if status == http.StatusOK {
			return ""
		}
		return text
	})
}

// Ready is what /readyz answers; 0 and the error if it does not.
func (r *Region) Ready() (status int, text string) { return r.Probe("/readyz") }

// Probe is what a path of the admin port answers; 0 and the error if it does not.
func (r *Region) Probe(path string) (status int, text string) {
	resp, body, err := page.Get(context.Background(), r.HTTP, "http://"+r.Admin+path)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// SetRules replaces the rule file in one step, as an operator's tool would.
func (r *Region) SetRules(rules string) {
	r.t.Helper()
	fatal.If(r.t, os.Rename(proc.WriteFile(r.t, r.rules+".new", rules), r.rules))
}

// Metrics returns the region's samples by name with labels, as /metrics prints
// them: `weir_grants_total{override="",rule="login",status="ok"}`.
func (r *Region) Metrics() measure.Metrics {
	r.t.Helper()
	m, err := measure.Scrape(context.Background(), r.HTTP, "http://"+r.Admin+"/metrics")
	if err != nil {
		r.t.Fatalf("%s: %v", r.Name, err)
	}
	return m
}
