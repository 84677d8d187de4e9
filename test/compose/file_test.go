package compose

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// service is what of a service is judged.
type service struct {
	Build       map[string]string
	Command     any
	User        string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	CPUs        float64  `yaml:"cpus"`
	Restart     string
	Ports       []string
	Privileged  bool
	Healthcheck map[string]any
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

// pinned is an image with an exact version, which may have a digest; of Go the newest patch is taken.
var pinned = regexp.MustCompile(`^[a-z/-]+:v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$|^golang:`)

// Each service is as small a risk as it can be: read-only, without capabilities, with a limit of memory,
// reachable from this machine only, and with a health check unless it ends. It starts on a machine of
// one CPU, and where the files of the repository are for their owner only.
func TestEachService(t *testing.T) {
	var file struct {
		Services map[string]service
		Configs  any
	}
	fatal.If(t, yaml.Unmarshal([]byte(content(t, "docker-compose.yml")), &file))
	if len(file.Services) < 20 {
		t.Fatalf("there are only %d services", len(file.Services))
	}
	if file.Configs != nil {
		t.Error("there are configs: the users of containers cannot read them after a checkout with umask 077; copy them in the Dockerfile")
	}
	for name, s := range file.Services {
		for _, wrong := range s.faults(file.Services) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

// The official images have exact versions, and what is copied from the repository can be read by every user.
func TestDockerfile(t *testing.T) {
	images := 0
	for line := range strings.Lines(content(t, "Dockerfile")) {
		if _, image, is := strings.Cut(strings.TrimSpace(line), "="); is && strings.HasPrefix(line, "ARG ") {
			if images++; !pinned.MatchString(image) {
				t.Errorf("image %s has no exact version", image)
			}
		}
		if strings.HasPrefix(line, "COPY compose") || strings.HasPrefix(line, "COPY observability") {
			t.Errorf("without --chmod its user cannot read it after a checkout with umask 077: %s", line)
		}
	}
	if images < 8 {
		t.Errorf("there are only %d official images", images)
	}
}

// The listener of PoPs for Prometheus has two pages of the admin endpoint: others can stop the Envoy.
func TestPagesForPrometheus(t *testing.T) {
	got := regexp.MustCompile(`\bmatch: .*`).FindAllString(content(t, "envoy/generate/compose.yaml"), -1)
	if !slices.Equal(got, []string{"match: { path: /stats/prometheus }", "match: { path: /ready }"}) {
		t.Errorf("it has %q", got)
	}
}

// content is the text of a file of the repository.
func content(t *testing.T, path string) string {
	t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), path)))(t))
}

func (s service) faults(all map[string]service) (faults []string) {
	reject := func(is bool, why string) {
		if is {
			faults = append(faults, why)
		}
	}
	once := s.Restart == "no"
	reject(s.Build == nil, "the Dockerfile, which pins versions, does not make it")
	reject(s.CPUs > 1, "a machine of one CPU rejects its limit of CPUs")
	reject(!s.ReadOnly, "its root file system can be written to")
	reject(s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}), "it has capabilities")
	reject(!slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "it may gain privileges")
	reject(s.User == "0" || strings.HasPrefix(s.User, "root"), "it runs as root")
	reject(s.MemLimit == "", "its memory has no limit")
	reject(!once && s.Healthcheck["test"] == nil, "it has no health check")
	reject(strings.Contains(fmt.Sprint(s.Command), "--web.enable-lifecycle"), "any page in a browser here can stop it")
	for _, port := range s.Ports {
		reject(!strings.HasPrefix(port, "127.0.0.1:"), "port "+port+" can be reached from other machines")
	}
	for other, need := range s.DependsOn {
		want := "service_healthy"
		if all[other].Restart == "no" {
			want = "service_completed_successfully"
		}
		reject(need.Condition != want, "waits for "+other+" by "+need.Condition+", want "+want)
	}
	return faults
}

// The images are built from all that the programs are made of.
func TestDockerignore(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/weir", "./cmd/weir-regional", "./cmd/weir-global", "./test/certs", "./wasmfilter/native")
	cmd.Dir = proc.Root(t)
	packages := fatal.Get(cmd.Output())(t)
	sent := regexp.MustCompile(`(?m)^!(.*)$`).FindAllStringSubmatch(content(t, ".dockerignore"), -1)
	for path := range strings.Lines(string(packages)) {
		path, ours := strings.CutPrefix(strings.TrimSpace(path), "github.com/weirlimit/weir/")
		if ours && !slices.ContainsFunc(sent, func(m []string) bool { return strings.HasPrefix(path+"/", m[1]+"/") }) {
			t.Errorf(".dockerignore leaves out %s, which a program imports: add !%s", path, path)
		}
	}
}
