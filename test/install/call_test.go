package install

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// With the arguments of its manifest a region serves a PoP with the parts of deploy/, each with
// the certificates of its Secret. Istio and Envoy Gateway get the same parts: see TestPatches.
func TestPoPCallsRegion(t *testing.T) {
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := proc.LogDir(t)
	write := func(kind string, names ...string) {
		cert, key, err := a.Issue(names[0], names...)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{".ca.crt": string(a.PEM), ".tls.crt": string(cert), ".tls.key": string(key)} {
			proc.WriteFile(t, filepath.Join(dir, kind+name), content)
		}
	}
	write("region", "weir-regional", "weir://region/eu")
	write("pop", "pop", "weir://pop/eu")
	rules := proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), at(t, regional.resource(t, "ConfigMap"), "data", "rules.yaml").(string))

	quota, health := proc.FreeAddr(t), proc.FreeAddr(t)
	here := strings.NewReplacer("0.0.0.0:8080", quota, "0.0.0.0:8090", health,
		"/etc/weir/tls/", dir+"/region.", "/etc/weir/rules/rules.yaml", rules)
	argv := []string{regional.built(t)}
	for _, arg := range regional.args(t) {
		if !strings.HasPrefix(arg, "--redis") { // there is none here
			argv = append(argv, here.Replace(arg))
		}
	}
	proc.Start(t, dir, "region", argv...).AwaitReady("http://" + health + "/readyz")

	e, _ := shipped(t)
	install(t, e, istio(t))
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	port := func(addr string) string { return `"port_value":` + addr[strings.LastIndex(addr, ":")+1:] }
	admin := proc.FreeAddr(t)
	paths := strings.NewReplacer(`"weir-regional.weir.svc.cluster.local"`, `"127.0.0.1"`, `"port_value":8080`, port(quota),
		`"port_value":9901`, port(admin), `"port_value":10000`, port(proc.FreeAddr(t)), `"port_value":10001`, port(proc.FreeAddr(t)),
		"/etc/weir/tls/", dir+"/pop.", "/etc/weir/sds", dir, "/var/lib/weir/weir.wasm", proc.Built(t, "bin/weir.wasm", "build"))
	mountSecrets(t, dir, paths)
	path := proc.WriteFile(t, filepath.Join(dir, "pop.json"), paths.Replace(string(text)))
	proc.Start(t, dir, "pop", envoy.Program(t), "-c", path, "--concurrency", "1", "--use-dynamic-base-id").AwaitReady("http://" + admin + "/ready")
	proc.Eventually(t, 0, "the PoP has the rules of the region", func() bool { return rulesRevision(t, admin) > 0 })
}

// rulesRevision is that of the rules that a PoP has, and 0 without rules.
func rulesRevision(t *testing.T, admin string) float64 {
	m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/stats/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range m {
		if strings.HasPrefix(name, "weir_rules_revision") {
			return value
		}
	}
	return 0
}
