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

// parts are what an Envoy needs for Weir. manager is the HTTP connection manager of pop.yaml.
type parts struct {
	filter, cluster node
	stats           any
	manager         node
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

// shipped are the parts that envoy/pop.yaml has.
func shipped(t *testing.T) (p parts) {
	t.Helper()
	pop := documents(t, "envoy/pop.yaml")[0]
	p.manager = at(t, pop, "static_resources", "listeners", "0", "filter_chains", "0", "filters", "0", "typed_config").(node)
	p.filter = named(t, p.manager["http_filters"], "weir")
	p.cluster = named(t, at(t, pop, "static_resources", "clusters"), "weir_region")
	p.stats = pop["stats_config"]
	return p
}

// secrets are the files that the ConfigMap weir-pop-sds has.
var secrets = []string{"certificate.yaml", "authorities.yaml"}

// mountSecrets writes these files, with the paths that they have in a test.
func mountSecrets(t *testing.T, dir string, paths *strings.Replacer) {
	t.Helper()
	for _, name := range secrets {
		text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), "envoy", name)))(t)
		proc.WriteFile(t, filepath.Join(dir, name), paths.Replace(string(text)))
	}
}

// issued are the files of a Secret with a certificate.
func issued(t *testing.T, a *pki.Authority, subject string, names ...string) map[string]string {
	t.Helper()
	cert, key := a.Issue(subject, names...)
	return map[string]string{"ca.crt": string(a.PEM), "tls.crt": string(cert), "tls.key": string(key)}
}

// certificate writes what the Secret of a PoP has.
func certificate(t *testing.T, a *pki.Authority, dir string, hosts ...string) {
	t.Helper()
	for name, content := range issued(t, a, "pop", append(hosts, "weir://pop/eu")...) {
		proc.WriteFile(t, filepath.Join(dir, name), content)
	}
}

// demanded is the TLS with which a PoP calls the region of the chart, which demands
// certificates.
func demanded(t *testing.T) node {
	t.Helper()
	args := regional.args(t)
	if !slices.Contains(args, "--tls-client-ca=/etc/weir/tls/ca.crt") || !slices.Contains(args, "--region=eu") {
		t.Fatalf("the region eu demands no certificates: %q", args)
	}
	return at(t, documents(t, "envoy/tls.yaml")[0], "static_resources", "clusters", "0", "transport_socket").(node)
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

func (p program) resource(t *testing.T, kind string) node {
	t.Helper()
	return resource(t, rendered(t, p.values...), kind, p.name)
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
	return at(t, p.resource(t, p.kind), "spec", "template", "spec").(node)
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

func programsOf(t *testing.T, values []string) (all []program) {
	t.Helper()
	for _, d := range rendered(t, values...) {
		p := program{at(t, d, "metadata", "name").(string), d["kind"].(string), values}
		if (p.name == regional.name || p.name == global.name) && (p.kind == "Deployment" || p.kind == "StatefulSet") {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%q: no program", values)
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
