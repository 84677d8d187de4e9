package install

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// program is one of the two that run on Kubernetes: its manifest, and what runs its pods.
type program struct{ name, manifest, kind string }

var (
	regional = program{"weir-regional", regionManifest, "Deployment"}
	global   = program{"weir-global", globalManifest, "StatefulSet"}
)

// built is where the program itself is.
func (p program) built(t *testing.T) string { return proc.Built(t, "bin/"+p.name, "build") }

// resource returns the one of a kind.
func (p program) resource(t *testing.T, kind string) node {
	t.Helper()
	all := documents(t, p.manifest)
	i := slices.IndexFunc(all, func(d node) bool { return d["kind"] == kind })
	if i < 0 {
		t.Fatalf("%s has no %s", p.manifest, kind)
	}
	return all[i]
}

// args are those of the container.
func (p program) args(t *testing.T) (all []string) {
	t.Helper()
	for _, arg := range at(t, p.resource(t, p.kind), "spec", "template", "spec", "containers", "0", "args").([]any) {
		all = append(all, arg.(string))
	}
	return all
}

// Each program is started with flags that it has, with files that it is given, and behind
// what selects its pods.
func TestPrograms(t *testing.T) {
	for _, p := range []program{regional, global} {
		t.Run(p.name, func(t *testing.T) {
			workload := p.resource(t, p.kind)
			pod := at(t, workload, "spec", "template", "spec").(node)
			container := at(t, pod, "containers", "0").(node)
			help, err := exec.CommandContext(t.Context(), p.built(t), "--help").Output()
			if err != nil {
				t.Fatal(err)
			}
			mounted := func(path string) bool {
				return slices.ContainsFunc(container["volumeMounts"].([]any), func(m any) bool {
					return strings.HasPrefix(path, at(t, m, "mountPath").(string)+"/")
				})
			}
			for _, arg := range p.args(t) {
				flag, value, _ := strings.Cut(arg, "=")
				if !strings.Contains(string(help), " "+flag+"=") && !strings.Contains(string(help), "--[no-]"+flag[2:]+" ") {
					t.Errorf("%s has no flag %s", p.name, flag)
				}
				if strings.HasPrefix(value, "/") && !mounted(value) {
					t.Errorf("%s: nothing is mounted there", arg)
				}
			}
			volumes := pod["volumes"].([]any)
			if claims, ok := at(t, workload, "spec", "volumeClaimTemplates").([]any); ok {
				for _, c := range claims {
					volumes = append(volumes, at(t, c, "metadata"))
				}
			}
			for _, m := range container["volumeMounts"].([]any) {
				named(t, volumes, at(t, m, "name").(string))
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
			p.isScraped(t)
			for name, want := range map[string]string{"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
				if probe := probeOf(t, container, name); probe.path != want || probe.failures < 3 {
					t.Errorf("%s: %+v, want %s, and three failures or more", name, probe, want)
				}
			}
		})
	}
}

// isScraped expects one ServiceMonitor for the service, with the label job that dashboards
// and alerts use.
func (p program) isScraped(t *testing.T) {
	t.Helper()
	service := p.resource(t, "Service")
	found := 0
	for _, monitor := range documents(t, monitoringManifest) {
		if monitor["kind"] != "ServiceMonitor" || fmt.Sprint(at(t, monitor, "spec", "selector", "matchLabels")) != fmt.Sprint(at(t, service, "metadata", "labels")) {
			continue
		}
		found++
		endpoint := at(t, monitor, "spec", "endpoints", "0").(node)
		named(t, at(t, service, "spec", "ports"), endpoint["port"].(string))
		if job := at(t, endpoint, "relabelings", "0"); fmt.Sprint(job) != fmt.Sprint(node{"targetLabel": "job", "replacement": p.name}) {
			t.Errorf("the label job: %v", job)
		}
	}
	if found != 1 {
		t.Errorf("%d ServiceMonitors for %s, want 1", found, p.name)
	}
}

// The rules are valid, and the aggregator has those of the region.
func TestRules(t *testing.T) {
	rules := regional.resource(t, "ConfigMap")
	if _, err := rulefile.Parse("rules.yaml", []byte(at(t, rules, "data", "rules.yaml").(string))); err != nil {
		t.Error(err)
	}
	for _, p := range []program{regional, global} {
		volume, _ := named(t, at(t, p.resource(t, p.kind), "spec", "template", "spec", "volumes"), "rules")
		if got, want := at(t, volume, "configMap", "name"), at(t, rules, "metadata", "name"); got != want {
			t.Errorf("%s has the rules %v, want %v", p.name, got, want)
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
	state, _ := named(t, mounts, at(t, spec, "volumeClaimTemplates", "0", "metadata", "name").(string))
	if !slices.Contains(global.args(t), fmt.Sprintf("--state=%s/state", state["mountPath"])) {
		t.Errorf("the state file is not on the volume at %v: %q", state["mountPath"], global.args(t))
	}
}

// uncommented are the arguments of the manifest that begin so and are to be switched on.
func (p program) uncommented(t *testing.T, prefix string) (args []string) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join(proc.Root(t), p.manifest))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +# - (`+prefix+`\S*)$`).FindAllStringSubmatch(string(manifest), -1) {
		args = append(args, m[1])
	}
	return args
}

