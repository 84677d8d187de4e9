package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Redis has the settings of the connections to Redis. They must be unset, or have no
// effect, where [Config.Redis] is empty.
type Redis struct {
	// Mode is what the addresses are: cluster, sentinel, single, or auto: a cluster
	// if there are several addresses or if the server is in cluster mode, else a single
	// server.
	Mode string `default:"auto" help:"auto, single, cluster or sentinel."`

	// SentinelMaster is the name of the master that the sentinels watch. Required
	// for sentinel, and only there.
	SentinelMaster string `help:"Name of the master that the sentinels watch." placeholder:"NAME"`

	// Username is the ACL user; empty: the default user.
	Username string `help:"ACL user."`

	// PasswordFile has the password; line ends after it are ignored. It is read for every
	// new connection, so that a password is changed by changing the file. Empty: no
	// password.
	PasswordFile string `help:"File with the password, read for every new connection." placeholder:"FILE"`

	// SentinelUsername and SentinelPasswordFile are for the sentinels, which have users of
	// their own. Only for mode sentinel; empty: the sentinels need none.
	SentinelUsername     string `help:"ACL user of the sentinels."`
	SentinelPasswordFile string `help:"File with the password of the sentinels." placeholder:"FILE"`

	ClientTLS `embed:"" set:"calls=connections to Redis"`

	// Timeout bounds connecting, and waiting for a reply, each; 1ms to 10s. After a
	// timeout a server gets no calls for 100 ms. Callers may give up earlier.
	Timeout time.Duration `default:"100ms" help:"Longest wait for Redis to connect, and to reply."`

	// Lanes is how many pipelines may be in flight to one server at once, each on a
	// connection of its own; 1 to 64. Wants that arrive in between wait and are sent in the
	// next pipeline.
	Lanes int `default:"2" help:"Pipelines in flight per server."`

	// Queue bounds the wants that wait for one server, 1 to 1,000,000; the default
	// is some 40 ms of work for a Redis core. More are answered unavailable.
	Queue int `default:"4096" help:"Most wants that wait for a server."`
}

func (r *Redis) check(addresses []string) error {
	var errs []error
	for _, a := range addresses {
		errs = append(errs, settings.Address("redis", a))
	}
	return errors.Join(append(errs,
		settings.Reject(r.Mode == "single" && len(addresses) > 1,
			"redis_mode: single is for one address, redis has %d; give one, or cluster or sentinel", len(addresses)),
		settings.Reject((r.Mode == "sentinel") != (r.SentinelMaster != ""),
			"redis_sentinel_master: is needed for redis_mode: sentinel, and only there"),
		settings.Reject(r.Mode != "sentinel" && r.SentinelUsername+r.SentinelPasswordFile != "",
			"redis_sentinel_username, redis_sentinel_password_file: are for redis_mode: sentinel only"),
		settings.Reject(len(addresses) == 0 && (r.Mode != "auto" || r.PasswordFile != "" || r.TLS),
			"redis: is missing, but redis_* is set; give the addresses of the servers, such as --redis 127.0.0.1:6379"),
		r.ClientTLS.check("redis"),
		settings.OneOf("redis_mode", r.Mode, "auto", "single", "cluster", "sentinel"),
		settings.Between("redis_timeout", r.Timeout, time.Millisecond, 10*time.Second),
		settings.Between("redis_lanes", r.Lanes, 1, 64),
		settings.Between("redis_queue", r.Queue, 1, 1_000_000),
	)...)
}

// newRedis makes the store in Redis.
func newRedis(cfg *Config, metrics *telemetry.Registry, tracer *telemetry.Tracer, log *slog.Logger) (*redisstore.Store, error) {
	o := &cfg.RedisOf
	mode, err := topology.ParseMode(o.Mode)
	if err != nil {
		return nil, err
	}
	set, err := o.load("redis", metrics, log)
	if err != nil {
		return nil, err
	}
	c := topology.Config{
		Addrs:            cfg.Redis,
		Mode:             mode,
		SentinelMaster:   o.SentinelMaster,
		Username:         o.Username,
		SentinelUsername: o.SentinelUsername,
		TLS:              set.Client(o.TLSName),
		Timeout:          o.Timeout,
		Log:              log,
		Metrics:          metrics,
	}
	if c.Password, err = password("redis_password_file", o.PasswordFile); err != nil {
		return nil, err
	}
	if c.SentinelPassword, err = password("redis_sentinel_password_file", o.SentinelPasswordFile); err != nil {
		return nil, err
	}
	return redisstore.New(redisstore.Config{Redis: c, Lanes: o.Lanes, Queue: o.Queue, Tracer: tracer})
}

// password returns a function that reads a file with a password, after a first reading to
// check it; nil without a file.
func password(field, path string) (func() (string, error), error) {
	if path == "" {
		return nil, nil
	}
	read := func() (string, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
	_, err := read()
	return read, err
}

// awaitRedis rejects readiness until Redis has answered once. After that a failure
// of Redis is handled by each rule's on_failure, which only a replica in service can apply.
func (t *Tier) awaitRedis(s *redisstore.Store) func(context.Context) error {
	const patience = 2 * time.Second
	reject := standing(t.Ready)
	reject("redis has not answered yet")
	return func(ctx context.Context) error {
		for last := ""; ; {
			attempt, cancel := context.WithTimeout(ctx, patience)
			err := s.Ready(attempt)
			cancel()
			if err == nil || ctx.Err() != nil {
				reject("")
				return nil
			}
			if reason := err.Error(); reason != last {
				t.Log.Error("not ready", "reason", reason)
				reject(reason)
				last = reason
			}
		}
	}
}
