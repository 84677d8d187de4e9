package terraform

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// The commands of a machine of EC2 that its scripts call. They stand for the cloud alone: what S3
// and Secrets Manager have, and which services were started.
var commands = map[string]string{
	"aws": `n=$(cat "$CLOUD/fetches-$1" 2>/dev/null || echo 0)
echo $((n + 1)) >"$CLOUD/fetches-$1"
[ "$n" -ge "$UNREACHABLE" ] || { echo "Could not connect to the endpoint URL" >&2; exit 255; }
case "$1 $4" in
"s3 s3://"*) cp "$CLOUD/bucket/${4##*/}" "$5" ;;
s3*) cp "$4" "$CLOUD/bucket/${5##*/}" ;;
*) cat "$CLOUD/secret" ;;
esac`,
	"curl":      `echo i-0123456789`,
	"dnf":       `exit 0`,
	"sleep":     `exit 0`,
	"systemctl": `echo "$@" >>"$CLOUD/started"; [ "$1" != "$FAILING" ]`,
}

const (
	arn      = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:weir"
	instance = "i-0123456789"
)

// cloudInit is what of a #cloud-config is read here.
type cloudInit struct {
	Files []struct{ Path, Content, Permissions string } `yaml:"write_files"`
	Run   [][]string                                    `yaml:"runcmd"`
}

// machine is a machine of EC2 as the module bootstrap makes one, with its files in a directory.
type machine struct {
	t     *testing.T
	dir   string
	files map[string]any // directories of the module
	cloud string         // what the stand-ins have: bucket/, secret, started
	units map[string]string
	boots string            // the script that cloud-init runs
	env   map[string]string // of scripts, and of stand-ins
	enter func(argv []string) []string
}

// newMachine has nothing yet. The bucket has the programs: path by name.
func newMachine(t *testing.T, dir string, programs map[string]string) *machine {
	t.Helper()
	m := &machine{t: t, dir: dir, cloud: filepath.Join(dir, "cloud"), units: map[string]string{},
		env: map[string]string{"UNREACHABLE": "0"}, enter: func(argv []string) []string { return argv }}
	m.files = map[string]any{"config": filepath.Join(dir, "etc"), "secrets": filepath.Join(dir, "etc", "secrets"),
		"programs": filepath.Join(dir, "opt"), "data": filepath.Join(dir, "var")}
	for name, content := range commands {
		m.executable(filepath.Join(m.cloud, "bin", name), "#!/bin/bash\n"+content+"\n")
	}
	m.env["CLOUD"], m.env["PATH"] = m.cloud, filepath.Join(m.cloud, "bin")+":"+os.Getenv("PATH")
	fatal.If(t, os.MkdirAll(filepath.Join(m.cloud, "bucket"), 0o755))
	for name, file := range programs {
		fatal.If(t, os.Symlink(file, filepath.Join(m.cloud, "bucket", name)))
	}
	return m
}

func (m *machine) executable(path, content string) {
	m.t.Helper()
	proc.WriteFile(m.t, path, content)
	fatal.If(m.t, os.Chmod(path, 0o755))
}

// programs is machine.programs: what is in the bucket, with its checksums.
func (m *machine) programs() map[string]any {
	m.t.Helper()
	programs := map[string]any{}
	for _, file := range fatal.Get(filepath.Glob(filepath.Join(m.cloud, "bucket", "*")))(m.t) {
		sum := sha256.Sum256(fatal.Get(os.ReadFile(file))(m.t))
		programs[filepath.Base(file)] = map[string]string{"uri": "s3://bucket/" + filepath.Base(file), "sha256": hex.EncodeToString(sum[:])}
	}
	return programs
}

// secret is what Secrets Manager returns for the secret of the machine's role.
func (m *machine) secret(files map[string]string) {
	m.t.Helper()
	proc.WriteFile(m.t, filepath.Join(m.cloud, "secret"), marshal(m.t, files)+"\n")
}

// write writes the files of cloud-init, and keeps units: no systemd reads them here.
func (m *machine) write(userData string) {
	m.t.Helper()
	var config cloudInit
	fatal.If(m.t, yaml.Unmarshal([]byte(userData), &config))
	for _, f := range config.Files {
		if dir, name := path.Split(f.Path); dir == "/etc/systemd/system/" {
			m.units[name] = f.Content
		} else if strings.HasPrefix(f.Path, m.dir) {
			proc.WriteFile(m.t, f.Path, f.Content)
			if f.Permissions != "" {
				mode, _ := strconv.ParseUint(f.Permissions, 8, 32) // else it cannot be run
				fatal.If(m.t, os.Chmod(f.Path, os.FileMode(mode)))
			}
		}
	}
	m.boots = config.Run[len(config.Run)-1][0]
}

// run runs a script of the machine as root does there, and returns what it printed.
func (m *machine) run(script string) (out string, err error) {
	m.t.Helper()
	argv := m.enter([]string{script})
	cmd := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	for k, v := range m.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	text, err := cmd.CombinedOutput()
	m.t.Logf("%s: %v\n%s", filepath.Base(script), err, text)
	return string(text), err
}

// started is what systemctl was called for.
func (m *machine) started() string {
	text, _ := os.ReadFile(filepath.Join(m.cloud, "started")) // missing: nothing was started
	return string(text)
}

func (m *machine) read(directory, name string) string {
	m.t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(m.files[directory].(string), name)))(m.t))
}
