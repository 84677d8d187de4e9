package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// A server saves a snapshot, and then its tokens are rotated. When it is lost with all its data, a new one has
// the new tokens, and restores it: then the rules are there, and so are the old tokens. The new ones are there
// once weir-acl has run again.
func TestSnapshotRestores(t *testing.T) {
	dir := open(t, proc.LogDir(t))
	names := users(t, dir)
	d := newDeployment(t, dir)
	ports, port := agentPorts(t, nil)
	server := func(name string) (*machine, *proc.Process) {
		m := realMachine(t, filepath.Join(dir, name), names)
		m.secret(d.role(t, "eu/consul"))
		texts, _ := bootstrap(t, map[string]any{"region": "eu", "directories": m.files, "consul": ports, "machine": map[string]any{
			"programs": m.programs(), "consul_secret": arn, "snapshots": "s3://backups/weir"}})
		m.bootReal(texts["consul_user_data"])
		p := m.unit("weir-consul.service", 2*GiB).start(t, names, m.dir, "consul")
		acl(t, m, names)
		return m, p
	}
	person := func(name string) string { return strings.TrimSpace(d.role(t, "people")[name+"-token"]) }
	run := func(m *machine, program string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "opt", program), args...)
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_TOKEN="+person("management"), "CONSUL_HTTP_ADDR="+port("http"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	await := func(m *machine, p *proc.Process, program string, args ...string) {
		t.Helper()
		p.AwaitUp(func() string {
			if out, err := run(m, program, args...); err != nil {
				return err.Error() + out
			}
			return ""
		})
	}

	first, p := server("first")
	await(first, p, "weir", "rules", "apply", proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules), "--consul", port("http"), "--reason", "first rules")
	old := person("rules")
	before, err := run(first, "consul", "kv", "get", "-recurse", "weir/rules")
	if err != nil || before == "" {
		t.Fatalf("there are no rules to save: %v, %s", err, before)
	}
	if _, err := first.run(filepath.Join(first.dir, "etc", "snapshot")); err != nil {
		t.Fatal(err)
	}
	saved, err := filepath.Glob(filepath.Join(first.cloud, "bucket", "*.snap"))
	if err != nil || len(saved) != 1 {
		t.Fatalf("saved %q, %v", saved, err)
	}
	p.Kill()
	d.bootstrap(t, "--rotate", "tokens")

	second, p := server("second")
	await(second, p, "consul", "operator", "raft", "list-peers")
	if out, err := run(second, "consul", "kv", "get", "-recurse", "weir/rules"); err != nil || out != "" {
		t.Fatalf("a new server has rules already: %v, %s", err, out)
	}
	await(second, p, "consul", "snapshot", "restore", saved[0])
	await(second, p, "consul", "acl", "token", "read", "-self", "-token", old)
	if after, err := run(second, "consul", "kv", "get", "-recurse", "weir/rules"); err != nil || after != before {
		t.Errorf("the rules are not there: %v, %s", err, after)
	}
	if out, err := run(second, "consul", "acl", "token", "read", "-self", "-token", person("rules")); err == nil {
		t.Errorf("a token that is newer than the snapshot is there before weir-acl has run: %s", out)
	}
	acl(t, second, names)
	await(second, p, "consul", "acl", "token", "read", "-self", "-token", person("rules"))
}

// acl runs weir-acl of a server, until policies and tokens are made.
func acl(t *testing.T, m *machine, names string) {
	t.Helper()
	unit := m.unit("weir-acl.service", 2*GiB).start(t, names, m.dir, "acl")
	proc.Eventually(t, time.Minute, "policies and tokens are made", unit.Exited)
}
