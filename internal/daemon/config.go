package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/settings"
)

// Config has the settings of every tier: each with its unit, default, range and
// consequence. A program embeds it beside its own settings. [Config.Check] checks it.
type Config struct {
	// File is the path of the configuration file. Empty: there is none. It can
	// be set by flag and environment only.
	File string `name:"config" help:"Configuration file: YAML, with the names of these flags and _ for -." placeholder:"FILE"`

	// Rules is the path of the rules file; empty: there are no rules. It is read again
	// when its content changes, and on SIGHUP. A file with a mistake is reported, and the
	// rules in force stay; at the start it is an error.
	//
	// consul: takes the rules that `weir rules apply` puts into Consul's key-value store instead, that
	// of ConsulBy.Primary. They are followed, and while Consul is unavailable those in force stay.
	// Without rules at the start this program is not ready until they come.
	//
	// store: keeps versions of the rules in a directory of this process, "rules.store" beside the state file, for one replica.
	Rules string `help:"Rules file, YAML, or a directory of them; consul: for those in Consul, or store: for those that this process keeps." placeholder:"PATH"`

	// KeySecrets is the file of the secrets under which rules with hash: true hash their keys: one or two
	// lines of a name and 32 hexadecimal digits, the one in force first. It is read again when its content
	// changes. All replicas, and with scope: global all regions and aggregators, need the same. A file that
	// everybody may read is rejected. Empty: rules with hash: true are rejected.
	KeySecrets string `help:"File of the secrets under which keys are hashed, the one in force first." placeholder:"FILE"`

	// RulesCopy is the file with a copy of the rules in force, for a start while Consul is
	// away. auto: "rules" in the directory that systemd names (STATE_DIRECTORY), else
	// .weir/rules in the working directory; off: no copy. Only with rules in Consul.
	RulesCopy string `default:"auto" help:"Copy of rules in Consul, for a start without it: auto, off or a path." placeholder:"FILE"`

	// Listen is the address of the QuotaService, as host:port: HTTP/2 and HTTP/1.1 on one
	// port, without TLS unless TLS.Cert is set. Unless TLS.ClientCA is set it has no
	// authentication: every client that reaches it can spend every limit, so it belongs on a
	// private network. GET /healthz there
	// answers 200, or 503 and the reasons while this replica is not ready.
	Listen string `default:"127.0.0.1:8080" help:"Address of the QuotaService, host:port."`

	TLS TLS `embed:"" prefix:"tls-"`

	// AdminListen is the address of /healthz, /readyz, /startedz, /metrics and the admin API, as
	// host:port. It is not for clients.
	AdminListen string `default:"127.0.0.1:8090" help:"Address of health, metrics and the admin API, host:port."`

	Admin admin.Settings `embed:"" prefix:"admin-"`

	// Consul is the agent of Consul with which this program registers, as host:port: the
	// one on the same machine. It registers as a service with the program's name, its region
	// as tag and meta, and a check that passes while it is ready. A region without Global
	// finds the aggregators there. while Consul is unavailable, everything goes on with what was
	// found last. Empty: no Consul.
	Consul   string `help:"Agent of Consul to register with, and to find aggregators: host:port." placeholder:"HOST:PORT"`
	ConsulBy Consul `embed:"" prefix:"consul-"`

	// Advertise is the address that Consul gives to callers, as host:port, where it differs
	// from Listen. Empty: that of Listen; without a host, or for every interface, that of
	// the agent's node. Only with Consul.
	Advertise string `help:"Address that Consul gives to callers, host:port; default: that of --listen." placeholder:"HOST:PORT"`

	// Replicas is the number of replicas of this region, 1 or more. With Redis they count
	// themselves, and on_failure: local divides a limit by this number only until then, or by
	// the number of those in Consul if that is larger.
	// Without Redis the counters are in this process's memory, which replicas do not
	// share: with 2 or more each would grant the whole limit, so the process is not ready.
	Replicas int `default:"1" help:"Replicas of this program; without Redis only 1 is ever ready."`

	// State is the file that keeps the counters in memory through a restart. They are
	// saved on SIGTERM and loaded before the next process is ready, so a restart loses
	// nothing. auto: "state" in the directory that systemd names (STATE_DIRECTORY), else
	// .weir/state in the working directory; off: no file. If the file is damaged, of a
	// newer release or not readable, this is logged and the counters begin as new. If another
	// process uses it, this one does not start. A path that is not a file, such as /dev/null, is logged and
	// not touched. With Redis this setting has no effect and must be auto or off.
	State string `default:"auto" help:"File that keeps the counters in memory through a restart: auto, off or a path." placeholder:"FILE"`

	// StateInterval is how often the counters are saved while running, 0 or 100ms to 1h: a
	// killed process loses what it granted since the last save. Saving takes at most a
	// twentieth of the time, so very many counters are saved less often. 0: only at the
	// end.
	StateInterval time.Duration `default:"5s" help:"How often the state file is written while running; 0: only at the end."`

	// LeaseCache puts a cache of leases in front of the store. It answers from denials and
	// leases in the cache, and asks the store for more in the background. auto: on with
	// Redis, where it keeps floods away and still denies denied keys when Redis fails; off
	// without Redis, because memory is as fast as the cache.
	LeaseCache string `default:"auto" help:"Lease cache in front of the store: auto, on or off."`

	// Redis has the addresses of the servers with the counters, as host:port with commas
	// between: masters of a cluster, sentinels, or one server. One address that leads to
	// any node of a cluster is enough. Empty: the counters are in this process's memory.
	Redis   []string `help:"Redis servers: host:port[,host:port...]. Empty: counters in memory." placeholder:"HOST:PORT"`
	RedisOf Redis    `embed:"" prefix:"redis-"`

	// MaxKeys bounds the keys of each table, 1 to 1,000,000,000: MaxMemory may be used up before. Only counters that
	// are as good as new are evicted; if there are none, requests with new keys follow
	// their rule's on_failure.
	MaxKeys int `default:"1000000" help:"Most keys in each table in memory."`

	// MaxMemory bounds the memory of the whole process, 64MiB or more. 0: 85 % of the limit of its cgroup, which a
	// container and a unit have, and 1GiB without one. Go's runtime gets it as its limit (GOMEMLIMIT, which may be set
	// instead of this, but not beside it). An eighth is for calls in flight, of which more are rejected. Four tenths of
	// what is left by them and the program are for the tables of keys, in equal parts: counters in memory, the lease
	// cache in front of Redis, the one in front of an aggregator, the shares of regions in an aggregator. Of them an
	// eighth is for workers of PoPs. A counter takes about 250 bytes, a key in a lease cache 600, one with the shares
	// of a region 300, and a key of more than 30 bytes its length more; a sliding log 16 bytes more for each charge in
	// its window, a concurrency limit 48 for each holder. When a table is full, the effect is that of MaxKeys.
	MaxMemory settings.Bytes `help:"Most memory of this process, such as 512MiB; default: 85% of the limit of its cgroup, else 1GiB." placeholder:"SIZE"`

	// MaxHolders bounds the workers of PoPs in memory, 1 to 10,000,000, 200 to 900 bytes
	// each: MaxMemory may bound them to fewer. A PoP has one per processor unless its Envoy is configured otherwise. Calls of
	// more PoPs are rejected while all the others called within the last 10 s. One PoP has
	// at most 512, and all PoPs of one address at most a quarter, or 512 if that is more.
	MaxHolders int `default:"100000" help:"Most workers of PoPs in memory."`

	// MaxHoldersPerAddress bounds the PoPs that call from one address within 10 s, 1 to
	// 10,000,000: with TLS those with one certificate at one address; a /64 of IPv6 counts as one
	// address. Calls of more are rejected, so that whoever makes up PoPs neither keeps yours out
	// nor makes their shares with on_failure: local small. A PoP that starts again counts twice for
	// 10 s. Raise it where more than half as many PoPs call through one gateway or proxy. For
	// weir-global it bounds replicas of regions.
	MaxHoldersPerAddress int `default:"128" help:"Most PoPs that call from one address."`

	// SlotSeed is mixed into the ids of requests that hold slots of a concurrency limit,
	// so that no client can choose two ids that collide. It must be the same on all
	// replicas. It is a secret: set it in the environment rather than on a command line.
	// Empty: ids are hashed without it.
	SlotSeed string `help:"Secret that is mixed into the ids of requests that hold slots."`

	// MaxStreams bounds the calls in flight on one HTTP/2 connection, 1 to 100,000.
	// A PoP has a few per worker and connection.
	MaxStreams int `default:"1000" help:"Most calls in flight per HTTP/2 connection."`

	// HeaderTimeout bounds how long a request's headers, and then its body, may
	// take to arrive, 100ms to 1m. Only broken and hostile clients reach it.
	HeaderTimeout time.Duration `default:"5s" help:"Longest time for a request to arrive."`

	// IdleTimeout closes connections without calls, 1s to 1h. It should be longer
	// than Envoy's own idle timeout, so that Envoy never sends into a connection
	// that is being closed.
	IdleTimeout time.Duration `default:"10m" help:"How long connections without calls are kept."`

	// DrainWait is how long calls are still answered after SIGTERM while /readyz and
	// /healthz already fail, 0 to 5m, so that callers can take this replica off their
	// lists. It should be longer than they need: one or two health checks of an Envoy
	// (1 s in envoy/pop.yaml), the refresh of a DNS name (5 s in an Envoy with
	// STRICT_DNS). With DrainTimeout it should be shorter than the time that the process
	// has to end (Kubernetes: 30 s). A second signal ends the process at once.
	DrainWait time.Duration `default:"6s" help:"How long to answer calls, not ready, after SIGTERM."`

	// DrainTimeout bounds how long calls in flight may take after that, 0 to 5m;
	// then connections are cut.
	DrainTimeout time.Duration `default:"10s" help:"How long calls in flight may take when stopping."`

	// LogFormat is json, one object per line, or text, key=value. The log is written to
	// standard error.
	LogFormat string `default:"text" help:"json or text."`

	// LogLevel is the lowest level that is logged: debug, info, warn or error.
	LogLevel string `default:"info" help:"debug, info, warn or error."`

	// OTLP is the collector of OpenTelemetry that gets spans and metrics by OTLP over gRPC, as
	// a URL: http:// is without TLS, https:// with it. Only requests are traced whose caller
	// has sampled them (traceparent). The standard variables OTEL_* have what is left to set.
	// Empty: OTEL_EXPORTER_OTLP_ENDPOINT; without that nothing is sent, and nothing is paid.
	OTLP string `name:"otlp" env:"WEIR_OTLP,OTEL_EXPORTER_OTLP_ENDPOINT" help:"Collector for spans and metrics by OTLP over gRPC: http://HOST:PORT." placeholder:"URL"`

	// Pprof serves Go's profiles under /debug/pprof/ of the admin address, to admins of the admin API. They can put load on
	// the process.
	Pprof bool `default:"false" negatable:"" help:"Serve profiles on the admin address."`
}

