package install

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// machine stands for the cluster in which pods of the chart run: their volumes are below a directory, and what they
// call is elsewhere.
type machine struct {
	t         *testing.T
	dir       string
	authority *pki.Authority
	password  string   // of Redis
	moved     []string // addresses of the chart, each with the one that it has here
}

func newMachine(t *testing.T, moved ...string) *machine {
	t.Helper()
	return &machine{t, proc.LogDir(t), pki.NewAuthority(), "secret", moved}
}

// pod makes what the volumes of a program's pod have, in a directory with this name, with a certificate for these names.
// It returns the command line of its container, which listens there.
func (m *machine) pod(p program, as, listen string, names ...string) (argv []string, admin string) {
	m.t.Helper()
	admin = proc.FreeAddr(m.t)
	certificates := issued(m.t, m.authority, p.name, append(names, p.name)...)
	with := func(name, content string) map[string]string {
		all := maps.Clone(certificates)
		all[name] = content
		return all
	}
	contents := map[string]map[string]string{
		"tls": certificates, "redis": with("password", m.password+"\n"), "consul": with("token", consultest.Management+"\n"),
		"rules": {"rules.yaml": at(m.t, resource(m.t, rendered(m.t, set()...), "ConfigMap", "weir-rules"), "data", "rules.yaml").(string)}, "keys": {"key-secrets": "1 00112233445566778899aabbccddeeff\n"},
		"admin": {"tokens": "tokens:\n  - { name: ann, role: viewer, sha256: " + strings.Repeat("d6", 32) + " }\n"},
	}
	for _, v := range p.pod(m.t)["volumes"].([]any) {
		name, mode := at(m.t, v, "name").(string), 0o644
		mount := named(m.t, p.container(m.t)["volumeMounts"], name)
		if secret, ok := v.(node)["secret"].(node); ok && secret["defaultMode"] != nil {
			mode = secret["defaultMode"].(int)
		}
		dir := filepath.Join(m.dir, as, at(m.t, mount, "mountPath").(string))
		fatal.If(m.t, os.MkdirAll(dir, 0o755))
		for file, content := range contents[name] {
			fatal.If(m.t, os.Chmod(proc.WriteFile(m.t, filepath.Join(dir, file), content), os.FileMode(mode)))
		}
	}
	state := filepath.Join(m.dir, as, "/var/lib/weir")
	fatal.If(m.t, os.MkdirAll(state, 0o755))
	here := strings.NewReplacer(append([]string{"0.0.0.0:8080", listen, "0.0.0.0:8090", admin, "$(POD_IP):8080", listen,
		"/etc/weir", filepath.Join(m.dir, as, "/etc/weir"), "/var/lib/weir", state}, m.moved...)...)
	argv = []string{proc.Built(m.t, "bin/"+p.name, "build")}
	for _, arg := range p.args(m.t) {
		argv = append(argv, here.Replace(arg))
	}
	return argv, admin
}

// withoutRedis has such a pod count in memory, and waits until it is ready.
func (m *machine) withoutRedis(p program, as, listen string, names ...string) (admin string) {
	m.t.Helper()
	argv, admin := m.pod(p, as, listen, names...)
	argv = slices.DeleteFunc(argv, func(arg string) bool { return strings.HasPrefix(arg, "--redis") })
	proc.Start(m.t, m.dir, as, argv...).AwaitReady("http://" + admin + "/readyz")
	return admin
}

// alone is a machine on which nothing is that the programs call, in all installs.
func alone(t *testing.T) *machine {
	t.Helper()
	away := proc.FreeAddr(t)
	return newMachine(t, "$(HOST_IP):8501", away, "redis-cluster.redis.svc:6379", away, "weir-valkey.weir.svc:6379", away,
		"weir-global.weir.svc:8080", away, "aggregator-1.example:8080", away, "aggregator-2.example:8080", proc.FreeAddr(t),
		"sentinel-1.redis.svc:26379", away, "sentinel-2.redis.svc:26379", proc.FreeAddr(t), "collector.otel.svc:4317", away)
}

// In every install the programs take all of their arguments together: they start, and live while nothing that they
// call is there.
func TestProgramsStart(t *testing.T) {
	for name, values := range installs {
		programs := 0
		for _, d := range rendered(t, values...) {
			p := program{at(t, d, "metadata", "name").(string), d["kind"].(string), values}
			if p.kind != "Deployment" && p.kind != "StatefulSet" || p.name == "weir-valkey" {
				continue
			}
			programs++
			t.Run(name+"/"+p.name, func(t *testing.T) {
				m := alone(t)
				argv, admin := m.pod(p, p.name, proc.FreeAddr(t), "weir://region/eu")
				proc.Start(t, m.dir, p.name, argv...).AwaitReady("http://" + admin + "/healthz")
			})
		}
		if programs == 0 {
			t.Errorf("%s has no program", name)
		}
	}
}

