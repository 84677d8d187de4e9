package config

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

func file(t *testing.T, text string) string {
	t.Helper()
	return proc.WriteFile(t, filepath.Join(t.TempDir(), "region.yaml"), text)
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

// TestMistakes: each mistake is named with where it is and what may be written, and all of them at once. A line with $ has the
// arguments, lines with | are the file.
func TestMistakes(t *testing.T) {
	const path = "testdata/mistakes.golden"
	got := ""
	for _, c := range strings.Split("\n"+string(golden.Content(t, path)), "\n$ weir-regional")[1:] {
		line, rest, _ := strings.Cut(c, "\n")
		args, text := strings.Fields(line), ""
		for l := range strings.Lines(rest) {
			if l, isText := strings.CutPrefix(l, "| "); isText {
				text += l
			}
		}
		got += "$ weir-regional" + line + "\n"
		if text != "" {
			args = append(args, "--config", file(t, text))
			got += "| " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n| ") + "\n"
		}
		if _, err := load(args...); err != nil {
			got += regexp.MustCompile(`\S*/region\.yaml`).ReplaceAllString(err.Error(), "region.yaml") + "\n"
		}
	}
	golden.Same(t, path, got)
	t.Setenv("WEIR_MAX_KEYS", "lots")
	if _, err := load(); err == nil || !strings.Contains(err.Error(), "WEIR_MAX_KEYS") {
		t.Errorf("a mistake in the environment: %v", err)
	}
}
