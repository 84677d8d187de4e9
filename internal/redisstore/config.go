package redisstore

import (
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

	"github.com/weirlimit/weir/internal/limit"
)

// Mode is what Redis is made of. The zero value is Auto.
type Mode uint8

// The modes.
const (
	Auto     Mode = iota // several addresses, or one that answers CLUSTER SLOTS: Cluster; else Single
	Single               // one server
	Cluster              // a Redis Cluster; every address is a seed, a configuration endpoint among them
	Sentinel             // the master that sentinels name; the addresses are theirs
)

var modes = []string{"auto", "single", "cluster", "sentinel"}

func (m Mode) String() string { return modes[min(int(m), len(modes)-1)] }

// ParseMode reads what String writes.
func ParseMode(s string) (Mode, error) {
	if i := slices.Index(modes, s); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("redis mode %q: write %s", s, strings.Join(modes, ", "))
}

// Defaults of a [Config].
const (
	DefaultTimeout = 100 * time.Millisecond
	DefaultLanes   = 2
	DefaultQueue   = 4096
)

// Config says where Redis is and how it is used.
type Config struct {
	// Addrs are host:port, the port a number, of the server, of seeds of the
	// cluster, or of the sentinels; at least one. They are resolved anew for each
	// connection.
	Addrs []string
	Mode  Mode
	// SentinelMaster is the name that the sentinels know the master by. Only for
	// Sentinel, and needed there.
	SentinelMaster string

	// Username is the ACL user; empty: the default user.
	Username string
	// Password is asked for at each new connection, so that a password can change
	// while connections are up. Nil: none.
	Password func() (string, error)
	// SentinelUsername and SentinelPassword are for the sentinels themselves.
	SentinelUsername string
	SentinelPassword func() (string, error)
	// TLS is for all connections, sentinels included; nil: plain TCP. ServerName
	// has to be set where nodes are announced by address.
	TLS *tls.Config

	// Timeout bounds connecting and, apart from that, each exchange with a node;
	// 0 means 100 ms. A caller waits as long as its own deadline says, which may
	// be less; a node that has not answered for so long is left alone.
	Timeout time.Duration
	// Lanes is how many pipelines may be under way to a node at once, and so how
	// many connections it sees (and two more now and then); 0 means 2. More lanes
	// make shorter pipelines, which cost both sides more.
	Lanes int
	// Queue is how many asks may wait for a node; 0 means 4096, some 40 ms of a
	// Redis core. What finds no room is Unavailable at once.
	Queue int

	// Now is the clock of the counters, for tests. Nil means each server's own,
	// which is the only one that replicas share.
	Now func() limit.Micros
	// Log is told of nodes that come and go. Nil: nobody is.
	Log *slog.Logger

	// dial replaces the network, for tests.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// complete fills in defaults, and refuses what is out of range.
func (c Config) complete() (Config, error) {
	switch {
	case len(c.Addrs) == 0:
		return c, fmt.Errorf("redis: no address: name at least one as host:port")
	case c.Mode > Sentinel:
		return c, fmt.Errorf("redis: mode %d: use Auto, Single, Cluster or Sentinel", c.Mode)
	case c.Mode == Single && len(c.Addrs) > 1:
		return c, fmt.Errorf("redis: %d addresses for a single server: name one, or use mode cluster or sentinel", len(c.Addrs))
	case c.Mode == Sentinel && c.SentinelMaster == "":
		return c, fmt.Errorf("redis: mode sentinel without the master's name: set the one that the sentinels monitor it by")
	case c.Mode != Sentinel && c.SentinelMaster != "":
		return c, fmt.Errorf("redis: master name %q in mode %s: only sentinels know names; use mode sentinel", c.SentinelMaster, c.Mode)
	case c.Timeout < 0 || c.Timeout > time.Minute:
		return c, fmt.Errorf("redis: timeout %v: at most 1m, 0 for %v", c.Timeout, DefaultTimeout)
	case c.Lanes < 0 || c.Lanes > 64:
		return c, fmt.Errorf("redis: %d lanes: 1 to 64, 0 for %d", c.Lanes, DefaultLanes)
	case c.Queue < 0 || c.Queue > 1<<20:
		return c, fmt.Errorf("redis: queue of %d: 1 to %d, 0 for %d", c.Queue, 1<<20, DefaultQueue)
	}
	for _, addr := range c.Addrs {
		_, _, err := net.SplitHostPort(addr)
		if _, _, ok := splitAddress(addr); !ok || err != nil {
			return c, fmt.Errorf("redis: address %q: write host:port, the port as a number and an IPv6 address in brackets", addr)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Lanes == 0 {
		c.Lanes = DefaultLanes
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// options are those of a client for one server. It never sends anything twice, has
// a connection for each user that it may have at once, and asks the server for
// nothing that an ACL is likely to forbid.
func (c *Config) options(addr string) *redis.Options {
	conns := c.Lanes + 2 // the heartbeat, and the loading of scripts
	return &redis.Options{
		Addr:   addr,
		Dialer: c.dial,
		// RESP2: there is nothing to be pushed here, and looking for it costs.
		Protocol:                   2,
		CredentialsProviderContext: credentials(c.Username, c.Password),
		TLSConfig:                  c.TLS,

		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           c.Timeout,
		ReadTimeout:           c.Timeout,
		WriteTimeout:          c.Timeout,
		PoolTimeout:           c.Timeout,
		ContextTimeoutEnabled: true,

		// After PoolSize errors in a row a pool only tries once per second. A node
		// gets a new client before it comes to that.
		PoolSize:         conns + manyErrors + 1,
		MaxActiveConns:   conns,
		PipelinePoolSize: -1, // the other pool is enough

		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// credentials asks for the password that is current. Nil if there is neither a
// user nor a password.
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
