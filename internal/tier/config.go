package tier

import (
	"time"

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
	Rules string `help:"Rules file: YAML. Required without --ratelimit-config." placeholder:"FILE"`

	// Listen is where PoPs find the QuotaService, as host:port: HTTP/2 without TLS
	// and HTTP/1.1 on one port. It has no authentication: whoever reaches it can
	// spend every limit, so it belongs on a private network. GET /healthz there says
	// whether to call this replica: 200, or 503 and why while it is not ready.
	Listen string `default:"127.0.0.1:8080" help:"Address of the QuotaService, host:port."`

	// AdminListen is where /healthz, /readyz, /metrics and /rules are, as
	// host:port. Not for clients.
	AdminListen string `default:"127.0.0.1:8090" help:"Address of health, metrics and rules, host:port."`

	// Replicas is how many replicas of this region there are, 1 or more. With Redis
	// they find out by themselves, and this is only what on_failure: local divides a
	// limit by until they have. Without it the counters are in this process's
	// memory, which replicas do not share: with 2 or more each would grant the whole
	// limit, so that readiness is refused.
	Replicas int `default:"1" help:"Replicas of this region; without Redis only 1 is ever ready."`

	// Learning says what a key is worth after a crash, of which the PoPs still show that
	// there was a life before. True: what a PoP remembers of the keys that it asks for is
	// believed, as far as less is left by it; nobody gains by what he remembers, and keys
	// that nobody remembers are as they were saved, or new. False: so are all. Either
	// admits at most one more limit in that period. A lease cache in front of counters in
	// memory (front: on) keeps what PoPs remember to itself. With Redis it has no meaning.
	Learning bool `default:"true" negatable:"" help:"After a crash believe what PoPs remember of spent keys."`

	// State is the file in which the counters in this process's memory outlive it. They
	// are saved when it is told to end, and loaded before the next one is ready, so that
	// a restart loses nothing. auto: "state" in the directory that systemd names
	// (STATE_DIRECTORY), else .weir/state in the working directory; off: nowhere. A
	// file that is damaged, of a newer release, not readable or in use by another
	// process is told in the log, and the counters begin as new. What is no file, such
	// as /dev/null, is told and left alone. With Redis it has no meaning and must be auto
	// or off.
	State string `default:"auto" help:"File that keeps the counters in memory through a restart: auto, off or a path." placeholder:"FILE"`

	// StateInterval is how often they are saved besides, 0 or 100ms to 1h: a process
	// that is killed loses what it granted since. Saving takes at most a twentieth of
	// the time: of very many counters it is done less often. 0: only at the end.
	StateInterval time.Duration `default:"5s" help:"How often the state file is written while running; 0: only at the end."`

	// Front puts a cache of leases in front of the store: it answers denials and
	// cuts leases by itself, and asks the store for more behind. auto: on with
	// Redis, where it keeps floods away from it and remembers what was denied when
	// Redis fails; off without, since memory is as near as the cache.
	Front string `default:"auto" help:"Lease cache in front of the store: auto, on or off."`

	// Redis is where the counters are, as host:port, several with commas between:
	// masters of a cluster, sentinels, or one server. Of a cluster one address that
	// leads to any of its nodes is enough. Empty: in this process's memory.
	Redis   []string `help:"Redis servers: host:port[,host:port...]. Empty: counters in memory." placeholder:"HOST:PORT"`
	RedisOf Redis    `embed:"" prefix:"redis-"`

	// MaxKeys bounds the counters in memory at once, 1 to 1,000,000,000. Only
	// counters that are as good as new are forgotten; where none is left, requests
	// with new keys follow their rule's on_failure.
	MaxKeys int `default:"1000000" help:"Most counters in memory."`

	// MaxMemory bounds the memory of these counters, 1MiB or more. A counter takes
	// about 210 bytes, and a key of more than 30 bytes its length more; a sliding
	// log 16 bytes more for each charge in its window, a concurrency limit 48 for
	// each holder. When it is used up, as MaxKeys.
	MaxMemory settings.Bytes `default:"512MiB" help:"Most memory of counters, such as 512MiB."`

	// MaxHolders bounds the workers of PoPs that are remembered, 1 to 10,000,000,
	// about 500 bytes each; a PoP has one per processor unless its Envoy was told
	// otherwise. Calls of more PoPs are refused while all the others called within the
	// last 10 s. One PoP has at most 512.
	MaxHolders int `default:"100000" help:"Most workers of PoPs that are remembered."`

	// SlotSeed is mixed into the ids by which clients name requests that hold slots of
	// a concurrency limit, so that nobody can choose two that collide. The same on
	// all replicas; a secret, so better in the environment than on a command line.
	// Empty: ids are hashed without it.
	SlotSeed string `help:"Secret that is mixed into the ids of requests that hold slots."`

	// MaxStreams bounds the calls in flight on one HTTP/2 connection, 1 to 100,000.
	// A PoP has a few per worker and connection.
	MaxStreams int `default:"1000" help:"Most calls in flight per HTTP/2 connection."`

	// HeaderTimeout bounds how long a request's headers, and then its body, may
	// take to arrive, 100ms to 1m. It only meets broken and hostile clients.
	HeaderTimeout time.Duration `default:"5s" help:"Longest that a request may take to arrive."`

	// IdleTimeout closes connections without calls, 1s to 1h. It should be longer
	// than Envoy's own idle timeout, so that Envoy never sends into a connection
	// that is being closed.
	IdleTimeout time.Duration `default:"10m" help:"How long connections without calls are kept."`

	// DrainWait is how long calls are still taken after SIGTERM while /readyz and
	// /healthz already say no, 0 to 5m: the time in which others take this replica off
	// their lists. It should be longer than callers take to notice: a health check or
	// two of an Envoy (1 s in envoy/pop.yaml), the refresh of a name (5 s in an Envoy
	// with STRICT_DNS). With DrainTimeout it should fit into what the process is given
	// to end (Kubernetes: 30 s). A second signal ends it.
	DrainWait time.Duration `default:"6s" help:"How long to serve on, not ready, after SIGTERM."`

	// DrainTimeout bounds how long calls in flight may take after that, 0 to 5m;
	// then connections are cut.
	DrainTimeout time.Duration `default:"10s" help:"How long calls in flight may take when stopping."`

	// LogFormat is json, one object a line, or text, key=value. The log goes to
	// standard error.
	LogFormat string `default:"text" help:"json or text."`

	// LogLevel is the least level that is logged: debug, info, warn or error.
	LogLevel string `default:"info" help:"debug, info, warn or error."`

	// Pprof serves Go's profiles under /debug/pprof/ of the admin address. Who
	// reaches them can make the process work.
	Pprof bool `default:"false" negatable:"" help:"Serve profiles on the admin address."`
}
