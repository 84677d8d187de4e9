package compose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// service is what of a service is judged.
type service struct {
	Image       string
	Build       map[string]string
	Command     any
	User        string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	Restart     string
	Ports       []string
	Privileged  bool
	Healthcheck map[string]any
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

// pinned is an image with an exact version.
var pinned = regexp.MustCompile(`^[a-z/-]+:v?\d+\.\d+\.\d+$`)

// Each service is as small a risk as it can be: pinned, read-only, without capabilities, with a
// limit of memory, reachable from this machine only, and with a health check unless it ends.
func TestEachService(t *testing.T) {
	var file struct{ Services map[string]service }
	read(t, "docker-compose.yml", &file)
	if len(file.Services) < 20 {
		t.Fatalf("there are only %d services", len(file.Services))
	}
	for name, s := range file.Services {
		for _, wrong := range s.faults(file.Services) {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}

func (s service) faults(all map[string]service) (faults []string) {
	refuse := func(is bool, why string) {
		if is {
			faults = append(faults, why)
		}
	}
	once := s.Restart == "no"
	refuse(s.Build == nil && !pinned.MatchString(s.Image), "image "+s.Image+" has no exact version")
	refuse(!s.ReadOnly, "its root file system can be written to")
	refuse(s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}), "it has capabilities")
	refuse(!slices.Contains(s.SecurityOpt, "no-new-privileges:true"), "it may gain privileges")
	refuse(s.User == "0" || strings.HasPrefix(s.User, "root"), "it runs as root")
	refuse(s.MemLimit == "", "its memory has no limit")
	refuse(!once && s.Healthcheck["test"] == nil, "it has no health check")
	refuse(strings.Contains(fmt.Sprint(s.Command), "--web.enable-lifecycle"), "any page in a browser here can stop it")
	for _, port := range s.Ports {
		refuse(!strings.HasPrefix(port, "127.0.0.1:"), "port "+port+" can be reached from other machines")
	}
	for other, need := range s.DependsOn {
		want := "service_healthy"
		if all[other].Restart == "no" {
			want = "service_completed_successfully"
		}
		refuse(need.Condition != want, "waits for "+other+" by "+need.Condition+", want "+want)
	}
	return faults
}
