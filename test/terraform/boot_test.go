package terraform

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// popSecret is what the secret of a PoP must have.
var popSecret = map[string]string{"ca.pem": "a", "cert.pem": "b", "key.pem": "c", "consul.json": "{}",
	"consul-ca.pem": "d", "consul-cert.pem": "e", "consul-key.pem": "f"}

// standIn is a PoP whose programs do nothing. Owners are written down and not changed: its users
// are not on this machine.
func standIn(t *testing.T) *machine {
	t.Helper()
	programs := map[string]string{}
	for _, name := range []string{"envoy", "consul", "weir.wasm", "weir.so"} {
		programs[name] = proc.WriteFile(t, filepath.Join(t.TempDir(), name), "#!/bin/sh\n")
	}
	m := newMachine(t, t.TempDir(), programs)
	m.executable(filepath.Join(m.cloud, "bin", "chown"), "#!/bin/sh\necho \"$@\" >>\"$CLOUD/owners\"\n")
	m.secret(popSecret)
	return m
}

// boot renders the machine's files with these programs and a kind of filter, and runs its script.
func (m *machine) boot(programs map[string]any, filter string) (out string, err error) {
	m.t.Helper()
	texts, _ := bootstrap(m.t, map[string]any{"region": "eu", "directories": m.files, "pop": map[string]any{"upstreams": []string{"app.internal:8080"}, "filter": filter},
		"machine": map[string]any{"programs": programs, "pop_secret": arn, "logs": "/weir/weir-eu"}})
	m.write(texts["pop_user_data"])
	return m.run(m.boots)
}

// At its first boot a machine has its programs, its secrets for their owners alone, and its own
// name in Envoy's bootstrap and in Consul, before anything is started. Network and role may come much later
// than the machine: each attempt is in the log.
func TestBoot(t *testing.T) {
	m := standIn(t)
	m.files["programs"] = filepath.Join(m.dir, "srv", "weir", "bin")
	m.env["UNREACHABLE"] = "20" // for S3, and again for Secrets Manager
	out, err := m.boot(m.programs(), "wasm")
	for _, want := range []string{"Could not connect to the endpoint URL", "s3://bucket/consul is not fetched: see the error above", arn + " cannot be fetched", "the secret is not fetched"} {
		if n := strings.Count(out, want); n < 20 {
			t.Errorf("%q is %d times in the log", want, n)
		}
	}
	if err != nil || !strings.HasSuffix(m.started(), "enable --now weir-consul weir-pop weir-secrets.timer\n") {
		t.Errorf("%v, started %q", err, m.started())
	}
	for path, mode := range map[string]os.FileMode{"srv/weir/bin/envoy": 0o755, "srv/weir/bin/consul": 0o755,
		"srv/weir/bin/weir.wasm": 0o755, "srv/weir/bin": 0o755, "srv/weir": 0o755, "srv": 0o755, "etc/secrets/key.pem": 0o600} {
		if info, err := os.Stat(filepath.Join(m.dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info, err, mode)
		}
	}
	if key := m.read("secrets", "key.pem"); key != "c" {
		t.Errorf("key.pem is %q", key)
	}
	owners, err := os.ReadFile(filepath.Join(m.cloud, "owners"))
	for _, want := range []string{"weir: " + filepath.Join(m.dir, "etc/secrets/key.pem"), "consul: " + filepath.Join(m.dir, "etc/secrets/consul-key.pem")} {
		if err != nil || !strings.Contains(string(owners), want) {
			t.Errorf("%v, no %q in\n%s", err, want, owners)
		}
	}
	if text := m.read("config", "envoy.yaml"); strings.Count(text, instance) != 2 || strings.Contains(text, "@INSTANCE@") {
		t.Error("the bootstrap does not name the machine as node and as PoP")
	}
	if text := m.read("config", "consul.json"); !strings.Contains(text, `"node_name":"eu-pop-`+instance+`"`) {
		t.Errorf("the agent's name is not that of a PoP of its region: %s", text)
	}
}

// foreign is a program for another processor than any that runs this.
var foreign = "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xf3\x00" + strings.Repeat("\x00", 100)

// With the native module a machine has weir.so and not weir.wasm. It has to be for the machine's processor.
func TestBootNative(t *testing.T) {
	m := standIn(t)
	library := func(content string) (out string, err error) {
		file := filepath.Join(m.cloud, "bucket", "weir.so")
		_ = os.Remove(file) // a link
		proc.WriteFile(t, file, content)
		return m.boot(m.programs(), "native")
	}
	out, err := library(foreign)
	if want := "s3://bucket/weir.so does not run on this machine ("; err == nil || !strings.Contains(out, want) || m.started() != "" {
		t.Errorf("%v, no %q in\n%s", err, want, out)
	}
	own := fatal.Get(os.ReadFile("/bin/sh"))(t)
	if out, err := library(string(own)); err != nil || m.read("programs", "weir.so") != string(own) || m.started() == "" {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(m.files["programs"].(string), "weir.wasm")); err == nil {
		t.Error("weir.wasm was fetched, too")
	}
}

