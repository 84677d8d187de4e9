package terraform

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Envoy takes the bootstrap with all that it can have: certificates for clients and of the upstream, replicas
// by address, traces. Clients get a new certificate when its files are replaced, without a restart.
func TestPoPWithEveryOption(t *testing.T) {
	proc.Built(t, "bin/weir.so", "build")
	for _, filter := range []string{"wasm", "native"} {
		t.Run(filter, func(t *testing.T) { popWithEveryOption(t, filter) })
	}
}

func popWithEveryOption(t *testing.T, filter string) {
	a := pki.NewAuthority()
	dir := proc.LogDir(t)
	secret := func(name string) string { return filepath.Join(dir, "secrets", name) }
	replace := func(kind, name string) {
		t.Helper()
		cert, key := a.Issue(name, name)
		for file, text := range map[string][]byte{"ca.pem": a.PEM, kind + "cert.pem": cert, kind + "key.pem": key} {
			fatal.If(t, os.Rename(proc.WriteFile(t, secret(file+".new"), string(text)), secret(file)))
		}
	}
	for _, sub := range []string{"secrets", "sds"} {
		fatal.If(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	replace("", "weir://pop/eu")
	replace("client-", "first.example")

	pop := map[string]any{"upstreams": []string{"localhost:9"}, "upstream_tls": map[string]any{"ca": secret("ca.pem"), "name": "app.example"},
		"client_tls": map[string]any{"certificate": secret("client-cert.pem"), "key": secret("client-key.pem")},
		"replicas":   []string{"127.0.0.1:9", "localhost:9"}, "trusted_hops": 1, "filter": filter, "address": "127.0.0.1",
		"port": proc.FreePort(t), "health_port": proc.FreePort(t), "admin_port": proc.FreePort(t)}
	texts, files := bootstrap(t, map[string]any{"region": "eu", "consul": nil, "otlp": "127.0.0.1:9", "pop": pop,
		"service":     map[string]any{"rules": "/etc/weir/rules.yaml"},
		"directories": map[string]any{"config": dir, "secrets": secret(""), "programs": filepath.Dir(proc.Built(t, "bin/weir.wasm", "build"))}})
	for _, file := range files["sds_files"] {
		path, text, _ := strings.Cut(file, "=")
		proc.WriteFile(t, path, text)
	}
	config := proc.WriteFile(t, filepath.Join(dir, "envoy.yaml"), texts["envoy_yaml"])
	at := func(port string) string { return net.JoinHostPort("127.0.0.1", marshal(t, pop[port])) }
	p := proc.Start(t, dir, "envoy", envoy.Program(t), "-c", config, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
	p.AwaitReady("http://" + at("health_port") + "/healthz")

	takes := func(name string) bool {
		c := a.Client()
		c.ServerName = name
		conn, err := tls.Dial("tcp", at("port"), c)
		return err == nil && conn.Close() == nil
	}
	if !takes("first.example") {
		t.Fatal("the PoP has not the certificate for its clients")
	}
	replace("client-", "second.example")
	proc.Eventually(t, time.Minute, "clients get the new certificate", func() bool { return takes("second.example") })
}
