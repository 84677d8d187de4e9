package terraform

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A server saves a snapshot. When it is lost with all its data, a new one restores it: then the rules
// are there, and so are tokens.
func TestSnapshotRestores(t *testing.T) {
	dir := open(t, proc.LogDir(t))
	names := users(t, dir)
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ports, port := agentPorts(t, nil)
	files := secrets(t, a, base64.StdEncoding.EncodeToString(make([]byte, 32)), "weir-consul")
	server := func(name string) (*machine, *proc.Process) {
		m := realMachine(t, filepath.Join(dir, name), names)
		m.secret(files)
		texts, _ := bootstrap(t, map[string]any{"region": "eu", "directories": m.files, "consul": ports, "machine": map[string]any{
			"programs": m.programs(), "consul_secret": arn, "snapshots": "s3://backups/weir"}})
		m.bootReal(texts["consul_user_data"])
		return m, m.unit("weir-consul.service", 2*GiB).start(t, names, m.dir, "consul")
	}
	run := func(m *machine, program string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(m.dir, "opt", program), args...)
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_TOKEN="+token, "CONSUL_HTTP_ADDR="+port("http"))
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
	await(first, p, "weir", "apply", proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules), "--consul", port("http"), "--reason", "first rules")
	await(first, p, "consul", "acl", "token", "create", "-policy-name", "builtin/global-read-only", "-secret", "22222222-2222-3333-4444-555555555555")
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

	second, p := server("second")
	await(second, p, "consul", "operator", "raft", "list-peers")
	if out, err := run(second, "consul", "kv", "get", "-recurse", "weir/rules"); err != nil || out != "" {
		t.Fatalf("a new server has rules already: %v, %s", err, out)
	}
	await(second, p, "consul", "snapshot", "restore", saved[0])
	await(second, p, "consul", "acl", "token", "read", "-self", "-token", "22222222-2222-3333-4444-555555555555")
	if after, err := run(second, "consul", "kv", "get", "-recurse", "weir/rules"); err != nil || after != before {
		t.Errorf("the rules are not there: %v, %s", err, after)
	}
}
