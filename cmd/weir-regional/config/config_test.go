package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "region.yaml")
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(args ...string) (*Config, error) {
	return Load(append([]string{"--rules", "rules.yaml"}, args...), new(strings.Builder))
}

func TestDefaults(t *testing.T) {
	c := fatal.Get(load())(t)
	want := &Config{
		Config: daemon.Config{
			Rules: "rules.yaml", Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:8090", Replicas: 1,
			MaxKeys: 1_000_000, MaxHolders: 100_000, MaxHoldersPerAddress: 128, MaxStreams: 1000,
			HeaderTimeout: 5 * time.Second, IdleTimeout: 10 * time.Minute, DrainWait: 6 * time.Second, DrainTimeout: 10 * time.Second,
			LogFormat: "text", LogLevel: "info", LeaseCache: "auto", RulesCopy: "auto", State: "auto", StateInterval: 5 * time.Second,
			RedisOf: daemon.Redis{Mode: "auto", Timeout: 100 * time.Millisecond, Lanes: 2, Queue: 4096},
		},
		Ratelimit: envoyrls.Limits{Consistency: "leased", OnFailure: "allow"},
		RLS:       envoyrls.Endpoint{Listen: "127.0.0.1:8081", MaxConnectionAge: 30 * time.Minute, Budget: 100 * time.Millisecond},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

// Flags are stronger than the environment, that than the file, that than defaults.
func TestPrecedence(t *testing.T) {
	path := file(t, `
# a comment
max_keys: 1
max_holders: 2
max_streams: 3
lease_cache: on
region: eu
aggregator: [127.0.0.1:4, 127.0.0.1:5]
drain_wait: 2s
max_memory: 64MiB
`)
	t.Setenv("WEIR_CONFIG", path)
	t.Setenv("WEIR_MAX_HOLDERS", "20")
	t.Setenv("WEIR_MAX_STREAMS", "30")
	t.Setenv("WEIR_LOG_FORMAT", "json")
	c := fatal.Get(load("--max-streams", "300", "--lease-cache", "off"))(t)
	if c.MaxKeys != 1 || c.MaxHolders != 20 || c.MaxStreams != 300 || c.LeaseCache != "off" ||
		c.DrainWait != 2*time.Second || c.LogFormat != "json" || c.MaxMemory != 64<<20 || c.LogLevel != "info" || len(c.Aggregator) != 2 || c.Aggregator[1] != "127.0.0.1:5" {
		t.Errorf("%+v", c)
	}
}

// Every field can be set in the file, by the name that the documentation gives it.
func TestEveryFieldInTheFile(t *testing.T) {
	c := fatal.Get(Load([]string{"--config", file(t, `{
rules: "consul:", rules_copy: s, key_secrets: s, listen: ":1", admin_listen: ":2", replicas: 2, state: "off",
state_interval: 1m, lease_cache: on, region: eu, aggregator: "127.0.0.1:4,127.0.0.1:5", consul: 127.0.0.1:6,
consul_primary: dc1, consul_token_file: t, consul_tls: true, consul_tls_ca: u, consul_tls_name: v,
consul_tls_cert: w, consul_tls_key: x, advertise: 127.0.0.1:7, admin_tokens: s, admin_tls_cert: t,
admin_tls_key: u, admin_tls_client_ca: v, admin_local: true, aggregator_plain: true, aggregator_tls: true,
aggregator_tls_ca: j, aggregator_tls_name: k, aggregator_tls_cert: l, aggregator_tls_key: m, tls_cert: n, tls_key: o,
tls_client_ca: p, tls_client_san: "q,r", redis: "127.0.0.1:1,127.0.0.1:2", redis_mode: sentinel,
redis_sentinel_master: main, redis_username: weir, redis_sentinel_username: watch, redis_sentinel_password_file: q,
redis_password_file: p, redis_tls: true, redis_tls_ca: a, redis_tls_cert: b, redis_tls_key: c, redis_tls_name: d,
redis_timeout: 20ms, redis_lanes: 3, redis_queue: 7, ratelimit_config: dir, ratelimit_consistency: exact,
ratelimit_on_failure: local, ratelimit_charge_rejected: true, ratelimit_merge_domains: true, ratelimit_shadow: true,
ratelimit_quota: true, ratelimit_metrics: true, ratelimit_bindings: file, rls_listen: ":3", rls_tls_cert: e,
rls_tls_key: f, rls_tls_client_ca: g, rls_tls_client_san: "h,i", rls_max_connection_age: 1h, rls_budget: 1s,
rls_headers: true, rls_metadata: true, max_keys: 3, max_memory: 4GiB, max_holders: 5, max_holders_per_address: 32,
max_streams: 6, slot_seed: secret, header_timeout: 7s, idle_timeout: 8s, drain_wait: 9s, drain_timeout: 10s,
log_format: json, log_level: debug, otlp: http://collector:4317, pprof: true
}
`)}, new(strings.Builder)))(t)
	defaults, _ := load()
	changed(t, "", reflect.ValueOf(*c), reflect.ValueOf(*defaults))
}

// changed names the fields that are as they were.
func changed(t *testing.T, prefix string, v, before reflect.Value) {
	for i := range v.NumField() {
		name := prefix + v.Type().Field(i).Name
		switch {
		case v.Field(i).Kind() == reflect.Struct:
			changed(t, name+".", v.Field(i), before.Field(i))
		case name != "Config.DrainTimeout" && reflect.DeepEqual(v.Field(i).Interface(), before.Field(i).Interface()):
			t.Errorf("%s was not taken from the file", name)
		}
	}
}

// Each mistake is named with where it is and what may be written, and all of them at once.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		file, args string
		want       []string
	}{
		{"max_key: 3\n", "", []string{"region.yaml:1: max_key: is not a field", "max_keys"}},
		{"config: x\n", "", []string{"config: is not a field"}},
		{"\nmax_keys: many\nreplicas: y\n", "", []string{"region.yaml:2: max_keys:", "many", ":3: replicas"}},
		{"lease_cache: on\nlease_cache: off\n", "", []string{`line 2: mapping key "lease_cache" already defined`}},
		{"listen: [a, b]\nadmin_listen:\n", "", []string{":1: listen: must be a single value", ":2: admin_listen: must be a single value"}},
		{"aggregator: [[a:1]]\n", "", []string{"region.yaml:1: aggregator: must be a list of single values"}},
		{"aggregator: ['a:1,b:2']\n", "", []string{"region.yaml:1: aggregator: must be a list of single values"}},
		{"- a\n", "", []string{"must be fields with values"}},
		{"a: b: c\n", "", []string{"region.yaml"}},
		{"max_memory: 1 TB\n", "", []string{"max_memory", "512MiB"}},
		{"max_keys: 0\n", "", []string{"max_keys: 0 must be 1 to 1000000000"}},
		{"", "--nosuch", []string{"--nosuch"}},
		{"", "--max-holders -1", []string{"--max-holders"}},
		{"", "--config nosuch.yaml", []string{"nosuch.yaml"}},
		{"", "--rules=", []string{"rules: is missing"}},
		{"", "--listen 8080 --admin-listen localhost: --replicas 0 --max-memory 32MiB --max-streams 0 --max-holders 0 --max-holders-per-address 0", []string{
			`listen: "8080" must be host:port`, `admin_listen: "localhost:"`, "replicas: 0 must be 1", "max_memory: 32MiB must be 64MiB to 1048576GiB", "max_streams: 0", "max_holders: 0", "max_holders_per_address: 0"}},
		{"", "--header-timeout 1ms --idle-timeout 2h --drain-wait 1h --drain-timeout 1h --log-format xml --log-level loud --lease-cache maybe", []string{
			"header_timeout: 1ms must be 100ms to 1m0s", "idle_timeout", "drain_wait", "drain_timeout", `log_format: "xml" must be one of ["json" "text"]`, "log_level", `"auto" "on" "off"`}},
		{"", "--state= --otlp collector", []string{"state: is empty", `otlp: "collector" must be a URL with a port`}},
		{"", "--state-interval 1ms", []string{"state_interval: 1ms must be"}},
		{"", "--aggregator a:1,b --aggregator-tls-ca x", []string{`aggregator: "b" must be host:port`, "aggregator_tls: is false", "region: is missing; the aggregator"}},
		{"", "--region eu --aggregator 10.0.0.7:4", []string{`aggregator: calls of "10.0.0.7:4"`, "--aggregator-tls-cert", "--aggregator-plain"}},
		{"", "--region eu --aggregator a:1 --aggregator-tls --aggregator-tls-key x", []string{"aggregator_tls_cert: goes together"}},
		{"", "--tls-cert x --tls-client-san x", []string{"tls_cert: goes together", "tls_client_san: needs tls_client_ca"}},
		{"", "--tls-client-ca x", []string{"tls_client_ca: needs tls_cert"}},
		{"", "--tls-cert x --tls-key x --tls-client-ca x", []string{"tls_client_ca: needs region or tls_client_san", "--region eu"}},
		{"", "--tls-client-san weir://pop/{region}", []string{`tls_client_san: "weir://pop/{region}" has {region}, but PoPs state no region`}},
		{"", "--region " + strings.Repeat("r", 65), []string{" is no name of a region; give one of 1 to 64 letters, digits"}},
		{"", "--region eu/1 --consul a", []string{`region: "eu/1" is no name of a region`, `consul: "a" must be host:port`}},
		{"", "--consul-primary dc1 --advertise b:1", []string{"consul: is missing, but consul_* is set", "consul: is missing; advertise"}},
		{"", "--consul a:1 --advertise b:c --consul-tls-ca x", []string{"region: is missing; with consul", `advertise: "b:c" must be host:port with a number`, "consul_tls: is false"}},
		{"", "--region eu --consul a:1 --consul-tls --consul-tls-key x", []string{"consul_tls_cert: goes together"}},
		{"", "--rules consul:", []string{"consul: is missing; rules: consul: needs its agent"}},
		{"", "--rules consul:dc1 --rules-copy x", []string{`rules: "consul:dc1" has text after consul:`, "--consul-primary", "rules_copy: is for rules in Consul"}},
		{"", "--rules-copy=", []string{"rules_copy: is empty"}},
		{"", "--redis a:1,b --redis-mode x --redis-sentinel-username x --redis-tls-ca x --redis-timeout 1m --redis-lanes 0 --redis-queue 0", []string{
			`redis: "b" must be host:port`, `redis_mode: "x"`, "redis_sentinel_username, redis_sentinel_password_file: are for redis_mode: sentinel only", "redis_tls: is false",
			"redis_timeout: 1m0s must be", "redis_lanes: 0", "redis_queue: 0"}},
		{"", "--redis a:1,b:1 --redis-mode single --state x", []string{"redis_mode: single is for one address", "state: \"x\" is for counters in memory"}},
		{"", "--redis a:1 --redis-mode sentinel --redis-tls --redis-tls-key x", []string{"redis_sentinel_master", "redis_tls_cert: goes together"}},
		{"", "--redis-password-file x", []string{"redis: is missing"}},
		{"", "--rls-listen x --rls-tls-client-ca x --rls-tls-key x --rls-max-connection-age 1ms --rls-budget 0 --ratelimit-consistency x --ratelimit-on-failure x", []string{
			"rls_listen", "rls_tls_client_ca: needs", "rls_tls_cert: goes together", "rls_max_connection_age", "rls_budget: 0s must be 1ms", "ratelimit_consistency", "ratelimit_on_failure"}},
		{"", "--rls-tls-client-san x", []string{"rls_tls_client_san: needs rls_tls_client_ca"}},
		{"", "--rules= --ratelimit-config x --ratelimit-bindings y", []string{"ratelimit_bindings: needs rules"}},
	} {
		args := strings.Fields(c.args)
		if c.file != "" {
			args = append(args, "--config", file(t, c.file))
		}
		_, err := load(args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q %s: %v; want %q in it", c.file, c.args, err, want)
			}
		}
	}
	t.Setenv("WEIR_MAX_KEYS", "lots")
	if _, err := load(); err == nil || !strings.Contains(err.Error(), "WEIR_MAX_KEYS") {
		t.Errorf("a mistake in the environment: %v", err)
	}
}
