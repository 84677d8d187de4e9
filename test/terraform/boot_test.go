package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

// The commands of a machine of EC2 that the script calls. They stand for the cloud alone: which
// bytes S3 and Secrets Manager return, and which services were started.
var commands = map[string]string{
	"aws": `n=$(cat "$STARTED.fetches" 2>/dev/null || echo 0)
echo $((n + 1)) >"$STARTED.fetches"
[ "$n" -ge "$UNREACHABLE" ] || { echo "Could not connect to the endpoint URL" >&2; exit 255; }
case "$1" in
s3) printf 'program' >"${@: -1}" ;;
secretsmanager) echo "secret of $4" ;;
esac`,
	"curl":      `echo i-0123456789`,
	"chown":     `exit 0`,
	"sleep":     `exit 0`,
	"systemctl": `echo "$@" >>"$STARTED"`,
}

const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:weir"

// cloudInit is what of a #cloud-config is read here.
type cloudInit struct {
	Files []struct{ Path, Content, Permissions string } `yaml:"write_files"`
	Run   [][]string                                    `yaml:"runcmd"`
}

// boot writes the files of a machine as cloud-init does, runs its script, and returns what it
// started. The first fetches fail, as many as are unreachable.
func boot(t *testing.T, sum string, unreachable int) (h *host, started string, err error) {
	t.Helper()
	dir := t.TempDir()
	h = &host{t: t, dir: dir, secrets: filepath.Join(dir, "secrets"), files: map[string]any{"config": dir, "secrets": filepath.Join(dir, "secrets"),
		"programs": filepath.Join(dir, "programs"), "data": filepath.Join(dir, "data")}}
	programs := map[string]any{}
	for _, name := range []string{"envoy", "consul", "weir.wasm"} {
		programs[name] = map[string]string{"uri": "s3://bucket/" + name, "sha256": sum}
	}
	texts, _ := bootstrap(t, map[string]any{"region": "eu", "directories": h.files, "pop": map[string]any{"upstreams": []string{"app.internal:8080"}},
		"machine": map[string]any{"programs": programs, "pop_secrets": map[string]string{"key.pem": arn}}})
	var config cloudInit
	if err := yaml.Unmarshal([]byte(texts["pop_user_data"]), &config); err != nil {
		t.Fatal(err)
	}
	for _, f := range config.Files {
		if strings.HasPrefix(f.Path, dir) {
			proc.WriteFile(t, f.Path, f.Content)
		}
	}
	bin, log := t.TempDir(), filepath.Join(dir, "started")
	for name, script := range commands {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", config.Run[len(config.Run)-1][0])
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "STARTED="+log, "UNREACHABLE="+strconv.Itoa(unreachable))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	text, _ := os.ReadFile(log) // missing: nothing was started
	return h, string(text), err
}

// At its first boot a machine has its programs, its secrets for their owner alone, and its own
// name in the bootstrap, before anything is started. The network may come later than the machine.
func TestBoot(t *testing.T) {
	sum := sha256.Sum256([]byte("program"))
	h, started, err := boot(t, hex.EncodeToString(sum[:]), 2)
	if err != nil || !strings.HasSuffix(started, "enable --now weir-consul weir-pop\n") {
		t.Errorf("%v, started %q", err, started)
	}
	for path, mode := range map[string]os.FileMode{"programs/envoy": 0o755, "programs/consul": 0o755, "programs/weir.wasm": 0o755, "secrets/key.pem": 0o600} {
		if info, err := os.Stat(filepath.Join(h.dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info, err, mode)
		}
	}
	if key, err := os.ReadFile(filepath.Join(h.secrets, "key.pem")); string(key) != "secret of "+arn+"\n" {
		t.Errorf("key.pem is %q, %v", key, err)
	}
	config, err := os.ReadFile(filepath.Join(h.dir, "envoy.yaml"))
	if text := string(config); err != nil || strings.Count(text, "i-0123456789") != 2 || strings.Contains(text, "@INSTANCE@") {
		t.Errorf("the bootstrap does not name the machine as node and as PoP: %v", err)
	}
}

// A program that is not what the configuration names is not started, nor is any other.
func TestBootWithAnotherProgram(t *testing.T) {
	if _, started, err := boot(t, strings.Repeat("0", 64), 0); err == nil || started != "" {
		t.Errorf("%v, started %q; want an error and nothing", err, started)
	}
}

// A machine that never reaches what it needs gives up, and starts nothing.
func TestBootWithoutNetwork(t *testing.T) {
	sum := sha256.Sum256([]byte("program"))
	if _, started, err := boot(t, hex.EncodeToString(sum[:]), 1000); err == nil || started != "" {
		t.Errorf("%v, started %q; want an error and nothing", err, started)
	}
}
