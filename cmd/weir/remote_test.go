package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/admin/api/rulesapi"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Rules are applied, looked at and rolled back through the admin API as they are in Consul.
func TestApplyThroughAPI(t *testing.T) {
	dir := t.TempDir()
	kv := local.New(filepath.Join(dir, "rules.store"))
	defer func() { _ = kv.Close() }()
	a := api.New(api.Config{Loopback: true, Trail: versions.On(kv), Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewRegistry("test")})
	rulesapi.Add(a, rulesapi.Config{Store: versions.On(kv), Rules: "consul:", InForce: func() v1.InForce { return v1.InForce{} }})
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	weir := func(status int, args string, texts ...string) string {
		t.Helper()
		out := inHome(t, dir, status, append(strings.Fields(args), "--admin", strings.TrimPrefix(server.URL, "http://"))...)
		for _, want := range texts {
			if !strings.Contains(out, want) {
				t.Errorf("weir %s printed\n%s\nwithout %q", args, out, want)
			}
		}
		return out
	}
	file := func(name, limit string) string {
		return proc.WriteFile(t, filepath.Join(dir, name), "rules:\n- { name: a, key: [client_ip], limit: "+limit+" }\n")
	}
	one, two := file("one.yaml", "10/1m"), file("two.yaml", "20/1m")
	weir(0, "history", "no rules have been applied")
	weir(1, "rollback --reason nothing", "no version is before")
	weir(2, "apply "+one+" --dry-run", "+rules:", "\nmade against nothing\n")
	first := revisionOf(weir(0, "apply "+one+" --reason begin", "is the newest one"))
	weir(0, "apply "+one+" --dry-run", "is the same as revision "+first)
	weir(2, "apply "+two+" --dry-run --on "+first, "--- revision "+first, "limit: 10/1m -> 20/1m; counters are kept", "\nmade against revision "+first+"\n")
	weir(2, "apply "+file("other.yaml", "10/60s")+" --dry-run", "; only the text differs, the rules are the same\n")
	second := revisionOf(weir(0, "apply "+two+" --reason more --on "+first))
	weir(1, "apply "+one+" --dry-run --on "+first, "applied revision "+second+" meanwhile")
	weir(1, "apply "+one+" --reason late --on "+first, "nothing was changed", "applied revision "+second+" meanwhile")
	weir(2, "rollback --dry-run", "+- { name: a, key: [client_ip], limit: 10/1m }", "\nmade against revision "+second+"\n")
	third := revisionOf(weir(0, "rollback --reason less"))
	weir(0, "history "+third, "10/1m")
	weir(1, "history 2", "revision 2: there is no such version")
	weir(0, "history", third+" *", "local", "back to "+first+": less", "begin")
	weir(0, "history -o json", `"rollback_to": `+first)
	weir(0, "override set a 192.0.2.1 --limit 99/1m --until 1h --reason sale", "override of a 192.0.2.1: 99/1m until 20")
	weir(0, "override list", "a     192.0.2.1  99/1m  20", "local  sale")
	weir(0, "candidate set a --limit 5/1m --until 1h --reason try", "candidate of a: 5/1m until 20")
	weir(0, "candidate list -o json", `"limit": "5/1m"`, `"why": "try"`)
	weir(0, "history", "override of a 192.0.2.1: 99/1m until 20", "Z: sale")
	weir(0, "override rm a 192.0.2.1 --reason over", "override of a 192.0.2.1 removed")
	weir(1, "override rm a 192.0.2.1 --reason over", "there is none")
	weir(1, "override set a --limit 99/1m --until 1h --reason sale", "key, or hash")
	weir(2, "override set a x --limit 99/1m --until soon --reason sale", "how long, such as 1h")
	weir(1, "candidate set a x --limit 5/1m --until 1h --reason try", "key")
	weir(0, "candidate rm a --reason over", "candidate of a removed")
	weir(0, "override list")
	weir(0, "audit", "override.set", "candidate.remove")
	weir(2, "rollback --dry-run", "+- { name: a, key: [client_ip], limit: 20/1m }")
	weir(1, "apply testdata/bad.yaml --reason bad", "testdata/bad.yaml:")
	weir(2, "apply "+one+" --reason x --author ann", "knows who calls")
	server.Close()
	weir(1, "history", "does not answer")
	weir(1, "apply "+one+" --dry-run", "does not answer")
}

// What is not as it should be has an exit status of its own.
func TestUnwell(t *testing.T) {
	for status, answer := range map[int]string{0: `{"of":"region eu"}`, 3: `{"of":"all regions","silent_regions":["eu"]}`, 1: `no JSON`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) }))
		inHome(t, t.TempDir(), status, "status", "--admin", strings.TrimPrefix(server.URL, "http://"))
		server.Close()
	}
}
