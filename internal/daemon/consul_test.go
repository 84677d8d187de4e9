package daemon

import (
	"bytes"
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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
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
	body, _ := io.ReadAll(r.Body) // what is missing, the agent rejects
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

// TestConsul has the tests that share an agent. The last one kills it.
func TestConsul(t *testing.T) {
	agent := consultest.Start(t, proc.LogDir(t))
	t.Run("AtTheEnd", func(t *testing.T) { consulAtTheEnd(t, agent) })
	t.Run("Plain", func(t *testing.T) { plainInConsul(t, agent) })
	t.Run("Rules", func(t *testing.T) { rulesInConsul(t, agent) })
}

// A tier that ends is first taken out of service in Consul, then closes its port, then deregisters.
func consulAtTheEnd(t *testing.T, agent *consultest.Agent) {
	cfg := testConfig()
	cfg.Listen, cfg.DrainWait, cfg.DrainTimeout = proc.FreeAddr(t), time.Second, 10*time.Second // for the tap's own connections
	way := &tap{replica: cfg.Listen, agent: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: agent.Addr})}
	server := httptest.NewServer(way)
	defer server.Close()
	cfg.Consul = server.Listener.Addr().String()
	t.Run("until it ends", func(t *testing.T) {
		runBeside(t, cfg, Program{Name: "weir-test"}, quiet)
		agent.AwaitStatus("weir-test", map[string]string{"weir-test-" + cfg.Listen: "passing"})
	})
	agent.AwaitStatus("weir-test", nil)
	server.Close()                         // a call that was given up may still be noted
	calls := strings.Join(way.calls, ", ") // the check may be renewed between the two
	if !strings.HasPrefix(calls, "critical while it listens, ") || !strings.HasSuffix(calls, ", deregister") || strings.Count(calls, "deregister") != 1 {
		t.Errorf("calls %s; want critical while it listens, then deregister", calls)
	}
}

// Replicas without a store that counts them take their number from Consul. A region without rules is not ready. Rules that
// are applied are in force in all replicas. A region that starts while Consul is away has the
// rules of its copy.
func rulesInConsul(t *testing.T, agent *consultest.Agent) {
	begin := func(copied string) *Tier {
		cfg := testConfig()
		cfg.Listen, cfg.Consul, cfg.Rules, cfg.RulesCopy = proc.FreeAddr(t), agent.Addr, "consul:", copied
		return runBeside(t, cfg, ofRegion, quiet)
	}
	revision := func(tier *Tier) uint64 { return rule.Number(tier.revision()) }
	copied := filepath.Join(t.TempDir(), "copy")
	both := []*Tier{begin(copied), begin("off")}
	for _, tier := range both {
		rejected(t, tier, "no rules yet")
	}
	d := fatal.Get(versions.Parse("rules", []byte("rules: [{ name: a, key: [client_ip], limit: 5/1m }]\n")))(t)
	applied := fatal.Get(both[0].rules.store.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "begin"}))(t)
	for _, tier := range both {
		proc.Await(t, time.Minute, "the rules in force, and two replicas", func() string {
			if n := tier.counters.replicas(); n != 2 || revision(tier) != applied.Revision {
				return fmt.Sprint(n, " replicas, revision ", revision(tier))
			}
			return ""
		})
		rejected(t, tier, "")
	}
	proc.Eventually(t, time.Minute, "a copy", func() bool {
		_, err := os.Stat(copied)
		return err == nil
	})
	agent.Kill()
	if third := begin(copied); revision(third) != applied.Revision || len(third.Ready.Reasons()) != 0 {
		t.Errorf("revision %d of the copy, want %d; not ready because of %q", revision(third), applied.Revision, third.Ready.Reasons())
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

// A region without certificates does not call an aggregator that Consul has on another machine.
// It logs why, at each change in Consul, and calls those on its own machine.
func plainInConsul(t *testing.T, agent *consultest.Agent) {
	run := func(name string, calls *AggregatorCalls, advertise string) (log *proc.Lines, listens string) {
		cfg := testConfig()
		cfg.Listen, cfg.Consul, cfg.Advertise = proc.FreeAddr(t), agent.Addr, advertise
		log = new(proc.Lines)
		runBeside(t, cfg, Program{Name: name, AggregatorCalls: calls}, slog.New(slog.NewTextHandler(log, nil)))
		return log, cfg.Listen
	}
	const far, calls = "198.18.0.1:8080", "aggregators in consul\" addresses=" // RFC 2544: it is nobody's
	rejecting, _ := run("weir-regional", &AggregatorCalls{Region: "eu"}, "")
	rejecting.Await(t, 1, "level=WARN", "no aggregator that passes its check; none is called until one does")
	run(aggregatorService, nil, far)
	rejects := []string{"level=ERROR", "aggregator in consul is not called", "--aggregator-tls-cert", "--aggregator-plain", "address=" + far}
	rejecting.Await(t, 1, rejects...)
	allowing, _ := run("weir-regional", &AggregatorCalls{Region: "us", AggregatorPlain: true}, "")
	allowing.Await(t, 1, calls+"["+far+"]")

	_, here := run(aggregatorService, nil, "")
	rejecting.Await(t, 1, calls+"["+here+"]")
	rejecting.Await(t, 1, "level=WARN", "neither TLS nor authentication", "address="+here)
	rejecting.Await(t, 2, rejects...)
	if more := rejecting.With(calls, far); len(more) > 0 {
		t.Errorf("it calls the other machine: %q", more)
	}
}
