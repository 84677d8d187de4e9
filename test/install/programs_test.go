package install

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
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

// with is the program with more values.
func (p program) with(values ...string) program {
	p.values = append(slices.Clone(p.values), set(values...)...)
	return p
}

// built is where the program itself is.
func (p program) built(t *testing.T) string { return proc.Built(t, "bin/"+p.name, "build") }

// resource returns the one of a kind that has the program's name.
func (p program) resource(t *testing.T, kind string) node {
	t.Helper()
	return resource(t, rendered(t, p.values...), kind, p.name)
}

// resource returns the one of a kind with a name.
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

// pod is what its pods are.
func (p program) pod(t *testing.T) node {
	t.Helper()
	return at(t, p.resource(t, p.kind), "spec", "template", "spec").(node)
}

// container is the one of its pods.
func (p program) container(t *testing.T) node {
	t.Helper()
	return at(t, p.pod(t), "containers", "0").(node)
}

// args are those of the container.
func (p program) args(t *testing.T) (all []string) {
	t.Helper()
	for _, arg := range p.container(t)["args"].([]any) {
		all = append(all, arg.(string))
	}
	return all
}

// rulesOf is the text of the rules in the chart.
func rulesOf(t *testing.T) string {
	t.Helper()
	return at(t, resource(t, rendered(t, set()...), "ConfigMap", "weir-rules"), "data", "rules.yaml").(string)
}

// In every install each program mounts all of its volumes, and is behind what selects its pods.
func TestPrograms(t *testing.T) {
	for name, values := range installs {
		for _, p := range programsOf(t, values) {
			t.Run(name+"/"+p.name, p.fits)
		}
	}
}

// programsOf are those that the chart runs with these values.
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

func (p program) fits(t *testing.T) {
	workload, pod, container := p.resource(t, p.kind), p.pod(t), p.container(t)
	volumes := pod["volumes"].([]any)
	if claims, ok := at(t, workload, "spec", "volumeClaimTemplates").([]any); ok {
		for _, c := range claims {
			volumes = append(volumes, at(t, c, "metadata"))
		}
	}
	for _, m := range container["volumeMounts"].([]any) {
		volumes = slices.DeleteFunc(volumes, func(v any) bool { return v.(node)["name"] == at(t, m, "name") })
	}
	if len(volumes) > 0 {
		t.Errorf("nothing mounts %v", volumes)
	}
	labels := at(t, workload, "spec", "template", "metadata", "labels")
	for kind, path := range map[string][]string{
		p.kind: {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
		"PodDisruptionBudget": {"spec", "selector", "matchLabels"}, "NetworkPolicy": {"spec", "podSelector", "matchLabels"},
	} {
		if got := at(t, p.resource(t, kind), path...); fmt.Sprint(got) != fmt.Sprint(labels) {
			t.Errorf("%s selects %v, the pods have %v", kind, got, labels)
		}
	}
	for name, want := range map[string]string{"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
		if probe := probeOf(t, container, name); probe.path != want || probe.failures < 3 {
			t.Errorf("%s: %+v, want %s, and three failures or more", name, probe, want)
		}
	}
}

// probe is one of a container's: the path that it asks, and how often in a row it may fail.
type probe struct {
	path     string
	failures int
}

func probeOf(t *testing.T, container node, name string) probe {
	t.Helper()
	of := at(t, container, name).(node)
	if port := at(t, of, "httpGet", "port"); port != "admin" {
		t.Errorf("%s asks the port %v", name, port)
	}
	p := probe{at(t, of, "httpGet", "path").(string), 3} // the default of Kubernetes
	if n, ok := of["failureThreshold"].(int); ok {
		p.failures = n
	}
	return p
}

// Each service has one ServiceMonitor, with the label job that dashboards and alerts use.
func TestServicesAreScraped(t *testing.T) {
	all := rendered(t, installs["all"]...)
	for _, name := range []string{regional.name, global.name} {
		service, monitor := resource(t, all, "Service", name), resource(t, all, "ServiceMonitor", name)
		for label, value := range at(t, monitor, "spec", "selector", "matchLabels").(node) {
			if got := at(t, service, "metadata", "labels", label); got != value {
				t.Errorf("the monitor selects %s %v, the service has %v", label, value, got)
			}
		}
		endpoint := at(t, monitor, "spec", "endpoints", "0").(node)
		named(t, at(t, service, "spec", "ports"), endpoint["port"].(string))
		if job := at(t, endpoint, "relabelings", "0"); fmt.Sprint(job) != fmt.Sprint(node{"targetLabel": "job", "replacement": name}) {
			t.Errorf("the label job: %v", job)
		}
	}
}

// The rules are valid, and the aggregator has those of the region.
func TestRules(t *testing.T) {
	if _, err := rulefile.Parse("rules.yaml", []byte(rulesOf(t))); err != nil {
		t.Error(err)
	}
	for _, p := range []program{regional, global} {
		volume := named(t, p.pod(t)["volumes"], "rules")
		if got := at(t, volume, "configMap", "name"); got != "weir-rules" {
			t.Errorf("%s has the rules %v", p.name, got)
		}
	}
}

// One aggregator counts in memory: the next one starts when the last one has ended, with its
// state.
func TestOneAggregator(t *testing.T) {
	spec := at(t, global.resource(t, global.kind), "spec").(node)
	if spec["replicas"] != 1 {
		t.Errorf("%v replicas with counters in memory", spec["replicas"])
	}
	if got, want := spec["serviceName"], at(t, global.resource(t, "Service"), "metadata", "name"); got != want {
		t.Errorf("serviceName %v, want %v", got, want)
	}
	mounts := at(t, spec, "template", "spec", "containers", "0", "volumeMounts")
	state := named(t, mounts, at(t, spec, "volumeClaimTemplates", "0", "metadata", "name").(string))
	if !slices.Contains(global.args(t), fmt.Sprintf("--state=%s/state", state["mountPath"])) {
		t.Errorf("the state file is not on the volume at %v: %q", state["mountPath"], global.args(t))
	}
}

// With the arguments of the chart the region calls the aggregator, and each proves by its certificate who it is. A
// region with another name is refused. Both read the secrets of keys, if they are to.
func TestRegionCallsAggregator(t *testing.T) {
	quota := proc.FreeAddr(t)
	m := newMachine(t, "weir-global.weir.svc:8080", quota)
	caller := regional.with("aggregator.enabled=true", "keySecrets.secret=weir-key-secrets")
	aggregator := m.withoutRedis(global.with("keySecrets.secret=weir-key-secrets"), "global", quota)
	eu := m.withoutRedis(caller, "eu", proc.FreeAddr(t), "weir://region/eu")
	us := m.withoutRedis(caller, "us", proc.FreeAddr(t), "weir://region/us")
	metrics := func(admin string) measure.Metrics {
		m := fatal.Get(measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics"))(t)
		return m
	}
	for _, program := range []string{aggregator, eu} {
		if ok := metrics(program)["weir_key_secrets_config_ok"]; ok != 1 {
			t.Errorf("%s has secrets of keys: %v, want 1", program, ok)
		}
	}
	proc.Eventually(t, 0, "the region eu calls the aggregator", func() bool { return metrics(eu)[`weir_aggregator_calls_total{result="answered"}`] > 0 })
	proc.Eventually(t, 0, "the aggregator refuses a call for eu by us", func() bool {
		return metrics(aggregator)["weir_acquire_rejected_total"] > 0 && metrics(us)[`weir_aggregator_calls_total{result="answered"}`] == 0
	})
}
