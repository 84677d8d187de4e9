package main

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	capi "github.com/hashicorp/consul/api"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/admin/api/rulesapi"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// caller runs the program, whose exit status and output have to be as wanted, and returns the output.
type caller func(status int, args string, texts ...string) string

// calls are made with flags at the end.
func calls(t *testing.T, dir string, flags ...string) caller {
	return func(status int, args string, texts ...string) string {
		t.Helper()
		out := inHome(t, dir, status, append(strings.Fields(args), flags...)...)
		for _, want := range texts {
			late := want == " is in force" && strings.Contains(out, "warning: it is unknown whether all programs have it") // Consul was busy
			if !late && !strings.Contains(out, want) {
				t.Errorf("weir %s printed\n%s\nwithout %q", args, out, want)
			}
		}
		return out
	}
}

// revisionOf is that of a new version, by what the program prints of it.
func revisionOf(out string) string {
	_, rest, _ := strings.Cut(out, "Revision ")
	revision, _, _ := strings.Cut(rest, " ")
	return revision
}

// apply applies rules, looks at them and rolls them back, wherever they are kept. It returns a file of rules, the
// revision of its version, and that of another one.
func (weir caller) apply(t *testing.T, dir string) (one, first, second string) {
	file := func(name, limit string) string {
		return proc.WriteFile(t, filepath.Join(dir, name), "rules:\n- { name: a, key: [client_ip], limit: "+limit+" }\n- { name: b, key: [path], limit: 5/1s }\n")
	}
	one, two := file("one.yaml", "10/1m"), file("two.yaml", "20/1m")
	weir(0, "rules history", "no rules have been applied")
	weir(1, "rules rollback --reason nothing", "no version is before")
	weir(3, "rules apply "+one+" --dry-run", "+rules:", "\nCompared with nothing.\n")
	first = revisionOf(weir(0, "rules apply "+one+" --reason begin", " is "))
	weir(0, "rules apply "+one+" --dry-run", "is the same as revision "+first)
	weir(3, "rules apply "+two+" --dry-run --on "+first, "--- revision "+first, "-- { name: a, key: [client_ip], limit: 10/1m }", "+- { name: a, key: [client_ip], limit: 20/1m }",
		"\na: changed\n  limit: 10/1m -> 20/1m (looser); counters continue\n", "\nCompared with revision "+first+".\n")
	weir(3, "rules apply "+file("other.yaml", "10/60s")+" --dry-run", ". Only the text differs; the rules are the same.\n")
	second = revisionOf(weir(0, "rules apply "+two+" --reason more --on "+first))
	weir(1, "rules apply "+one+" --dry-run --on "+first, "applied revision "+second+" meanwhile")
	weir(1, "rules apply "+one+" --reason late --on "+first, "nothing was changed", "applied revision "+second+" meanwhile")
	weir(0, "rules rollback "+second+" --dry-run", "is the same as revision "+second)
	weir(3, "rules rollback --dry-run", "+- { name: a, key: [client_ip], limit: 10/1m }", "\nCompared with revision "+second+".\n")
	third := revisionOf(weir(0, "rules rollback --reason less"))
	weir(0, "rules history "+third, "10/1m")
	weir(1, "rules history 2", "revision 2: there is no such version")
	weir(0, "rules history", third+" *", "back to "+first+": less", "begin")
	weir(0, "rules history -o json", `"rollback_to": `+first, `"why": "more"`)
	weir(1, "rules apply testdata/bad.yaml --reason bad", "testdata/bad.yaml:")
	return one, first, second
}

// Rules are in Consul, with who applied them and the programs in which they are not in force.
func TestApply(t *testing.T) {
	dir := proc.LogDir(t)
	agent := consultest.Start(t, dir)
	weir := calls(t, dir, "--consul", agent.Addr)
	one, _, second := weir.apply(t, dir)
	weir(0, "rules rollback "+second+" --reason after --author bob", " is in force")
	store, err := versions.Open(agent.Addr, "")
	if err == nil {
		_, _, err = store.Amend(t.Context(), amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{
			Rule: "a", Key: []string{"192.0.2.1"}, Limit: json.RawMessage(`"99/1m"`), Until: time.Now().Add(time.Hour),
		}}}, versions.Change{Who: "ann", Why: "a sale"})
	}
	fatal.If(t, err)
	weir(0, "rules history", "bob", "override of a 192.0.2.1: 99/1m until 20", "Z: a sale")
	several := filepath.Join(dir, "several")
	fatal.If(t, os.Mkdir(several, 0o700))
	proc.WriteFile(t, filepath.Join(several, "a.yaml"), "rules:\n- { name: a, key: [client_ip], limit: 30/1m }\n")
	proc.WriteFile(t, filepath.Join(several, "b.yaml"), "rules:\n- { name: b, key: [path], limit: 5/1s }\n")
	weir(3, "rules apply "+several+" --dry-run", "+  # \"a.yaml\"\n+  - name: a\n+    key: [client_ip]\n+    limit: 30/1m\n+  # \"b.yaml\"\n+  - name: b\n")
	last := revisionOf(weir(0, "rules apply "+several+" --reason files", " is in force"))
	weir(0, "rules apply "+several+" --dry-run", "is the same as revision "+last)

	if !testing.Short() {
		weir.notInForce(t, agent.Addr, one)
	}
	other := proc.WriteFile(t, filepath.Join(dir, "b.yaml"), "rules:\n- { name: b, key: [path], limit: 5/1s }\n")
	weir(0, "rules apply "+other+" --reason without", "warning: not in force with these rules: override of a 192.0.2.1: the rules file has no rule of this name")
	weir(0, "rules rollback --reason back", "Applied. Revision ")
	weir(3, "rules rollback --dry-run", "warning: not in force with these rules: override of a 192.0.2.1")
	agent.Kill()
	for _, args := range []string{" --dry-run", " --reason away"} {
		weir(1, "rules apply "+one+args, "consul at "+agent.Addr+" cannot read weir/rules/manifest")
	}
}

