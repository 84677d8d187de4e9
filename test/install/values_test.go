package install

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Values that are unknown, wrong, or against each other are refused with what is wrong or what to change, and
// nothing is rendered.
func TestBadValues(t *testing.T) {
	for _, c := range []struct{ set, message string }{
		{"nope=1", "at '': additional properties 'nope' not allowed"},
		{"region.nmae=eu", "at '/region': additional properties 'nmae' not allowed"},
		{"redis.tls.cert=a", "at '/redis/tls': additional properties 'cert' not allowed"},
		{"redis.tls=null", "at '/redis': missing property 'tls'"},
		{"region.name=e u", "at '/region/name': 'e u' does not match pattern"},
		{"region.replicas=0", "at '/region/replicas': minimum: got 0, want 1"},
		{"region.replicas=three", "at '/region/replicas': got string, want integer"},
		{"consul.enabled=yes", "at '/consul/enabled': got string, want boolean"},
		{"region.resources.limits.memory=512MB", "at '/region/resources/limits/memory': '512MB' does not match pattern"},
		{"region.resources.limits.memory=512m", "at '/region/resources/limits/memory': '512m' does not match pattern"},
		{"region.resources.requests.cpu=1Gi", "at '/region/resources/requests/cpu': '1Gi' does not match pattern"},
		{"valkey.cpu=-1", "at '/valkey/cpu': minimum: got -1, want 0"},
		{"valkey.maxMemory=9223372036854775807", "at '/valkey/maxMemory': maximum: got "},
		{"region.replicas=3000000000", "at '/region/replicas': maximum: got "},
		{"region.args={-v}", "at '/region/args/0': '-v' does not match pattern"},
		{"store=memory", "at '/store': value must be one of 'redis', 'valkey'"},
		{"image.prefix=registry.example/weir:1", `image.prefix is "registry.example/weir:1"`},
		{"redis.addresses={redis}", `redis.addresses has "redis": write HOST:PORT`},
		{"redis.mode=ring", "at '/redis/mode': value must be one of 'auto', 'single', 'cluster', 'sentinel'"},
		{"rules.source=file", "at '/rules/source': value must be one of 'text', 'configMap', 'consul'"},
		{"monitoring.popNamespaces={Istio}", "at '/monitoring/popNamespaces/0': 'Istio' does not match pattern"},
		{"rules.text=", "at '/rules/text': minLength: got 0, want 1"},
		{"image.pullPolicy=always", "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"},
		{"spread.zones=never", "at '/spread/zones': value must be one of 'ScheduleAnyway', 'DoNotSchedule'"},
		{"consul.address=http://consul", "at '/consul/address': 'http://consul' does not match pattern"},
		{"networkPolicy.regionCIDRs={10.0.0.1}", `networkPolicy.regionCIDRs has "10.0.0.1": write addresses with the length of their prefix`},
		{"certManager.duration=30m", "at '/certManager/duration': '30m' does not match pattern"},
		{"valkey.replicas=9", "at '/valkey/replicas': maximum: got 9, want 2"},

		{"image.prefix=", "image.prefix is empty: set it to what the names of the images in your registry begin with"},
		{"rules.text=rules: [", "rules.text is not YAML with rules: error converting YAML"},
		{"rules.text=600/1m", "rules.text is not YAML with rules: error unmarshaling JSON"},
		{"global.addresses={a:1}", "global is a word of Helm: write region.global"},
		{"region.enabled=false", "there is nothing to install: set region.enabled or aggregator.enabled to true"},
		{"rules.source=consul", "rules.source is consul: set consul.enabled to true"},
		{"rules.source=configMap", "rules.source: configMap and rules.configMap, the name of one, need each other"},
		{"rules.configMap=mine", "rules.source: configMap and rules.configMap, the name of one, need each other"},
		{"redis.addresses=", "at '/redis/addresses': got string, want array"},
		{"redis.addresses=[]", "store is redis: set redis.addresses to the HOST:PORT of your Redis, or store to valkey"},
		{"redis.mode=sentinel", "redis.mode: sentinel and redis.sentinelMaster need each other"},
		{"aggregator.redis.addresses={a:1},aggregator.redis.sentinelMaster=m", "aggregator.redis.mode: sentinel and aggregator.redis.sentinelMaster need each other"},
		{"redis.secret=,redis.tls.enabled=true", "redis.tls reads files of a Secret: set redis.secret"},
		{"redis.tls.name=redis", "redis.tls has settings, and is off: set redis.tls.enabled to true"},
		{"store=valkey,redis.tls.enabled=true", "redis.tls is for store: redis; the Valkey of the chart has no TLS"},
		{"store=valkey,networkPolicy.enabled=false", "store is valkey, whose nodes talk to each other without TLS: set networkPolicy.enabled to true"},
		{"store=valkey,redis.secret=", "store is valkey: set redis.secret to the Secret that has its password"},
		{"aggregator.enabled=true,aggregator.replicas=2", "aggregator.replicas is 2: several with counters in memory would each grant the whole limit"},
		{"consul.enabled=true,consul.tls.enabled=true", "consul.tls.enabled is true: set consul.secrets.region"},
		{"consul.tls.name=consul", "consul.tls has settings, and is off: set consul.tls.enabled to true"},
		{"admin.local=false,admin.tokensSecret=a", "admin.tokensSecret is set, and the admin API is off"},
		{"certManager.popNamespace=istio-system", "certManager.popNamespace is set, and nobody issues its certificate: set certManager.issuer.name"},
		{"certManager.issuer.name=ca,certManager.issuer.kind=Issuer,certManager.popNamespace=istio-system", "set certManager.issuer.kind to ClusterIssuer"},
		{"autoscaling.enabled=true,autoscaling.cpu=0", "autoscaling.enabled is true, and nothing says by what"},
		{"autoscaling.enabled=true,autoscaling.maxReplicas=2", "autoscaling.minReplicas is 3, and maxReplicas 2"},
		{"region.enabled=false,aggregator.enabled=true,autoscaling.enabled=true", "autoscaling is of the region"},
		{"region.args={--region=us}", "region.args has --region, which the chart sets: change the value for it instead"},
		{"aggregator.args={--no-admin-local}", "aggregator.args has --no-admin-local, which the chart sets"},
		{"region.args={--drain-wait=60s}", "region.args has --drain-wait, with which probes and the grace period of the pod do not go"},
		{"aggregator.args={--drain-wait=60s}", "aggregator.args has --drain-wait, which the chart sets"},
		{"region.args={--admin-tls-cert=a}", "region.args has --admin-tls-cert, with which probes"},
	} {
		flag := "--set"
		if strings.HasSuffix(c.set, "[]") {
			flag = "--set-json"
		}
		out, err := helm(t, "template weir", append(set(), flag, c.set)...)
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v, want %q", c.set, err, c.message)
		}
		if out != "" {
			t.Errorf("%s: rendered all the same:\n%s", c.set, out)
		}
	}
}

