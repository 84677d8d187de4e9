package install

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// With the arguments of the chart a region serves PoPs of Istio and of Envoy Gateway, each with the certificates
// of its Secret. All of their listeners, with TLS and without, remove what clients must not set, and have Weir's
// access log.
func TestPoPCallsRegion(t *testing.T) {
	t.Parallel()
	m, quota := newMachine(t), proc.FreeAddr(t)
	m.withoutRedis(regional, "region", quota, "weir://region/eu")
	certificate(t, m.authority, m.dir, "first.example", "second.example")
	for name, proxy := range proxies {
		t.Run(name, func(t *testing.T) {
			p := popOf(t, m.dir, name, quota, proxy.read(t))
			proc.Eventually(t, 0, "the PoP has the rules of the region", func() bool {
				m := fatal.Get(measure.Scrape(t.Context(), http.DefaultClient, "http://"+p.admin+"/stats/prometheus"))(t)
				return m.Sum("weir_rules_revision") > 0
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
	mountSecrets(t, dir, paths)
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
