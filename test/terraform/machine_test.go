package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/stack"
)

const rules = "rules:\n" +
	"  - { name: page, match: { path: /page }, key: [client_ip], hash: true, limit: 5/1d, consistency: exact, on_failure: deny, timeout: 1s }\n" +
	"  - { name: all, scope: global, match: { path: /all }, key: [], limit: 5/1d, consistency: exact, on_failure: deny, timeout: 1s }\n"

// task is where a task of ECS has its files: secrets are those of its user alone.
func task(t *testing.T, dir string, files map[string]string) (directories map[string]any, container unit) {
	t.Helper()
	const user = 65532
	directories = map[string]any{"config": dir, "secrets": filepath.Join(dir, "secrets"), "data": filepath.Join(dir, "data"), "programs": filepath.Join(proc.Root(t), "bin")}
	for name, content := range files {
		if name == "consul.json" || strings.HasPrefix(name, "consul-") && name != "consul-token" {
			continue // is on the volume of the agent
		}
		path := proc.WriteFile(t, filepath.Join(dir, "secrets", name), content)
		fatal.If(t, errors.Join(os.Chmod(path, 0o600), os.Chown(path, user, user)))
	}
	const stated = "terraform/modules/region/modules/service/tests/service.tftest.hcl"
	text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), stated)))(t)
	if want := fmt.Sprintf(`if c.name == "weir-regional"][0] == %d`, containerMemory>>20); !strings.Contains(string(text), want) {
		t.Fatalf("%s has another limit than %s", stated, want)
	}
	data := filepath.Join(dir, "data")
	fatal.If(t, errors.Join(os.MkdirAll(data, 0o700), os.Chown(data, user, user)))
	return directories, unit{user: "nonroot", memory: containerMemory, writable: []string{data}}
}

// containerMemory is the limit of a program's container in bytes, if no size is set. The tests of the module service state it.
const containerMemory = 1536 << 20

// realMachine is a machine with the real programs, whose scripts and units have its real users.
func realMachine(t *testing.T, dir, names string) *machine {
	t.Helper()
	m := newMachine(t, dir, map[string]string{"envoy": binary(t), "consul": proc.Built(t, ".tools/consul", "setup"),
		"weir.wasm": proc.Built(t, "bin/weir.wasm", "build"), "weir": proc.Built(t, "bin/weir", "build")})
	m.enter = func(argv []string) []string {
		return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", unshare + `exec "$@"`, names}, argv...)
	}
	return m
}

// binary is Envoy itself: what `make setup` installs as envoy is a script that runs it.
func binary(t *testing.T) string {
	t.Helper()
	program := envoy.Program(t)
	inner, _ := filepath.Glob(filepath.Join(filepath.Dir(program), "../lib/python3*/site-packages/envoy/_bin/envoy")) // none: it is no script
	return append(inner, program)[0]
}

// open lets every user reach a directory of the test.
func open(t *testing.T, dir string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make terraform-test")
	}
	fatal.If(t, os.Chmod(dir, 0o755))
	if out, err := exec.CommandContext(t.Context(), "setpriv", "--reuid", "65532", "--clear-groups", "test", "-x", dir).CombinedOutput(); err != nil {
		t.Skipf("the users of units cannot reach %s, so they cannot run here: %v\n%s", dir, err, out)
	}
	return dir
}

// agentPorts are those of one agent, all on loopback.
func agentPorts(t *testing.T, more map[string]any) (map[string]any, func(name string) string) {
	t.Helper()
	c := map[string]any{"servers": 1, "bind_address": "127.0.0.1"}
	for _, name := range []string{"http", "dns", "server", "serf_lan", "serf_wan"} {
		c[name+"_port"] = proc.FreePort(t)
	}
	maps.Copy(c, more)
	return c, func(name string) string { return net.JoinHostPort("127.0.0.1", string(marshal(t, c[name+"_port"]))) }
}

func marshal(t *testing.T, value any) string {
	t.Helper()
	return string(fatal.Get(json.Marshal(value))(t))
}

