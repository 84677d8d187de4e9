package compose

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Grafana gets each dashboard of observability/ where its provider looks, and asks a service that
// it can reach. That Grafana starts is not tested: see docs/compose.md.
func TestGrafana(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Configs  []struct{ Source, Target string }
			Networks any // a list, or addresses by name
		}
		Configs map[string]struct{ File string }
	}
	read(t, "docker-compose.yml", &file)
	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	read(t, "compose/grafana/dashboards.yaml", &dashboards)
	var sources struct{ Datasources []struct{ URL string } }
	read(t, "compose/grafana/datasources.yaml", &sources)

	targets := map[string]string{} // by file
	for _, c := range file.Services["grafana"].Configs {
		targets[filepath.Clean(file.Configs[c.Source].File)] = c.Target
	}
	for _, of := range []string{"datasources", "dashboards"} {
		want := "/etc/grafana/provisioning/" + of
		if got := targets["compose/grafana/"+of+".yaml"]; path.Dir(got) != want {
			t.Errorf("%s are at %q, want a file in %s", of, got, want)
		}
	}
	all, err := filepath.Glob(filepath.Join(proc.Root(t), "observability", "dashboards", "*.json"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	for _, d := range all {
		name := filepath.Base(d)
		if got, want := targets["observability/dashboards/"+name], dashboards.Providers[0].Options.Path+"/"+name; got != want {
			t.Errorf("dashboard %s is at %q, want %q", name, got, want)
		}
	}
	asked, err := url.Parse(sources.Datasources[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	if networks, _ := file.Services[asked.Hostname()].Networks.([]any); !slices.Contains(networks, any("observability")) {
		t.Errorf("%s is not on Grafana's network", asked.Host)
	}
}

// read parses a YAML file of the repository.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
