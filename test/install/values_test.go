package install

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/bootstrap"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Values that are unknown, wrong, or against each other are rejected, all in one message, with what is wrong or what to change,
// and nothing is rendered.
func TestBadValues(t *testing.T) {
	for what, c := range map[string]struct {
		sets     []string // beside those of default
		messages []string
	}{
		"the schema": {[]string{"nope=1", "region.nmae=eu", "redis.tls.cert=a", "region.name=e u", "region.replicas=0", "consul.enabled=yes",
			"region.resources.limits.memory=512MB", "region.resources.requests.cpu=1Gi", "valkey.cpu=-1", "region.args={-v}", "store=memory", "rules.text=",
			"consul.address=http://consul", "certManager.duration=30m", "valkey.replicas=9"}, []string{
			"at '': additional properties 'nope' not allowed", "at '/region': additional properties 'nmae' not allowed",
			"at '/redis/tls': additional properties 'cert' not allowed", "at '/region/name': 'e u' does not match pattern",
			"at '/region/replicas': minimum: got 0, want 1", "at '/consul/enabled': got string, want boolean",
			"at '/region/resources/limits/memory': '512MB' does not match pattern", "at '/region/resources/requests/cpu': '1Gi' does not match pattern",
			"at '/valkey/cpu': minimum: got -1, want 0", "at '/region/args/0': '-v' does not match pattern",
			"at '/store': value must be one of 'redis', 'valkey'", "at '/rules/text': minLength: got 0, want 1",
			"at '/consul/address': 'http://consul' does not match pattern", "at '/certManager/duration': '30m' does not match pattern",
			"at '/valkey/replicas': maximum: got 9, want 2"}},
		"the schema again": {[]string{"redis.tls=null", "region.replicas=3000000000", "region.resources.limits.memory=512m",
			"valkey.maxMemory=9223372036854775807", "redis.mode=ring", "rules.source=file", "monitoring.popNamespaces={Istio}", "image.pullPolicy=always",
			"spread.zones=never", "redis.addresses="}, []string{
			"at '/redis': missing property 'tls'", "at '/region/replicas': maximum: got ", "at '/region/resources/limits/memory': '512m' does not match pattern",
			"at '/valkey/maxMemory': maximum: got ", "at '/redis/mode': value must be one of 'auto', 'single', 'cluster', 'sentinel'",
			"at '/rules/source': value must be one of 'text', 'configMap', 'consul'", "at '/monitoring/popNamespaces/0': 'Istio' does not match pattern",
			"at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
			"at '/spread/zones': value must be one of 'ScheduleAnyway', 'DoNotSchedule'", "at '/redis/addresses': got string, want array"}},
		"a region": {[]string{"rules.source=consul", "rules.configMap=mine", "image.prefix=registry.example/weir:1",
			"redis.addresses={redis}", "redis.mode=sentinel", "redis.tls.name=redis", "networkPolicy.regionCIDRs={10.0.0.1}", "consul.tls.name=consul",
			"aggregator.redis.addresses={a:1},aggregator.redis.sentinelMaster=m", "admin.local=false,admin.tokensSecret=a", "certManager.popNamespace=istio-system",
			"autoscaling.enabled=true,autoscaling.cpu=0,autoscaling.maxReplicas=2", "region.args={--region=us,--drain-wait=60s,--admin-tls-cert=a}"}, []string{
			"rules.source is consul: set consul.enabled to true",
			"rules.source: configMap and rules.configMap, the name of one, need each other", `image.prefix is "registry.example/weir:1"`,
			`redis.addresses has "redis": write HOST:PORT`, "redis.mode: sentinel and redis.sentinelMaster need each other",
			"redis.tls has settings, and is off: set redis.tls.enabled to true", `networkPolicy.regionCIDRs has "10.0.0.1": write addresses with the length`,
			"consul.tls has settings, and is off: set consul.tls.enabled to true", "aggregator.redis.mode: sentinel and aggregator.redis.sentinelMaster need",
			"admin.tokensSecret is set, and the admin API is off", "certManager.popNamespace is set, and nobody issues its certificate: set certManager.issuer.name",
			"autoscaling.enabled is true, and nothing says by what", "autoscaling.minReplicas is 3, and maxReplicas 2",
			"region.args has --region, which the chart sets: change the value for it instead",
			"region.args has --drain-wait, with which probes and the grace period of the pod do not go", "region.args has --admin-tls-cert, with which probes"}},
		"a region and an aggregator": {[]string{"rules.text=rules: [", "redis.secret=,redis.tls.enabled=true", "aggregator.enabled=true,aggregator.replicas=2",
			"consul.enabled=true,consul.tls.enabled=true", "aggregator.args={--no-admin-local,--drain-wait=60s}", "certManager.issuer.name=ca,certManager.issuer.kind=Issuer,certManager.popNamespace=istio-system"}, []string{
			"rules.text is not YAML with rules: error converting YAML", "redis.tls reads files of a Secret: set redis.secret",
			"aggregator.replicas is 2: several with counters in memory would each grant the whole limit", "consul.tls.enabled is true: set consul.secrets.region",
			"aggregator.args has --no-admin-local, which the chart sets", "aggregator.args has --drain-wait, which the chart sets",
			"set certManager.issuer.kind to ClusterIssuer"}},
		"a Valkey": {[]string{"store=valkey,redis.tls.enabled=true,networkPolicy.enabled=false,redis.secret=", "rules.text=600/1m"}, []string{
			"redis.tls is for store: redis; the Valkey of the chart has no TLS", "store is valkey, whose nodes talk to each other without TLS: set networkPolicy.enabled to true",
			"store is valkey: set redis.secret to the Secret that has its password", "rules.text is not YAML with rules: error unmarshaling JSON"}},
		"nothing": {[]string{"region.enabled=false", "rules.source=configMap"}, []string{
			"there is nothing to install: set region.enabled or aggregator.enabled to true", "rules.source: configMap and rules.configMap, the name of one, need each other"}},
		"an aggregator alone": {[]string{"region.enabled=false,aggregator.enabled=true,autoscaling.enabled=true"}, []string{"autoscaling is of the region"}},
		"no values": {nil, []string{"image.prefix is empty: set it to what the names of the images in your registry begin with",
			"store is redis: set redis.addresses to the HOST:PORT of your Redis, or store to valkey"}},
	} {
		var args []string
		if c.sets != nil {
			args = set(c.sets...)
		}
		out, err := helm(t, "template weir", args...)
		for _, message := range c.messages {
			if err == nil || !strings.Contains(err.Error(), message) {
				t.Errorf("%s: %v, want %q", what, err, message)
			}
		}
		if out != "" {
			t.Errorf("%s: rendered all the same:\n%s", what, out)
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

// Fewer replicas of Valkey than the cluster has are rejected, and as many are not: the chart asks Kubernetes for the
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
	for replicas, rejected := range map[int]bool{0: true, 1: false, 2: false} {
		args := append(set("store=valkey", fmt.Sprint("valkey.replicas=", replicas)), "--dry-run=server", "--kube-apiserver", api.URL)
		_, err := helm(t, "template weir", args...)
		if got := err != nil && strings.Contains(err.Error(), message); got != rejected {
			t.Errorf("%d replicas: %v, rejected %v, want %v", replicas, err, got, rejected)
		}
	}
}

// The rule of the values gives prometheus-adapter the decisions per second of each pod: those of PoPs' calls and those of
// Envoy's rate limit service.
func TestAdapterRule(t *testing.T) {
	values := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), "deploy", "chart", "values.yaml")))(t)
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
	proc.Run(t, exec.CommandContext(t.Context(), "promtool", "test", "rules", test))
}