// deployment is what `weir admin bootstrap` has made for one region, which is the home: a directory for each role.
type deployment string

func newDeployment(t *testing.T, dir string) deployment {
	t.Helper()
	d := deployment(filepath.Join(dir, "secrets"))
	d.bootstrap(t, "--regions", "eu")
	return d
}

func (d deployment) bootstrap(t *testing.T, args ...string) {
	t.Helper()
	proc.Run(t, exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), append([]string{"admin", "bootstrap", string(d)}, args...)...))
}

func (d deployment) role(t *testing.T, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(string(d), name, "*"))
	if err != nil || paths == nil {
		t.Fatalf("%v: no files of %s", err, name)
	}
	for _, path := range paths {
		files[filepath.Base(path)] = string(fatal.Get(os.ReadFile(path))(t))
	}
	return files
}

// start starts weir-regional or weir-global from what is rendered for it and the files of its secret, with counters in a Redis of
// its own and the agent of Consul that is there, and waits for its metrics.
func (d deployment) start(t *testing.T, names, dir, program, redis string, agent map[string]any, files map[string]string, beside *beside) (service map[string]any, p *proc.Process, admin string) {
	t.Helper()
	counters := redistest.StartCluster(t, 3, 0, redistest.Users(strings.TrimSpace(d.role(t, "redis/"+redis)["users.acl"])))
	service = map[string]any{"address": "127.0.0.1", "port": proc.FreePort(t), "admin_port": proc.FreePort(t),
		"redis": counters.Addrs()[:1], "redis_tls": false, "redis_username": "weir", "key_secrets": true,
		"admin_tokens": files["admin-tokens"] != "", "drain_wait": "0s"}
	directories, container := task(t, filepath.Join(dir, program), files)
	_, environments := bootstrap(t, map[string]any{"region": "eu", "directories": directories, "consul": agent, "service": service})
	environment := environments[strings.TrimPrefix(program, "weir-")+"_environment"]
	container.argv = slices.Concat([]string{"env"}, environment, beside.environment, []string{proc.Built(t, "bin/"+program, "build")})
	p = container.start(t, names, filepath.Join(dir, program), program)
	admin = net.JoinHostPort("127.0.0.1", marshal(t, service["admin_port"]))
	p.AwaitReady("http://" + admin + "/readyz")
	beside.awaitMetrics(t, p, program)
	return service, p, admin
}

