package topology

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Mode is the kind of Redis deployment. The zero value is auto.
type Mode uint8

// The modes.
const (
	auto     Mode = iota // several addresses, or one that answers CLUSTER SLOTS: Cluster; else Single
	Single               // one server
	Cluster              // a Redis Cluster; every address is a seed, a configuration endpoint among them
	Sentinel             // the master that sentinels name; the addresses are those of the sentinels
)

var modes = []string{"auto", "single", "cluster", "sentinel"}

func (m Mode) String() string { return modes[min(int(m), len(modes)-1)] }

// ParseMode reads the name that String writes.
func ParseMode(s string) (Mode, error) {
	if i := slices.Index(modes, s); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("redis mode %q: write %s", s, strings.Join(modes, ", "))
}

// DefaultTimeout is that of a [Config].
const DefaultTimeout = 100 * time.Millisecond

// Config is where Redis is, and how it is reached.
type Config struct {
	// Addrs are host:port, the port a number, of the server, of seeds of the
	// cluster, or of the sentinels; at least one. They are resolved again for each
	// connection.
	Addrs []string
	Mode  Mode
	// SentinelMaster is the name of the master at the sentinels. It is required with
	// Sentinel, and illegal otherwise.
	SentinelMaster string

	// Username is the ACL user; empty: the default user.
	Username string
	// Password is called for each new connection, so that a password can change while
	// connections are up. Nil: no password.
	Password func() (string, error)
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername string
	SentinelPassword func() (string, error)
	// TLS is called for each new connection, sentinels included, so that certificates can
	// change while connections are up; nil: plain TCP. ServerName has to be set where nodes are
	// announced by address.
	TLS func() *tls.Config

	// Timeout bounds connecting and, apart from that, each exchange with a node;
	// 0 means 100 ms. A caller waits until its own deadline, which may be
	// earlier; the breaker of a node that exceeds the timeout opens.
	Timeout time.Duration
	// Log gets a line for each node that comes or goes. Nil: no log.
	Log *slog.Logger
	// Metrics gets the metrics; nil: they go nowhere.
	Metrics *telemetry.Registry
	// Dial replaces the network; nil: TCP, or TLS.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// complete fills in defaults, and rejects what is out of range.
func (c Config) complete() (Config, error) {
	switch {
	case len(c.Addrs) == 0:
		return c, fmt.Errorf("redis: no address: name at least one as host:port")
	case c.Mode > Sentinel:
		return c, fmt.Errorf("redis: mode %d: use auto, single, cluster or sentinel", c.Mode)
	case c.Mode == Single && len(c.Addrs) > 1:
		return c, fmt.Errorf("redis: %d addresses for a single server: name one, or use mode cluster or sentinel", len(c.Addrs))
	case c.Mode == Sentinel && c.SentinelMaster == "":
		return c, fmt.Errorf("redis: mode sentinel without the master's name: set the name that the sentinels use for it")
	case c.Mode != Sentinel && c.SentinelMaster != "":
		return c, fmt.Errorf("redis: master name %q in mode %s: only sentinels have master names; use mode sentinel", c.SentinelMaster, c.Mode)
	case c.Timeout < 0 || c.Timeout > time.Minute:
		return c, fmt.Errorf("redis: timeout %v: at most 1m, 0 for %v", c.Timeout, DefaultTimeout)
	}
	for _, addr := range c.Addrs {
		_, _, err := net.SplitHostPort(addr)
		if _, _, ok := splitAddress(addr); !ok || err != nil {
			return c, fmt.Errorf("redis: address %q: write host:port, the port as a number and an IPv6 address in brackets", addr)
		}
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Log, c.Metrics = cmp.Or(c.Log, slog.New(slog.DiscardHandler)), cmp.Or(c.Metrics, telemetry.NewRegistry(""))
	return c, nil
}

// options returns the options of a client for one server that needs so many connections at
// once. The client never sends a command twice, and sends no command that an ACL is likely to
// forbid.
func (c *Config) options(addr string, connections int) *redis.Options {
	dial := c.Dial
	if dial == nil {
		dial = (&certs.Dialer{Secure: c.TLS, Timeout: c.Timeout}).DialContext
	}
	return &redis.Options{
		Addr:   addr,
		Dialer: dial,
		// RESP2: Redis pushes nothing here, and checking for pushes costs CPU.
		Protocol:                   2,
		CredentialsProviderContext: credentials(c.Username, c.Password),

		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           c.Timeout,
		ReadTimeout:           c.Timeout,
		WriteTimeout:          c.Timeout,
		PoolTimeout:           c.Timeout,
		ContextTimeoutEnabled: true,

		// After PoolSize errors in a row a pool dials once per second only. A node gets a
		// new client before that happens.
		PoolSize:         connections + holder.FailuresToOpen + 1,
		MaxActiveConns:   connections,
		PipelinePoolSize: -1, // no second pool

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// credentials returns the function that supplies user and current password. Nil if
// there is neither.
func credentials(user string, password func() (string, error)) func(context.Context) (string, string, error) {
	if user == "" && password == nil {
		return nil
	}
	return func(context.Context) (string, string, error) {
		if password == nil {
			return user, "", nil
		}
		p, err := password()
		if err != nil {
			return "", "", fmt.Errorf("password of redis user %q: %w", user, err)
		}
		return user, p, nil
	}
}
