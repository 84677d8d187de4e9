package install

import (
	"net/http"
	"slices"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

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