// Input is a file that a program reads, and the field that has its path.
type Input struct{ Field, Path string }

// Check names every field that is out of range, and the range. inputs are files that the
// state file must not replace, beside those of c.
func (c *Config) Check(inputs ...Input) error {
	return errors.Join(
		settings.Address("listen", c.Listen),
		settings.Address("admin_listen", c.AdminListen),
		c.Admin.Check(),
		c.checkConsul(),
		c.checkRules(),
		settings.Between("replicas", c.Replicas, 1, 10_000),
		settings.Between("max_keys", c.MaxKeys, 1, 1_000_000_000),
		settings.Between("max_memory", cmp.Or(c.MaxMemory, settings.Bytes(membudget.Least)), settings.Bytes(membudget.Least), settings.Bytes(membudget.Most)),
		settings.Between("max_holders", c.MaxHolders, 1, 10_000_000),
		settings.Between("max_holders_per_address", c.MaxHoldersPerAddress, 1, 10_000_000),
		settings.Between("max_streams", c.MaxStreams, 1, 100_000),
		settings.Between("header_timeout", c.HeaderTimeout, 100*time.Millisecond, time.Minute),
		settings.Between("idle_timeout", c.IdleTimeout, time.Second, time.Hour),
		settings.Between("drain_wait", c.DrainWait, 0, 5*time.Minute),
		settings.Between("drain_timeout", c.DrainTimeout, 0, 5*time.Minute),
		settings.OneOf("lease_cache", c.LeaseCache, "auto", "on", "off"),
		c.checkState(append(inputs, Input{"rules", c.Rules}, Input{"config", c.File}, Input{"admin_tokens", c.Admin.Tokens})),
		c.RedisOf.check(c.Redis),
		c.TLS.check(),
		c.checkOTLP(),
		settings.OneOf("log_format", c.LogFormat, "json", "text"),
		settings.OneOf("log_level", c.LogLevel, "debug", "info", "warn", "error"),
	)
}