// What `weir admin bootstrap --kubernetes` prints are Secrets of Kubernetes, and all those that the chart and the pods of gateways name, with
// the files that they read.
func TestSecrets(t *testing.T) {
	dir := proc.NewDir(t, t.Name())
	s, _, err := bootstrap.Run(bootstrap.Options{Dir: filepath.Join(dir, "weir"), Regions: []string{"eu", "us"}, Home: "eu", Life: time.Hour}, time.Now())
	fatal.If(t, err)
	var out bytes.Buffer
	fatal.If(t, s.Kubernetes(&out, "eu", "istio-system"))
	schema, secrets := newCatalog(t, kubernetesVersions[0]).schema(t, "v1 Secret"), map[string]node{}
	for _, d := range decoded(t, "secrets", out.String()) {
		if err := schema.Validate(plain(t, d)); err != nil {
			t.Errorf("%v", err)
		}
		secrets[at(t, d, "metadata", "namespace").(string)+" "+at(t, d, "metadata", "name").(string)] = d["stringData"].(node)
	}
	for secret, files := range map[string]string{
		"istio-system weir-pop-tls": "ca.crt tls.crt tls.key", "weir weir-regional-tls": "ca.crt tls.crt tls.key",
		"weir weir-global-tls": "ca.crt tls.crt tls.key", "weir weir-redis": "password",
		"weir weir-key-secrets": "key-secrets",
	} {
		for _, name := range strings.Fields(files) {
			if text, ok := secrets[secret][name].(string); !ok || text == "" {
				t.Errorf("%s has no %s", secret, name)
			}
		}
	}
	pods := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), istioGateway)))(t)
	for _, text := range []string{render(t, set("aggregator.enabled=true", "keySecrets.secret=weir-key-secrets", "store=valkey")...), string(pods)} {
		for _, named := range strings.Split(text, "secretName: ")[1:] {
			name := strings.FieldsFunc(named, func(r rune) bool { return strings.ContainsRune(" ,}\"\n", r) })[0]
			if secrets["weir "+name] == nil && secrets["istio-system "+name] == nil {
				t.Errorf("the Secret %s is read, and not printed", name)
			}
		}
	}
	if err := s.Kubernetes(&out, "ap", "weir"); err == nil || !strings.Contains(err.Error(), "--kubernetes ap is not among the regions eu, us") {
		t.Errorf("of a region that is not there: %v", err)
	}
}