// With the arguments of the chart a region serves PoPs of Istio and of Envoy Gateway, each with the certificates
// of its Secret. All of their listeners, with TLS and without, remove what clients must not set, and have Weir's
// access log.
func TestPoPCallsRegion(t *testing.T) {
	t.Parallel()
	m, quota := newMachine(t), proc.FreeAddr(t)
	m.withoutRedis(regional, "region", quota, "weir://region/eu")
	for name, content := range issued(t, m.authority, "pop", "first.example", "second.example", "weir://pop/eu") {
		proc.WriteFile(t, filepath.Join(m.dir, name), content)
	}
	for name, proxy := range proxies {
		t.Run(name, func(t *testing.T) {
			p := popOf(t, m.dir, name, quota, proxy.read(t))
			proc.Eventually(t, 0, "the PoP has the rules of the region", func() bool {
				metrics := fatal.Get(measure.Scrape(t.Context(), http.DefaultClient, "http://"+p.admin+"/stats/prometheus"))(t)
				return metrics.Sum("weir_rules_revision") > 0
			})
			envoy.AwaitHealthy(t, p.admin)
			for path, host := range map[string]string{"/plain": "", "/first": "first.example", "/second": "second.example"} {
				p.serves(t, m.authority, host, path)
			}
		})
	}
}

// gateway is an Envoy of a test with the listeners of testdata.
type gateway struct {
	*proc.Process
	admin, plain, secure string
}

// popOf starts one with the certificates of a PoP, on ports of its own, before an upstream that answers with
// the header x-user-id of a request.
func popOf(t *testing.T, dir, name, region string, e node) *gateway {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("x-user-id=" + r.Header.Get("x-user-id")))
	}))
	t.Cleanup(upstream.Close)
	g := &gateway{admin: proc.FreeAddr(t), plain: proc.FreeAddr(t), secure: proc.FreeAddr(t)}
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	e["admin"] = node{"address": node{"socket_address": node{"address": "127.0.0.1", "port_value": 9901}}}
	text := fatal.Get(json.Marshal(e))(t)
	ports := []string{`"weir-regional.weir.svc.cluster.local"`, `"127.0.0.1"`}
	for number, addr := range map[string]string{"8080": region, "9901": g.admin, "10080": g.plain, "10443": g.secure, "10001": upstream.Listener.Addr().String()} {
		ports = append(ports, `"port_value":`+number+`}`, `"port_value":`+port(addr)+`}`)
	}
	paths := strings.NewReplacer(append(ports, "/etc/weir/tls", dir, "/etc/weir/sds", dir,
		"/var/lib/weir/weir.wasm", proc.Built(t, "bin/weir.wasm", "build"))...)
	for _, file := range secrets {
		text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), "envoy", file)))(t)
		proc.WriteFile(t, filepath.Join(dir, file), paths.Replace(string(text)))
	}
	path := proc.WriteFile(t, filepath.Join(dir, name+".json"), paths.Replace(string(text)))
	g.Process = proc.Start(t, dir, name, envoy.Program(t), "-c", path, "--concurrency", "1", "--use-dynamic-base-id", "--file-flush-interval-msec", "200")
	g.AwaitReady("http://" + g.admin + "/ready")
	return g
}

// serves makes a request, with TLS to the host unless that is "".
func (g *gateway) serves(t *testing.T, a *pki.Authority, host, path string) {
	t.Helper()
	url := "http://" + g.plain + path
	if host != "" {
		url = "https://" + g.secure + path
	}
	trusts := a.Client()
	trusts.ServerName = host
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trusts}}
	req := fatal.Get(http.NewRequest(http.MethodGet, url, nil))(t)
	req.Header.Set("x-user-id", "eve")
	resp, body, err := page.Do(&client, req)
	fatal.If(t, err)
	if resp.StatusCode != http.StatusOK || string(body) != "x-user-id=" || resp.Header.Get("RateLimit") == "" {
		t.Errorf("%s: %s, %v, %s; want 200, RateLimit, and no header of the client", url, resp.Status, resp.Header, body)
	}
	proc.Eventually(t, 0, "a line in the access log", func() bool { return strings.Contains(g.Log(), `"path":"`+path+`"`) })
}
