package terraform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const (
	rules = "rules:\n" +
		"  - { name: page, match: { path: /page }, key: [client_ip], limit: 5/1d, consistency: exact, on_failure: deny, timeout: 1s }\n" +
		"  - { name: all, scope: global, match: { path: /all }, key: [], limit: 5/1d, consistency: exact, on_failure: deny, timeout: 1s }\n"
	token = "11111111-2222-3333-4444-555555555555"
)

// host is where a machine of the test has its files.
type host struct {
	t       *testing.T
	dir     string // logs
	secrets string
	files   map[string]any // directories of the module
}

// newHost has the programs that were built here, and the secrets that every machine fetches.
func newHost(t *testing.T, dir string, a *pki.Authority, gossip string, names ...string) *host {
	t.Helper()
	h := &host{t: t, dir: dir, secrets: filepath.Join(dir, "secrets")}
	h.files = map[string]any{"config": dir, "secrets": h.secrets, "data": filepath.Join(dir, "data"), "programs": filepath.Join(proc.Root(t), "bin")}
	for _, sub := range []string{h.secrets, filepath.Join(dir, "data")} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.certificate(a, "", names...)
	h.certificate(a, "consul-", "server.eu.consul", "client.eu.consul", "localhost", "127.0.0.1")
	h.secret("consul-token", token+"\n")
	h.secret("redis-password", "secret\n")
	h.secret("consul.json", marshal(t, map[string]any{"encrypt": gossip,
		"acl": map[string]any{"tokens": map[string]any{"initial_management": token, "agent": token, "dns": token}}}))
	return h
}

func (h *host) secret(name, content string) {
	h.t.Helper()
	proc.WriteFile(h.t, filepath.Join(h.secrets, name), content)
}

