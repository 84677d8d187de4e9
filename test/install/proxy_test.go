// Package install holds what deploy/ has against what it is for: a real Envoy, the programs,
// and the schemas of Kubernetes and of the resources that others add to it.
package install

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

type node = map[string]any

// documents returns those of a file of YAML.
func documents(t *testing.T, path string) (all []node) {
	t.Helper()
	text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), path)))(t)
	return decoded(t, path, string(text))
}

// decoded returns those of a text, which has a name.
func decoded(t *testing.T, name, text string) (all []node) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var n node
		if err := d.Decode(&n); err != nil {
			if len(all) == 0 || err.Error() != "EOF" {
				t.Fatalf("%s: %v", name, err)
			}
			return all
		}
		if n != nil { // between two separators
			all = append(all, n)
		}
	}
}

// at returns what is at a path of a tree: names, and numbers in lists.
func at(t *testing.T, tree any, path ...string) any {
	t.Helper()
	for _, step := range path {
		switch v := tree.(type) {
		case node:
			tree = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				t.Fatalf("%q: no %s", path, step)
			}
			tree = v[i]
		default:
			t.Fatalf("%q: no %s", path, step)
		}
	}
	return tree
}

// named returns the entry of a list with a name.
func named(t *testing.T, list any, name string) node {
	t.Helper()
	for _, entry := range list.([]any) {
		if e := entry.(node); e["name"] == name {
			return e
		}
	}
	t.Fatalf("nothing is named %s", name)
	return nil
}

// secrets are the files that the ConfigMap weir-pop-sds has.
var secrets = []string{"certificate.yaml", "authorities.yaml"}

// issued are the files of a Secret with a certificate.
func issued(t *testing.T, a *pki.Authority, subject string, names ...string) map[string]string {
	t.Helper()
	cert, key := a.Issue(subject, names...)
	return map[string]string{"ca.crt": string(a.PEM), "tls.crt": string(cert), "tls.key": string(key)}
}

// program is one of the two that run on Kubernetes: the kind of what runs its pods, and values with which the chart
// has it.
type program struct {
	name, kind string
	values     []string
}

var (
	regional = program{"weir-regional", "Deployment", set()}
	global   = program{"weir-global", "StatefulSet", set("aggregator.enabled=true")}
)

func (p program) with(values ...string) program {
	p.values = append(slices.Clone(p.values), set(values...)...)
	return p
}

func resource(t *testing.T, all []node, kind, name string) node {
	t.Helper()
	for _, d := range all {
		if d["kind"] == kind && at(t, d, "metadata", "name") == name {
			return d
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func (p program) pod(t *testing.T) node {
	t.Helper()
	return at(t, resource(t, rendered(t, p.values...), p.kind, p.name), "spec", "template", "spec").(node)
}

func (p program) container(t *testing.T) node {
	t.Helper()
	return at(t, p.pod(t), "containers", "0").(node)
}

func (p program) args(t *testing.T) (all []string) {
	t.Helper()
	for _, arg := range p.container(t)["args"].([]any) {
		all = append(all, arg.(string))
	}
	return all
}

// With the arguments of the chart the region calls the aggregator, and each proves by its certificate who it is. A
// region with another name is rejected. Both read the secrets of keys, if they are to.
func TestRegionCallsAggregator(t *testing.T) {
	quota := proc.FreeAddr(t)
	m := newMachine(t, "weir-global.weir.svc:8080", quota)
	caller := regional.with("aggregator.enabled=true", "keySecrets.secret=weir-key-secrets")
	aggregator := m.withoutRedis(global.with("keySecrets.secret=weir-key-secrets"), "global", quota)
	eu := m.withoutRedis(caller, "eu", proc.FreeAddr(t), "weir://region/eu")
	us := m.withoutRedis(caller, "us", proc.FreeAddr(t), "weir://region/us")
	metrics := func(admin string) measure.Metrics {
		return fatal.Get(measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics"))(t)
	}
	for _, program := range []string{aggregator, eu} {
		if ok := metrics(program)["weir_key_secrets_config_ok"]; ok != 1 {
			t.Errorf("%s has secrets of keys: %v, want 1", program, ok)
		}
	}
	proc.Eventually(t, 0, "the region eu calls the aggregator", func() bool { return metrics(eu)[`weir_aggregator_calls_total{result="answered"}`] > 0 })
	proc.Eventually(t, 0, "the aggregator rejects a call for eu by us", func() bool {
		return metrics(aggregator)["weir_acquire_rejected_total"] > 0 && metrics(us)[`weir_aggregator_calls_total{result="answered"}`] == 0
	})
}