// Rules stay as they are written, indented too, and a namespace of digits is a string.
func TestTextOfValues(t *testing.T) {
	for _, text := range []string{"  rules: []\n  x: 1\n", "  # all\nrules: []\n"} {
		path := proc.WriteFile(t, filepath.Join(t.TempDir(), "rules.yaml"), text)
		for _, d := range rendered(t, append(set(), "--namespace", "123", "--set-file", "rules.text="+path)...) {
			if namespace := at(t, d, "metadata", "namespace"); namespace != "123" {
				t.Errorf("%v %v has the namespace %#v", d["kind"], at(t, d, "metadata", "name"), namespace)
			}
			if d["kind"] == "ConfigMap" && at(t, d, "data", "rules.yaml") != text {
				t.Errorf("%q became %q", text, at(t, d, "data", "rules.yaml"))
			}
		}
	}
}

// The chart alone is refused with all that has to be set, in one message.
func TestNoValues(t *testing.T) {
	_, err := helm(t, "template weir")
	for _, message := range []string{"image.prefix is empty", "store is redis: set redis.addresses to the HOST:PORT of your Redis"} {
		if err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%v, want %q", err, message)
		}
	}
}

// Fewer replicas of Valkey than the cluster has are refused, and as many are not: the chart asks Kubernetes for the
// StatefulSet that is there. What stands for Kubernetes has no more, so that Helm stops after that in any case.
func TestFewerReplicasOfValkey(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			fmt.Fprint(w, `{"major": "1", "minor": "34", "gitVersion": "v1.34.1"}`)
		case "/apis":
			fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}]}`)
		case "/apis/apps/v1":
			fmt.Fprint(w, `{"kind": "APIResourceList", "groupVersion": "apps/v1", "resources": [{"name": "statefulsets", "namespaced": true, "kind": "StatefulSet", "verbs": ["get"]}]}`)
		case "/apis/apps/v1/namespaces/weir/statefulsets/weir-valkey":
			fmt.Fprint(w, `{"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": "weir-valkey"}, "spec": {"replicas": 6}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer api.Close()
	const message = "valkey.replicas makes 3 nodes of 6, and a master may be among those that go: set it to 1"
	for replicas, refused := range map[int]bool{0: true, 1: false, 2: false} {
		args := append(set("store=valkey", fmt.Sprint("valkey.replicas=", replicas)), "--dry-run=server", "--kube-apiserver", api.URL)
		_, err := helm(t, "template weir", args...)
		if got := err != nil && strings.Contains(err.Error(), message); got != refused {
			t.Errorf("%d replicas: %v, refused %v, want %v", replicas, err, got, refused)
		}
	}
}