// certificate makes what the module's files name: PREFIXca.pem, PREFIXcert.pem, PREFIXkey.pem.
func (h *host) certificate(a *pki.Authority, prefix string, names ...string) {
	h.t.Helper()
	cert, key, err := a.Issue(names[0], names...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.secret(prefix+"ca.pem", string(a.PEM))
	h.secret(prefix+"cert.pem", string(cert))
	h.secret(prefix+"key.pem", string(key))
}

// consul checks the configuration of an agent by Consul itself, and starts it.
func (h *host) consul(name, config string) *proc.Process {
	h.t.Helper()
	program := proc.Built(h.t, ".tools/consul", "setup")
	files := []string{proc.WriteFile(h.t, filepath.Join(h.dir, name+".json"), config), filepath.Join(h.secrets, "consul.json")}
	if out, err := exec.CommandContext(h.t.Context(), program, append([]string{"validate"}, files...)...).CombinedOutput(); err != nil {
		h.t.Fatalf("consul validate: %v\n%s", err, out)
	}
	return proc.Start(h.t, h.dir, name, program, "agent", "-node="+name, "-config-file="+files[0], "-config-file="+files[1])
}

// agentPorts are those of one agent, all on loopback.
func agentPorts(t *testing.T, more map[string]any) (map[string]any, func(name string) string) {
	t.Helper()
	c := map[string]any{"servers": 1, "bind_address": "127.0.0.1"}
	for _, name := range []string{"http", "dns", "server", "serf_lan", "serf_wan"} {
		c[name+"_port"] = proc.FreePort(t)
	}
	for k, v := range more {
		c[k] = v
	}
	return c, func(name string) string { return net.JoinHostPort("127.0.0.1", string(marshal(t, c[name+"_port"]))) }
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// aggregator starts weir-global from what is rendered for it, with counters in a Redis of its own
// and the agent of Consul that is there, and returns what its metrics are.
func aggregator(t *testing.T, h *host, agent map[string]any, beside *beside) (page string) {
	t.Helper()
	redis := redistest.StartCluster(t, 3, 0, redistest.Password("secret"))
	service := map[string]any{"address": "127.0.0.1", "port": proc.FreePort(t), "admin_port": proc.FreePort(t),
		"redis": redis.Addrs()[:1], "redis_tls": false, "redis_username": "default", "drain_wait": "0s"}
	_, environments := bootstrap(t, map[string]any{"region": "eu", "directories": h.files, "consul": agent, "service": service})
	program := proc.Built(t, "bin/weir-global", "build")
	global := proc.Start(t, h.dir, "weir-global", slices.Concat([]string{"env"}, environments["global_environment"], beside.environment, []string{program})...)
	admin := "http://" + net.JoinHostPort("127.0.0.1", marshal(t, service["admin_port"]))
	global.AwaitReady(admin + "/readyz")
	beside.awaitMetrics(t, global, "weir-global")
	return admin + "/metrics"
}

// A region, an aggregator and a PoP run with the rendered files alone: Consul with ACL and TLS,
// weir-regional and weir-global on Redis Clusters with the rules of Consul, and an Envoy that finds
// the region by DNS. Region and PoP call the tier above with their certificates. The limits of the
// region and of all regions hold, both services send the metrics that CloudWatch is to have, and
// the PoP drains.
func TestPoPAndRegionFromBootstrap(t *testing.T) {
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	gossip := base64.StdEncoding.EncodeToString(make([]byte, 32))
	redis := redistest.StartCluster(t, 3, 0, redistest.Password("secret"))
	dir := proc.LogDir(t)

	servers, serverPort := agentPorts(t, nil)
	service := map[string]any{"address": "127.0.0.1", "port": proc.FreePort(t), "admin_port": proc.FreePort(t),
		"redis": redis.Addrs()[:1], "redis_tls": false, "redis_username": "default", "drain_wait": "0s"}
	server := newHost(t, filepath.Join(dir, "region"), a, gossip, "weir-regional", "weir://region/eu")
	texts, environments := bootstrap(t, map[string]any{"region": "eu", "directories": server.files, "consul": servers, "service": service})
	leader := server.consul("consul-server", texts["consul_server_json"])
	apply := func() string {
		cmd := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "apply", proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules),
			"--consul", serverPort("http"), "--reason", "first rules")
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_TOKEN="+token)
		if out, err := cmd.CombinedOutput(); err != nil {
			return err.Error() + string(out)
		}
		return ""
	}
	leader.AwaitUp(apply)
	beside := collector(t)
	metrics := aggregator(t, newHost(t, filepath.Join(dir, "global"), a, gossip, "weir-global"), servers, beside)
	regional := proc.Start(t, server.dir, "weir-regional", slices.Concat([]string{"env"}, environments["regional_environment"], beside.environment, []string{region.Program(t)})...)
	regional.AwaitReady("http://" + net.JoinHostPort("127.0.0.1", marshal(t, service["admin_port"])) + "/readyz")

	beside.awaitMetrics(t, regional, "weir-regional")

	clients, _ := agentPorts(t, map[string]any{"join": []string{serverPort("serf_lan")}})
	pop := map[string]any{"name": "pop-7", "upstreams": []string{upstream(t)}, "address": "127.0.0.1",
		"port": proc.FreePort(t), "health_port": proc.FreePort(t), "admin_port": proc.FreePort(t)}
	machine := newHost(t, filepath.Join(dir, "pop"), a, gossip, "weir://pop/eu")
	texts, files := bootstrap(t, map[string]any{"region": "eu", "directories": machine.files, "consul": clients, "service": service, "pop": pop})
	machine.consul("consul-client", texts["consul_client_json"])
	config := proc.WriteFile(t, filepath.Join(machine.dir, "envoy.yaml"), texts["envoy_yaml"])
	for _, file := range files["sds_files"] {
		path, text, _ := strings.Cut(file, "=")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		proc.WriteFile(t, path, text)
	}
	proc.Built(t, "bin/weir.wasm", "build")
	if out, err := exec.CommandContext(t.Context(), envoy.Program(t), "--mode", "validate", "-c", config, "--log-level", "warning").CombinedOutput(); err != nil {
		t.Fatalf("envoy --mode validate: %v\n%s", err, out)
	}
	p := proc.Start(t, machine.dir, "envoy", envoy.Program(t), "-c", config, "--disable-hot-restart", "--concurrency", "2", "--log-level", "warning")
	at := func(port string) string { return net.JoinHostPort("127.0.0.1", marshal(t, pop[port])) }
	p.AwaitReady("http://" + at("health_port") + "/healthz")
	limitHolds(t, p, at("port"), "/page")
	limitHolds(t, p, at("port"), "/all")
	m, err := measure.Scrape(t.Context(), http.DefaultClient, metrics)
	if n := m[`weir_region_units_granted_total{region="eu"}`]; err != nil || n == 0 {
		t.Errorf("the aggregator granted %v units to the region eu, %v", n, err)
	}

	if r, err := stack.Do(at("admin_port"), http.MethodPost, "/healthcheck/fail", ""); err != nil || r.Status != http.StatusOK {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := stack.Do(at("health_port"), http.MethodGet, "/healthz", ""); err != nil || r.Status != http.StatusServiceUnavailable {
		t.Errorf("/healthz of a PoP that drains: %+v, %v, want 503", r, err)
	}
	if r, err := stack.Do(at("port"), http.MethodGet, "/other", ""); err != nil || r.Status != http.StatusOK {
		t.Errorf("a request while the PoP drains: %+v, %v, want 200", r, err)
	}
	regional.Stop()
}

// limitHolds waits for the PoP's rules and uses up the limit of 5 of a path. What the region does
// not answer in time is refused with 503, and may have been charged.
func limitHolds(t *testing.T, p *proc.Process, addr, path string) {
	t.Helper()
	got := map[int]int{}
	p.AwaitUp(func() string {
		r, err := stack.Do(addr, http.MethodGet, path, "")
		switch {
		case err != nil:
			return err.Error()
		case r.Header.Get("RateLimit") == "" && r.Status == http.StatusOK:
			return "no limit applies yet"
		}
		got[r.Status]++
		if got[http.StatusTooManyRequests] == 0 {
			return fmt.Sprint("the limit of ", path, " is not used up: ", got)
		}
		return ""
	})
	if admitted := got[http.StatusOK]; admitted > 5 || admitted+got[http.StatusServiceUnavailable] < 5 {
		t.Errorf("%s with a limit of 5: %v by status", path, got)
	}
}

// upstream is a server that the PoP protects.
func upstream(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("upstream\n")) })}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}