// mounted makes what the manifests mount below /etc/weir: rules, a certificate with these names, and secrets of keys.
func mounted(t *testing.T, a *pki.Authority, etc string, names ...string) {
	t.Helper()
	cert, key, err := a.Issue(names[0], names...)
	if err != nil {
		t.Fatal(err)
	}
	text := at(t, regional.resource(t, "ConfigMap"), "data", "rules.yaml").(string)
	for file, content := range map[string]string{"rules/rules.yaml": text, "tls/ca.crt": string(a.PEM), "tls/tls.crt": string(cert), "tls/tls.key": string(key)} {
		path := filepath.Join(etc, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		proc.WriteFile(t, path, content)
	}
	for _, p := range []program{regional, global} {
		volume, _ := named(t, at(t, p.resource(t, p.kind), "spec", "template", "spec", "volumes"), "keys")
		path := filepath.Join(etc, p.name, "key-secrets")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		proc.WriteFile(t, path, "1 00112233445566778899aabbccddeeff\n")
		if err := os.Chmod(path, os.FileMode(at(t, volume, "secret", "defaultMode").(int))); err != nil || at(t, volume, "secret", "optional") != true {
			t.Errorf("%s: the volume of key-secrets is %v, %v; want an optional one", p.name, volume, err)
		}
	}
}

// With the arguments of the manifests, and those of the region that wait for an aggregator, the
// region calls the aggregator, and each proves by its certificate who it is. A region with
// another name is refused. Both read the secrets of keys, if they are to.
func TestRegionCallsAggregator(t *testing.T) {
	more := regional.uncommented(t, "--global")
	if len(more) != 6 {
		t.Fatalf("%s has %q to uncomment, want six arguments", regionManifest, more)
	}
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := proc.LogDir(t)
	files := func(name string, names ...string) string {
		etc := filepath.Join(dir, name)
		mounted(t, a, etc, names...)
		return etc
	}
	quota := proc.FreeAddr(t)
	begin := func(p program, etc, listen string, args []string) (admin string) {
		admin = proc.FreeAddr(t)
		here := strings.NewReplacer("/etc/weir/keys", filepath.Join(etc, p.name), "0.0.0.0:8080", listen, "0.0.0.0:8090", admin, "weir-global.weir.svc:8080", quota,
			"/etc/weir", etc, "/var/lib/weir", etc)
		argv := []string{p.built(t)}
		for _, arg := range append(args, p.uncommented(t, "--key-secrets")...) {
			if !strings.HasPrefix(arg, "--redis") { // there is none here
				argv = append(argv, here.Replace(arg))
			}
		}
		proc.Start(t, dir, filepath.Base(etc), argv...).AwaitReady("http://" + admin + "/readyz")
		return admin
	}
	aggregator := begin(global, files("global", "weir-global"), quota, global.args(t))
	eu := begin(regional, files("eu", "weir-regional", "weir://region/eu"), proc.FreeAddr(t), append(regional.args(t), more...))
	us := begin(regional, files("us", "weir-regional", "weir://region/us"), proc.FreeAddr(t), append(regional.args(t), more...))
	metrics := func(admin string) measure.Metrics {
		m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, program := range []string{aggregator, eu} {
		if ok := metrics(program)["weir_key_secrets_config_ok"]; ok != 1 {
			t.Errorf("%s has secrets of keys: %v, want 1", program, ok)
		}
	}
	proc.Eventually(t, 0, "the region eu calls the aggregator", func() bool { return metrics(eu)[`weir_remote_calls_total{result="answered"}`] > 0 })
	proc.Eventually(t, 0, "the aggregator refuses a call for eu by us", func() bool {
		return metrics(aggregator)["weir_acquire_rejected_total"] > 0 && metrics(us)[`weir_remote_calls_total{result="answered"}`] == 0
	})
}