// What a machine cannot use, it names, with what to change, and starts nothing.
func TestBootRejects(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, m *machine, programs map[string]any)
		wants []string
	}{
		"a program with another checksum": {func(_ *testing.T, _ *machine, programs map[string]any) {
			programs["envoy"] = map[string]string{"uri": "s3://bucket/envoy", "sha256": strings.Repeat("0", 64)}
		}, []string{"s3://bucket/envoy has the SHA-256 ", "and programs.envoy.sha256 is 000"}},
		"a program for another processor": {func(t *testing.T, m *machine, programs map[string]any) {
			file := filepath.Join(m.cloud, "bucket", "envoy")
			_ = os.Remove(file) // a link
			proc.WriteFile(t, file, foreign)
			programs["envoy"] = m.programs()["envoy"]
		}, []string{"s3://bucket/envoy does not run on this machine (", "put the build for its processor there", "instance_type and image_id"}},
		"a directory that cannot be written": {func(_ *testing.T, m *machine, _ map[string]any) {
			m.files["data"] = "/proc/weir"
		}, []string{"/proc/weir cannot be written: set directories of the module bootstrap"}},
		"a secret that is no JSON": {func(t *testing.T, m *machine, _ map[string]any) {
			proc.WriteFile(t, filepath.Join(m.cloud, "secret"), "password")
		}, []string{arn + " is no JSON", "Write it again with `weir admin bootstrap`"}},
		"a secret without a file that it must have": {func(_ *testing.T, m *machine, _ map[string]any) {
			m.secret(map[string]string{"ca.pem": "a", "cert.pem": "b", "consul.json": "{}"})
		}, []string{arn + " lacks key.pem, consul-ca.pem, consul-cert.pem, consul-key.pem"}},
		"a secret with a file elsewhere": {func(_ *testing.T, m *machine, _ map[string]any) {
			m.secret(map[string]string{"../boot": "a"})
		}, []string{"has the key '../boot', which is no name of a file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := standIn(t)
			programs := m.programs()
			c.spoil(t, m, programs)
			out, err := m.boot(programs, "wasm")
			for _, want := range append(c.wants, "Nothing was started.") {
				if err == nil || !strings.Contains(out, want) {
					t.Errorf("%v, no %q in\n%s", err, want, out)
				}
			}
			if started := m.started(); started != "" {
				t.Errorf("started %q, want nothing", started)
			}
		})
	}
}

// A machine fetches its secret again: it replaces what has changed, and tells Consul's agent each time, so that
// none that failed is missed. A secret that cannot be used changes nothing.
func TestSecretsChange(t *testing.T) {
	m := standIn(t)
	if _, err := m.boot(m.programs(), "wasm"); err != nil {
		t.Fatal(err)
	}
	fetch := filepath.Join(m.dir, "etc", "fetch-secrets")
	change := func(files map[string]string) (out string, started []string, err error) {
		t.Helper()
		before := m.started()
		next := maps.Clone(popSecret)
		maps.Copy(next, files)
		m.secret(next)
		out, err = m.run(fetch)
		return out, strings.Split(strings.TrimSuffix(strings.TrimPrefix(m.started(), before), "\n"), "\n"), err
	}
	reload := []string{"is-active --quiet weir-consul", "reload weir-consul"}
	if _, started, err := change(map[string]string{"cert.pem": "new"}); err != nil || !slices.Equal(started, reload) || m.read("secrets", "cert.pem") != "new" {
		t.Errorf("a file of Envoy: %v, %q", err, started)
	}
	m.env["FAILING"] = "reload"
	if out, _, err := change(map[string]string{"consul-cert.pem": "new"}); err == nil || !strings.Contains(out, "weir-consul has the new files only when") {
		t.Errorf("the agent cannot be reloaded: %v, %s", err, out)
	}
	m.env["FAILING"] = ""
	if _, started, err := change(map[string]string{"consul-cert.pem": "new"}); err != nil || !slices.Equal(started, reload) {
		t.Errorf("nothing has changed since the agent could not be reloaded: %v, %q", err, started)
	}
	m.env["FAILING"] = "is-active"
	if _, started, err := change(nil); err != nil || !slices.Equal(started, reload[:1]) {
		t.Errorf("the agent is down: %v, %q", err, started)
	}
	m.env["FAILING"] = ""
	acl := filepath.Join(m.dir, "etc", "secrets", "acl.json")
	if _, started, err := change(map[string]string{"acl.json": "{}"}); err != nil || !slices.Contains(started, "restart --no-block weir-acl") || m.read("secrets", "acl.json") != "{}" {
		t.Errorf("policies and tokens: %v, %q", err, started)
	}
	if _, _, err := change(nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(acl); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("acl.json is left when the secret has none: %v", err)
	}
	if out, _, err := change(map[string]string{"consul-cert.pem": "newer", "key.pem": ""}); err == nil || !strings.Contains(out, "lacks key.pem") || m.read("secrets", "consul-cert.pem") != "e" {
		t.Errorf("a secret that is half empty: %v, %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(m.dir, "etc", "secrets", "*.new")); left != nil {
		t.Errorf("left: %q", left)
	}
}
