package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// session runs the program against an agent of its own.
type session struct {
	t     *testing.T
	agent *consultest.Agent
}

// weir runs the program; the exit status and all of texts must be as wanted. It returns
// what was printed.
func (s *session) weir(status int, args []string, texts ...string) string {
	s.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(cmd.Environ(), "CONSUL_HTTP_ADDR="+s.agent.Addr)
	out, _ := cmd.CombinedOutput() // the status is looked at
	if got := cmd.ProcessState.ExitCode(); got != status {
		s.t.Errorf("weir %q: exit status %d, want %d\n%s", args, got, status, out)
	}
	for _, want := range texts {
		if !strings.Contains(string(out), want) {
			s.t.Errorf("weir %q printed\n%s\nwithout %q", args, out, want)
		}
	}
	return string(out)
}

// register registers a replica that passes its checks, and has rules of this revision for good.
func (s *session) register(id string, revision int) {
	s.t.Helper()
	client, err := api.NewClient(&api.Config{Address: s.agent.Addr})
	if err == nil {
		err = client.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: "weir-regional-eu", Port: 1, Check: &api.AgentServiceCheck{TTL: "1h", Status: api.HealthPassing}, Meta: map[string]string{"rules": "consul", "rules_revision": strconv.Itoa(revision)},
		})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// revisionOf is that of a new version, by what the program prints of it.
func revisionOf(out string) string {
	_, rest, _ := strings.Cut(out, "revision ")
	revision, _, _ := strings.Cut(rest, " ")
	return revision
}

// Rules are applied, looked at and rolled back.
func TestApply(t *testing.T) {
	dir := proc.LogDir(t)
	s := &session{t, consultest.Start(t, dir)}
	file := func(name, limit string) string {
		return proc.WriteFile(t, filepath.Join(dir, name), "rules:\n- { name: a, key: [client_ip], limit: "+limit+" }\n- { name: b, key: [path], limit: 5/1s }\n")
	}
	one, two := file("one.yaml", "10/1m"), file("two.yaml", "20/1m")
	s.weir(0, []string{"history"}, "no rules have been applied")
	s.weir(1, []string{"rollback", "--reason", "nothing"}, "no version is before")
	s.weir(2, []string{"apply", one, "--dry-run"}, "+rules:", "\nmade against nothing\n")
	first := revisionOf(s.weir(0, []string{"apply", one, "--reason", "begin", "--author", "ann"}, " is in force"))
	s.weir(0, []string{"apply", one, "--dry-run"}, "is the same as revision "+first)
	s.weir(2, []string{"apply", two, "--dry-run"}, "--- revision "+first, "-- { name: a, key: [client_ip], limit: 10/1m }", "+- { name: a, key: [client_ip], limit: 20/1m }", "\na: changed\n  limit: 10/1m -> 20/1m; counters are kept\n", "\nmade against revision "+first+"\n")
	s.weir(2, []string{"apply", file("other.yaml", "10/60s"), "--dry-run"}, "\nmade against revision "+first+"; only the text differs, the rules are the same\n")
	s.weir(1, []string{"history", "2"}, "revision 2: there is no such version")
	second := revisionOf(s.weir(0, []string{"apply", two, "--reason", "more"}, " is in force"))
	s.weir(1, []string{"apply", one, "--reason", "late", "--on", first}, "nothing was changed", "applied revision "+second+" meanwhile")
	s.weir(1, []string{"apply", one, "--dry-run", "--on", first}, "applied revision "+second+" meanwhile")
	s.weir(2, []string{"apply", one, "--dry-run", "--on", second}, "\nmade against revision "+second+"\n")
	s.weir(0, []string{"rollback", second, "--dry-run"}, "is the same as revision "+second)
	s.weir(2, []string{"rollback", "--dry-run"}, "+- { name: a, key: [client_ip], limit: 10/1m }", "\nmade against revision "+second+"\n")
	third := revisionOf(s.weir(0, []string{"rollback", "--reason", "too much", "--author", "bob"}, " is in force"))
	if out := s.weir(0, []string{"history", third}); !strings.Contains(out, "10/1m") {
		t.Errorf("revision %s is\n%s", third, out)
	}
	s.weir(0, []string{"history"}, third+" *", "bob", "back to "+first+": too much", "ann", "begin")
	s.weir(0, []string{"history", "-o", "json"}, `"rollback_to": `+first, `"why": "more"`)
	store, err := versions.Open(s.agent.Addr, "")
	if err == nil {
		_, _, err = store.Amend(t.Context(), amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{
			Rule: "a", Key: []string{"192.0.2.1"}, Limit: json.RawMessage(`"99/1m"`), Until: time.Now().Add(time.Hour),
		}}}, versions.Change{Who: "ann", Why: "a sale"})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.weir(0, []string{"history"}, "override of a 192.0.2.1: 99/1m until 20", "Z: a sale")
	s.weir(1, []string{"apply", "testdata/bad.yaml", "--reason", "bad"}, "testdata/bad.yaml:")
	s.weir(0, []string{"rollback", second, "--reason", "after all"}, " is in force")
	several := filepath.Join(dir, "several")
	if err := os.Mkdir(several, 0o700); err != nil {
		t.Fatal(err)
	}
	proc.WriteFile(t, filepath.Join(several, "a.yaml"), "rules:\n- { name: a, key: [client_ip], limit: 30/1m }\n")
	proc.WriteFile(t, filepath.Join(several, "b.yaml"), "rules:\n- { name: b, key: [path], limit: 5/1s }\n")
	s.weir(2, []string{"apply", several, "--dry-run"}, "+  # \"a.yaml\"\n+  - name: a\n+    key: [client_ip]\n+    limit: 30/1m\n+  # \"b.yaml\"\n+  - name: b\n")
	fourth := revisionOf(s.weir(0, []string{"apply", several, "--reason", "several files"}, " is in force"))
	s.weir(0, []string{"apply", several, "--dry-run"}, "is the same as revision "+fourth)
	s.weir(0, []string{"history", fourth}, "- name: a\n", "- name: b\n")
	s.register("weir-regional-eu-old", 1)
	s.weir(1, []string{"apply", one, "--reason", "too old"}, " is in Consul", "not in force in weir-regional-eu-old, which has revision 1")
	s.agent.Kill()
	s.weir(1, []string{"apply", one, "--dry-run"}, "consul at "+s.agent.Addr+" cannot read weir/rules/manifest")
	s.weir(1, []string{"apply", one, "--reason", "away"}, "consul at "+s.agent.Addr+" cannot read weir/rules/manifest")
}
