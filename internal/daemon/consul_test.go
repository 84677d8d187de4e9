package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// tap is a way to the agent on which each call is noted that takes a replica out of service,
// with whether the replica takes connections at that moment.
type tap struct {
	replica string // its address
	agent   http.Handler

	mu    sync.Mutex
	calls []string
}

func (c *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is missing, the agent refuses
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case strings.Contains(r.URL.Path, "/check/update/") && bytes.Contains(body, []byte("critical")):
		c.note("critical")
	case strings.Contains(r.URL.Path, "/service/deregister/"):
		c.note("deregister")
	}
	c.agent.ServeHTTP(w, r)
}

func (c *tap) note(call string) {
	conn, err := net.DialTimeout("tcp", c.replica, 5*time.Second)
	if err == nil {
		conn.Close()
		call += " while it listens"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

// A tier that ends is first taken out of service in Consul, then closes its port, then
// deregisters.
func TestConsulAtTheEnd(t *testing.T) {
	agent := consultest.Start(t, proc.LogDir(t))
	cfg := testConfig()
	cfg.Listen, cfg.DrainWait, cfg.DrainTimeout = proc.FreeAddr(t), 3*time.Second, 10*time.Second // for the tap's own connections
	way := &tap{replica: cfg.Listen, agent: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: agent.Addr})}
	server := httptest.NewServer(way)
	defer server.Close()
	cfg.Consul = server.Listener.Addr().String()
	made, err := New(cfg, Program{Name: "weir-test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	agent.AwaitStatus("weir-test", map[string]string{"weir-test-" + cfg.Listen: "passing"})
	end()
	agent.AwaitStatus("weir-test", nil)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	calls := slices.Compact(way.calls)
	if want := []string{"critical while it listens", "deregister"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

// Replicas without a store that counts them take their number from Consul.
func TestReplicasInConsul(t *testing.T) {
	agent := consultest.Start(t, proc.LogDir(t))
	var all []*Tier
	for range 2 {
		cfg := testConfig()
		cfg.Listen, cfg.Consul = proc.FreeAddr(t), agent.Addr
		all = append(all, runBeside(t, cfg, Program{Name: "weir-test", Above: &Above{Region: "eu"}}, slog.New(slog.DiscardHandler)))
	}
	for _, made := range all {
		proc.Await(t, time.Minute, "two replicas", func() string {
			if n := made.counters.replicas(); n != 2 {
				return fmt.Sprint(n)
			}
			return ""
		})
	}
}

// A region that starts while Consul is away has the rules of its copy. Without one it is not ready, and takes the
// rules when they come.
func TestRulesInConsul(t *testing.T) {
	agent := consultest.Start(t, proc.LogDir(t))
	config := func(copied string) *Config {
		cfg := testConfig()
		cfg.Listen, cfg.Consul, cfg.Rules, cfg.RulesCopy = proc.FreeAddr(t), agent.Addr, "consul:", copied
		return cfg
	}
	begin := func(copied string) *Tier {
		return runBeside(t, config(copied), Program{Name: "weir-test", Above: &Above{Region: "eu"}}, slog.New(slog.DiscardHandler))
	}
	revision := func(tier *Tier) uint64 { return rule.Number(tier.rules.revision()) }
	copied := filepath.Join(t.TempDir(), "copy")
	first := begin(copied)
	if reasons := first.Ready.Reasons(); len(reasons) != 1 || !strings.Contains(reasons[0], "no rules yet") {
		t.Errorf("not ready because of %q, want that there are no rules", reasons)
	}
	store, err := versions.Open(agent.Addr, "")
	if err != nil {
		t.Fatal(err)
	}
	document, err := versions.Parse("rules", []byte("rules: [{ name: a, key: [], limit: 10/1m }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := store.Apply(t.Context(), document, versions.Change{Who: "somebody", Why: "begin"})
	if err != nil {
		t.Fatal(err)
	}
	proc.Eventually(t, time.Minute, "the first region has the rules and a copy", func() bool {
		_, err := os.Stat(copied)
		return err == nil && revision(first) == v.Revision && len(first.Ready.Reasons()) == 0
	})
	agent.Kill()
	if second := begin(copied); revision(second) != v.Revision || len(second.Ready.Reasons()) != 0 {
		t.Errorf("revision %d of the copy, want %d; not ready because of %q", revision(second), v.Revision, second.Ready.Reasons())
	}
}

// Others get the address that is advertised, else the one that is listened on; of every
// interface only the agent has an address.
func TestAdvertised(t *testing.T) {
	for _, c := range []struct {
		advertise, bound string
		host             string
		port             int
	}{
		{"", "127.0.0.1:8080", "127.0.0.1", 8080},
		{"", "0.0.0.0:8080", "", 8080},
		{"", "[::]:8080", "", 8080},
		{"10.0.0.1:80", "[::]:8080", "10.0.0.1", 80},
		{"eu-1.example:80", "[::]:8080", "eu-1.example", 80},
		{":80", "127.0.0.1:8080", "", 80},
	} {
		if host, port := advertised(&Config{Advertise: c.advertise}, c.bound); host != c.host || port != c.port {
			t.Errorf("%q, listening on %s: %q, %d", c.advertise, c.bound, host, port)
		}
	}
}