// A region, an aggregator and a PoP run with the rendered files and the secrets of `weir admin bootstrap` alone:
// Consul with ACL and TLS, whose server makes policies and tokens by itself, weir-regional and weir-global on
// Redis Clusters with the rules of Consul, and an Envoy that finds the region by DNS. Each runs as its unit
// or its task does: as its user, in a cgroup of its size, with a socket as standard output. Region and PoP
// call the tier above with their certificates. The limits of the region and of all regions hold, both
// services send the metrics that CloudWatch is to have, and the PoP logs each request and drains.
func TestPoPAndRegionFromBootstrap(t *testing.T) {
	dir := open(t, proc.LogDir(t))
	names := users(t, dir)
	d := newDeployment(t, dir)

	servers, serverPort := agentPorts(t, nil)
	server := realMachine(t, filepath.Join(dir, "consul"), names)
	server.secret(d.role(t, "eu/consul"))
	texts, _ := bootstrap(t, map[string]any{"region": "eu", "directories": server.files, "consul": servers, "machine": map[string]any{
		"programs": server.programs(), "consul_secret": arn}})
	server.bootReal(texts["consul_user_data"])
	acl := server.unit("weir-acl.service", 2*GiB).start(t, names, server.dir, "acl") // before there is a leader
	leader := server.unit("weir-consul.service", 2*GiB).start(t, names, server.dir, "consul")
	proc.Eventually(t, time.Minute, "policies and tokens are made", acl.Exited)
	leader.AwaitUp(func() string {
		cmd := exec.CommandContext(t.Context(), proc.Built(t, "bin/weir", "build"), "rules", "apply", proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules),
			"--consul", serverPort("http"), "--reason", "first rules")
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_TOKEN="+strings.TrimSpace(d.role(t, "people")["rules-token"]))
		if out, err := cmd.CombinedOutput(); err != nil {
			return err.Error() + string(out) + acl.Tail(5)
		}
		return ""
	})

	beside := collector(t)
	_, _, global := d.start(t, names, dir, "weir-global", "aggregator", servers, d.role(t, "aggregator"), beside)
	token, sum := access.NewToken()
	files := d.role(t, "eu/service")
	files["admin-tokens"] = fmt.Sprintf("tokens: [{ name: ann, role: viewer, sha256: %q }]\n", sum)
	service, regional, admin := d.start(t, names, dir, "weir-regional", "eu", servers, files, beside)
	for bearer, want := range map[string]int{"": http.StatusUnauthorized, "Bearer " + token: http.StatusOK} {
		if r, err := stack.Do(admin, http.MethodGet, "/v1/whoami", "", "authorization", bearer); err != nil || r.Status != want {
			t.Errorf("the admin API with the token %q: %+v, %v, want %d", bearer, r, err, want)
		}
	}

	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	clients, _ := agentPorts(t, map[string]any{"join": []string{serverPort("serf_lan")}})
	pop := map[string]any{"upstreams": []string{upstream.Listener.Addr().String()}, "address": "127.0.0.1",
		"port": proc.FreePort(t), "health_port": proc.FreePort(t), "admin_port": proc.FreePort(t)}
	m := realMachine(t, filepath.Join(dir, "pop"), names)
	m.secret(d.role(t, "eu/pop"))
	texts, _ = bootstrap(t, map[string]any{"region": "eu", "directories": m.files, "consul": clients, "service": service, "pop": pop, "machine": map[string]any{
		"programs": m.programs(), "pop_secret": arn}})
	m.bootReal(texts["pop_user_data"])
	m.unit("weir-consul.service", 4*GiB).start(t, names, m.dir, "consul")
	p := m.unit("weir-pop.service", 4*GiB).start(t, names, m.dir, "envoy") // c7g.large
	at := func(port string) string { return net.JoinHostPort("127.0.0.1", marshal(t, pop[port])) }
	p.AwaitReady("http://" + at("health_port") + "/healthz")
	limitHolds(t, p, at("port"), "/page")
	limitHolds(t, p, at("port"), "/all")
	envoy.AwaitHealthy(t, at("admin_port"))
	counts, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+global+"/metrics")
	if n := counts[`weir_region_units_granted_total{region="eu"}`]; err != nil || n == 0 {
		t.Errorf("the aggregator granted %v units to the region eu, %v", n, err)
	}
	p.AwaitUp(func() string {
		if !strings.Contains(p.Log(), `"details":"weir-denied:`) {
			return "the access log has no line of a rejected request"
		}
		return ""
	})

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

// bootReal writes the machine's files and runs its script, which must succeed. Then each secret is one of its user alone.
func (m *machine) bootReal(userData string) {
	m.t.Helper()
	m.write(userData)
	if out, err := m.run(m.boots); err != nil {
		m.t.Fatalf("%v\n%s", err, out)
	}
	for user, files := range map[string][]string{"weir": {"consul-key.pem", "consul.json", "acl.json"}, "consul": {"key.pem"}} {
		for _, file := range files {
			path := filepath.Join(m.dir, "etc/secrets", file)
			if _, err := os.Stat(path); err != nil {
				continue // not of this role
			}
			argv := m.enter([]string{"setpriv", "--reuid", user, "--regid", user, "--clear-groups", "cat", path})
			if out, err := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...).CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied") {
				m.t.Errorf("the user %s may read %s: %v", user, file, err)
			}
		}
	}
}

// limitHolds waits for the PoP's rules and uses up the limit of 5 of a path. What the region does
// not answer in time is rejected with 503, and may have been charged.
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