func (c *Config) checkOTLP() error {
	u, err := url.Parse(c.OTLP)
	wrong := err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == ""
	return settings.Reject(c.OTLP != "" && wrong, "otlp: %q must be a URL with a port, such as http://127.0.0.1:4317", c.OTLP)
}

func (c *Config) checkState(inputs []Input) error {
	for _, input := range inputs {
		named := c.State != "auto" && c.State != "off" && input.Path != ""
		if named && filepath.Clean(c.State) == filepath.Clean(input.Path) {
			return fmt.Errorf("state: %s is %s, which the counters would replace; name a file of its own", c.State, input.Field)
		}
	}
	switch {
	case c.State == "":
		return errors.New("state: is empty; write auto, off or the path of a file")
	case len(c.Redis) > 0 && c.State != "auto" && c.State != "off":
		return fmt.Errorf("state: %q is for counters in memory, and these are in Redis; leave it out, or redis", c.State)
	case c.StateInterval != 0:
		return settings.Between("state_interval", c.StateInterval, 100*time.Millisecond, time.Hour)
	}
	return nil
}

// stateFile is the path of the state file; empty: there is none.
func (c *Config) stateFile() string {
	if len(c.Redis) > 0 {
		return ""
	}
	return kept(c.State, "state")
}

// kept is the path of a file that outlives the process, by its setting; empty: there is none.
func kept(setting, name string) string {
	switch setting {
	case "off":
		return ""
	case "auto":
		dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":") // systemd.exec(5): several have colons between
		return filepath.Join(cmp.Or(dir, ".weir"), name)
	}
	return setting
}