// notInForce applies rules beside a replica that passes its checks, and has old ones for good: it waits for ten seconds.
func (weir caller) notInForce(t *testing.T, addr, rules string) {
	client, err := capi.NewClient(&capi.Config{Address: addr})
	if err == nil {
		err = client.Agent().ServiceRegister(&capi.AgentServiceRegistration{
			ID: "weir-regional-eu-old", Name: "weir-regional-eu", Port: 1, Check: &capi.AgentServiceCheck{TTL: "1h", Status: capi.HealthPassing},
			Meta: map[string]string{"rules": "consul", "rules_revision": "1"},
		})
	}
	fatal.If(t, err)
	weir(1, "rules apply "+rules+" --reason old", " is in Consul", "not in force in weir-regional-eu-old, which has revision 1")
	fatal.If(t, client.Agent().ServiceDeregister("weir-regional-eu-old"))
}

// Through the admin API rules are applied in the same way, and overrides and candidates, too.
func TestApplyThroughAPI(t *testing.T) {
	dir := t.TempDir()
	kv := local.New(filepath.Join(dir, "rules.store"))
	defer func() { _ = kv.Close() }()
	a := api.New(api.Config{Loopback: true, Trail: versions.On(kv), Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewRegistry("test")})
	rulesapi.Add(a, rulesapi.Config{Store: versions.On(kv), Rules: "consul:", InForce: func() v1.InForce { return v1.InForce{} }})
	server := httptest.NewServer(a.Handler())
	defer server.Close()
	at := strings.TrimPrefix(server.URL, "http://")
	weir := calls(t, dir, "--admin", at)
	one, _, _ := weir.apply(t, dir)
	weir(0, "keys override set a 192.0.2.1 --limit 99/1m --until 1h --reason sale", "override of a 192.0.2.1: 99/1m until 20")
	weir(0, "keys override list", "a     192.0.2.1  99/1m  20", "local  sale")
	weir(0, "keys candidate set a --limit 5/1m --until 7d --reason try -o json", `"amends": "candidate of a: 5/1m until 20`)
	weir(0, "keys candidate list -o json", `"limit": "5/1m"`, `"why": "try"`)
	weir(0, "rules history", "override of a 192.0.2.1: 99/1m until 20", "Z: sale")
	other := proc.WriteFile(t, filepath.Join(dir, "b.yaml"), "rules:\n- { name: b, key: [path], limit: 5/1s }\n")
	weir(3, "rules apply "+other+" --dry-run", "warning: not in force with these rules: override of a 192.0.2.1: the rules file has no", "candidate of a: ")
	weir(1, "keys override set a 192.0.2.2 --limit 9/1m --until 1h --reason=", "--reason must not be empty\n")
	weir(1, "admin audit --limit 0", "--limit must be at least 1\n")
	weir(0, "keys override rm a 192.0.2.1 --reason over", "override of a 192.0.2.1 removed")
	weir(1, "keys override rm a 192.0.2.1 --reason over", "does not exist")
	weir(1, "keys override set a --limit 99/1m --until 1h --reason sale", "key, or hash")
	weir(2, "keys override set a x --limit 99/1m --until soon --reason sale", "how long from now, such as 7d or 1h")
	weir(1, "keys candidate set a x --limit 5/1m --until 1h --reason try", "key")
	weir(0, "keys candidate rm a --reason over", "candidate of a removed")
	weir(0, "admin audit", "override.set", "candidate.remove")
	weir(3, "rules rollback --dry-run", "+- { name: a, key: [client_ip], limit: 20/1m }")
	weir(3, "rules apply "+filepath.Join(dir, "two.yaml")+" --dry-run -o json", `"change": "changed"`)
	weir(2, "rules apply "+one+" --reason x --author ann", "knows who calls")
	weir(2, "rules history --consul 127.0.0.1:8500", "name two places")
	weir(2, "rules rollback --reason x --primary eu", "--primary needs --consul")
	var made struct{ Revision uint64 }
	if err := json.NewDecoder(strings.NewReader(weir(0, "rules apply "+one+" --reason json -o json"))).Decode(&made); err != nil || made.Revision == 0 {
		t.Errorf("the new version as JSON: %+v, %v", made, err)
	}
	for _, line := range []string{"weir keys peek --admin " + at + " ", "weir keys override set --admin=" + at + " ", "weir tap --admin " + at + " --rule "} {
		proc.Eventually(t, time.Minute, "completion of "+line, func() bool { // it waits a second for the rules, then prints nothing
			cmd := exec.CommandContext(t.Context(), binary)
			cmd.Env = append(os.Environ(), "COMP_LINE="+line)
			out, err := cmd.Output()
			ended := err != nil || len(out) > 0
			if ended && (err != nil || string(out) != "a\nb\n") {
				t.Errorf("completion of %q: %q, %v; want the rules a and b", line, out, err)
			}
			return ended
		})
	}
	server.Close()
	weir(1, "rules history", "does not answer")
	weir(1, "rules apply "+one+" --dry-run", "does not answer")
}