// While the autoscaler is on, it alone says how many replicas there are, whatever the values have: an upgrade changes none.
func TestReplicasUnderAutoscaling(t *testing.T) {
	for _, on := range []bool{false, true} {
		all := rendered(t, set("region.replicas=8", "autoscaling.cpu=70", fmt.Sprint("autoscaling.enabled=", on))...)
		scales := slices.ContainsFunc(all, func(d node) bool { return d["kind"] == "HorizontalPodAutoscaler" })
		replicas, stated := at(t, resource(t, all, "Deployment", "weir-regional"), "spec").(node)["replicas"]
		if scales != on || stated == on || !on && replicas != 8 {
			t.Errorf("autoscaling %v: there is an autoscaler: %v, replicas: %v", on, scales, replicas)
		}
	}
}

// The rule of the values gives prometheus-adapter the decisions per second of each pod: those of PoPs' calls and those of
// Envoy's rate limit service.
func TestAdapterRule(t *testing.T) {
	values, err := os.ReadFile(filepath.Join(proc.Root(t), "deploy", "chart", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(string(values), "  # weir_decisions_per_second. prometheus-adapter has it by this rule:\n")
	comment, _, found := strings.Cut(comment, "  decisionsPerSecond: ")
	var rules []struct {
		SeriesQuery  string `yaml:"seriesQuery"`
		MetricsQuery string `yaml:"metricsQuery"`
		Name         struct{ As string }
	}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll("\n"+comment, "\n  #", "\n")), &rules); err != nil || !found || len(rules) != 1 {
		t.Fatalf("%v: %q", err, comment)
	}
	rule := rules[0]
	hpa := resource(t, rendered(t, installs["all"]...), "HorizontalPodAutoscaler", "weir-regional")
	if got := at(t, hpa, "spec", "metrics", "1", "pods", "metric", "name"); got != rule.Name.As {
		t.Errorf("the autoscaler asks for %v, and the rule makes %s", got, rule.Name.As)
	}
	query := strings.NewReplacer("<<.GroupBy>>", "pod", "<<.LabelMatchers>>", `namespace="weir",pod=~"a|b"`).Replace(rule.MetricsQuery)
	dir := t.TempDir()
	test := proc.WriteFile(t, filepath.Join(dir, "test.yaml"), fmt.Sprintf(`
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series:
      - { series: 'weir_grants_total{namespace="weir",pod="a",rule="r",override="",status="ok"}', values: '0+150x20' }
      - { series: 'weir_grants_total{namespace="weir",pod="a",rule="r",override="",status="denied"}', values: '0+30x20' }
      - { series: 'weir_decisions_total{namespace="weir",pod="a",rule="r",verdict="admitted"}', values: '0+45x20' }
      - { series: 'weir_grants_total{namespace="weir",pod="b",rule="r",override="",status="ok"}', values: '0+15x20' }
      - { series: 'weir_grants_total{namespace="other",pod="b",rule="r",override="",status="ok"}', values: '0+1500x20' }
      - { series: 'weir_wants_total{namespace="weir",pod="a",rule="r",override=""}', values: '0+1500x20' }
    promql_expr_test:
      - expr: %q
        eval_time: 4m
        exp_samples: [{ labels: '{pod="a"}', value: 15 }, { labels: '{pod="b"}', value: 1 }]
      - expr: %q
        eval_time: 4m
        exp_samples: [{ labels: '{}', value: 4 }]
`, query, "count("+strings.ReplaceAll(rule.SeriesQuery, `,pod!=""`, `,pod!="",namespace="weir"`)+")"))
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", test).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
