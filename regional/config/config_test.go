package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/daemon"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/settings"
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
aggregator: 127.0.0.1:4,127.0.0.1:5
drain_wait: 2s
max_memory: 64MiB
`)
	t.Setenv("WEIR_CONFIG", path)
	t.Setenv("WEIR_MAX_HOLDERS", "20")
	t.Setenv("WEIR_MAX_STREAMS", "30")
	t.Setenv("WEIR_LOG_FORMAT", "json")
	c := fatal.Get(load("--max-streams", "300", "--lease-cache", "off"))(t)
	if c.MaxKeys != 1 || c.MaxHolders != 20 || c.MaxStreams != 300 || c.LeaseCache != "off" ||
		c.DrainWait != 2*time.Second || c.LogFormat != "json" || c.MaxMemory != 64<<20 || c.LogLevel != "info" {
		t.Errorf("%+v", c)
	}
}

// A field with several values takes a YAML list, too; others do not.
func TestListInTheFile(t *testing.T) {
	c, err := Load([]string{"--config", file(t, "region: eu\nrules: x\naggregator: [127.0.0.1:4, 127.0.0.1:5]\n")}, new(strings.Builder))
	if err != nil || len(c.Aggregator) != 2 || c.Aggregator[1] != "127.0.0.1:5" {
		t.Fatalf("%v", err)
	}
	for _, wrong := range []string{"rules: [x]\n", "aggregator: [[a:1]]\n", "aggregator: ['a:1,b:2']\n"} {
		if _, err := Load([]string{"--config", file(t, "region: eu\n"+wrong)}, new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "region.yaml:2: ") {
			t.Errorf("%s: %v", wrong, err)
		}
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
ratelimit_quota: true, ratelimit_metrics: true, descriptors: file, rls_listen: ":3", rls_tls_cert: e,
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

// Each mistake is named with where it is and what may be written.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		file string
		want []string
	}{
		"unknown field":      {file: "max_key: 3\n", want: []string{"region.yaml:1: max_key: is not a field", "max_keys"}},
		"config in file":     {file: "config: x\n", want: []string{"config: is not a field"}},
		"wrong type":         {file: "\nmax_keys: many\n", want: []string{"region.yaml:2: max_keys:", "many"}},
		"two mistakes":       {file: "max_keys: x\nreplicas: y\n", want: []string{":1: max_keys", ":2: replicas"}},
		"twice":              {file: "lease_cache: on\nlease_cache: off\n", want: []string{":2: lease_cache: is given twice"}},
		"a list":             {file: "listen: [a, b]\n", want: []string{"listen: must be a single value"}},
		"nothing":            {file: "listen:\n", want: []string{"listen: must be a single value"}},
		"not fields":         {file: "- a\n", want: []string{"must be fields with values"}},
		"not YAML":           {file: "a: b: c\n", want: []string{"region.yaml"}},
		"size":               {file: "max_memory: 1 TB\n", want: []string{"max_memory", "512MiB"}},
		"range in file":      {file: "max_keys: 0\n", want: []string{"max_keys: 0 must be 1 to 1000000000"}},
		"address":            {args: []string{"--listen", "8080"}, want: []string{"listen", "host:port"}},
		"admin address":      {args: []string{"--admin-listen", "localhost:"}, want: []string{"admin_listen"}},
		"replicas":           {args: []string{"--replicas", "0"}, want: []string{"replicas: 0 must be 1"}},
		"memory":             {args: []string{"--max-memory", "32MiB"}, want: []string{"max_memory: 32MiB must be 64MiB to 1048576GiB"}},
		"holders":            {args: []string{"--max-holders", "-1"}, want: []string{"--max-holders"}},
		"streams":            {args: []string{"--max-streams", "0"}, want: []string{"max_streams"}},
		"header timeout":     {args: []string{"--header-timeout", "1ms"}, want: []string{"header_timeout: 1ms must be 100ms to 1m0s"}},
		"idle timeout":       {args: []string{"--idle-timeout", "2h"}, want: []string{"idle_timeout"}},
		"drain wait":         {args: []string{"--drain-wait", "1h"}, want: []string{"drain_wait"}},
		"drain timeout":      {args: []string{"--drain-timeout", "1h"}, want: []string{"drain_timeout"}},
		"log format":         {args: []string{"--log-format", "xml"}, want: []string{"log_format", `"json" "text"`}},
		"log level":          {args: []string{"--log-level", "loud"}, want: []string{"log_level"}},
		"rules":              {args: []string{"--rules", ""}, want: []string{"rules: is missing"}},
		"lease_cache":        {args: []string{"--lease-cache", "maybe"}, want: []string{"lease_cache", `"auto" "on" "off"`}},
		"aggregator address": {args: []string{"--region", "eu", "--aggregator", "a:1,b"}, want: []string{`aggregator: "b" must be host:port`}},
		"aggregator tls":     {args: []string{"--aggregator", "a:1", "--region", "eu", "--aggregator-tls-ca", "x"}, want: []string{"aggregator_tls: is false"}},
		"aggregator plain":   {args: []string{"--aggregator", "10.0.0.7:4", "--region", "eu"}, want: []string{`aggregator: calls of "10.0.0.7:4"`, "--aggregator-tls-cert", "--aggregator-plain"}},
		"aggregator key":     {args: []string{"--aggregator", "a:1", "--region", "eu", "--aggregator-tls", "--aggregator-tls-key", "x"}, want: []string{"aggregator_tls_cert: goes together"}},
		"tls key":            {args: []string{"--tls-cert", "x"}, want: []string{"tls_cert: goes together"}},
		"tls clients":        {args: []string{"--tls-client-ca", "x"}, want: []string{"tls_client_ca: needs tls_cert"}},
		"tls names":          {args: []string{"--tls-client-san", "x"}, want: []string{"tls_client_san: needs tls_client_ca"}},
		"tls anybody":        {args: []string{"--tls-cert", "x", "--tls-key", "x", "--tls-client-ca", "x"}, want: []string{"tls_client_ca: needs region or tls_client_san", "--region eu"}},
		"tls region":         {args: []string{"--tls-client-san", "weir://pop/{region}"}, want: []string{`tls_client_san: "weir://pop/{region}" has {region}, but PoPs state no region`}},
		"no region":          {args: []string{"--aggregator", "a:1"}, want: []string{"region: is missing"}},
		"long region":        {args: []string{"--region", strings.Repeat("r", 65)}, want: []string{" is no name of a region; give one of 1 to 64 letters, digits"}},
		"path as region":     {args: []string{"--region", "eu/1"}, want: []string{`region: "eu/1" is no name of a region`}},
		"consul address":     {args: []string{"--region", "eu", "--consul", "a"}, want: []string{`consul: "a" must be host:port`}},
		"consul primary":     {args: []string{"--consul-primary", "dc1"}, want: []string{"consul: is missing, but consul_* is set"}},
		"consul tls":         {args: []string{"--region", "eu", "--consul", "a:1", "--consul-tls-ca", "x"}, want: []string{"consul_tls: is false"}},
		"consul key":         {args: []string{"--region", "eu", "--consul", "a:1", "--consul-tls", "--consul-tls-key", "x"}, want: []string{"consul_tls_cert: goes together"}},
		"consul region":      {args: []string{"--consul", "a:1"}, want: []string{"region: is missing; with consul"}},
		"rules in consul":    {args: []string{"--rules", "consul:"}, want: []string{"consul: is missing; rules: consul: needs its agent"}},
		"rules behind":       {args: []string{"--rules", "consul:dc1"}, want: []string{`rules: "consul:dc1" has something behind consul:`, "--consul-primary"}},
		"rules copy":         {args: []string{"--rules-copy", "x"}, want: []string{"rules_copy: is for rules in Consul"}},
		"no rules copy":      {args: []string{"--rules-copy", ""}, want: []string{"rules_copy: is empty"}},
		"advertise":          {args: []string{"--region", "eu", "--consul", "a:1", "--advertise", "b:c"}, want: []string{`advertise: "b:c" must be host:port with a number`}},
		"advertise alone":    {args: []string{"--advertise", "b:1"}, want: []string{"consul: is missing"}},
		"redis address":      {args: []string{"--redis", "a:1,b"}, want: []string{`redis: "b" must be host:port`}},
		"redis mode":         {args: []string{"--redis", "a:1", "--redis-mode", "x"}, want: []string{`redis_mode: "x"`}},
		"redis single":       {args: []string{"--redis", "a:1,b:1", "--redis-mode", "single"}, want: []string{"redis_mode: single is for one address"}},
		"redis sentinel":     {args: []string{"--redis", "a:1", "--redis-mode", "sentinel"}, want: []string{"redis_sentinel_master"}},
		"redis watchers":     {args: []string{"--redis", "a:1", "--redis-sentinel-username", "x"}, want: []string{"redis_sentinel_username", "sentinel only"}},
		"redis nowhere":      {args: []string{"--redis-password-file", "x"}, want: []string{"redis: is missing"}},
		"redis tls":          {args: []string{"--redis", "a:1", "--redis-tls-ca", "x"}, want: []string{"redis_tls: is false"}},
		"redis key":          {args: []string{"--redis", "a:1", "--redis-tls", "--redis-tls-key", "x"}, want: []string{"redis_tls_cert: goes together"}},
		"redis timeout":      {args: []string{"--redis", "a:1", "--redis-timeout", "1m"}, want: []string{"redis_timeout: 1m0s must be"}},
		"redis lanes":        {args: []string{"--redis", "a:1", "--redis-lanes", "0"}, want: []string{"redis_lanes"}},
		"redis queue":        {args: []string{"--redis", "a:1", "--redis-queue", "0"}, want: []string{"redis_queue"}},
		"rls listen":         {args: []string{"--rls-listen", "x"}, want: []string{"rls_listen"}},
		"rls client ca":      {args: []string{"--rls-tls-client-ca", "x"}, want: []string{"rls_tls_client_ca: needs"}},
		"rls client san":     {args: []string{"--rls-tls-client-san", "x"}, want: []string{"rls_tls_client_san: needs rls_tls_client_ca"}},
		"rls key":            {args: []string{"--rls-tls-key", "x"}, want: []string{"rls_tls_cert: goes together"}},
		"rls age":            {args: []string{"--rls-max-connection-age", "1ms"}, want: []string{"rls_max_connection_age"}},
		"rls budget":         {args: []string{"--rls-budget", "0"}, want: []string{"rls_budget: 0s must be 1ms"}},
		"consistency":        {args: []string{"--ratelimit-consistency", "x"}, want: []string{"ratelimit_consistency"}},
		"on failure":         {args: []string{"--ratelimit-on-failure", "x"}, want: []string{"ratelimit_on_failure"}},
		"descriptors":        {args: []string{"--rules", "", "--ratelimit-config", "x", "--descriptors", "y"}, want: []string{"descriptors: needs rules"}},
		"unknown flag":       {args: []string{"--nosuch"}, want: []string{"--nosuch"}},
		"file is missing":    {args: []string{"--config", "nosuch.yaml"}, want: []string{"nosuch.yaml"}},
	} {
		args := c.args
		if c.file != "" {
			args = append(args, "--config", file(t, c.file))
		}
		_, err := load(args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q in it", name, err, want)
			}
		}
	}
	t.Setenv("WEIR_MAX_KEYS", "lots")
	if _, err := load(); err == nil || !strings.Contains(err.Error(), "WEIR_MAX_KEYS") {
		t.Errorf("a mistake in the environment: %v", err)
	}
}

func TestHelp(t *testing.T) {
	var out strings.Builder
	if _, err := Load([]string{"--help"}, &out); !errors.Is(err, settings.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"--rules", "--admin-listen", "WEIR_MAX_KEYS", "127.0.0.1:8080"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("help does not mention %s:\n%s", want, &out)
		}
	}
}

// A variable that a newer release has keeps nothing from starting.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("WEIR_OF_A_NEWER_RELEASE", "5")
	if _, err := load("--region", "eu"); err != nil {
		t.Error(err)
	}
}
