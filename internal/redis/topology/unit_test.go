package topology

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func TestConfigIsChecked(t *testing.T) {
	good := Config{Addrs: []string{"localhost:1"}}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no address":       {func(c *Config) { c.Addrs = nil }, "host:port"},
		"no port":          {func(c *Config) { c.Addrs = []string{"localhost"} }, `"localhost"`},
		"mode":             {func(c *Config) { c.Mode = 9 }, "mode 9"},
		"named port":       {func(c *Config) { c.Addrs = []string{"localhost:redis"} }, "as a number"},
		"no brackets":      {func(c *Config) { c.Addrs = []string{"2001:db8::1:6379"} }, "in brackets"},
		"two for single":   {func(c *Config) { c.Mode = Single; c.Addrs = []string{"a:1", "b:1"} }, "name one"},
		"sentinel no name": {func(c *Config) { c.Mode = Sentinel }, "master's name"},
		"name no sentinel": {func(c *Config) { c.SentinelMaster = "m" }, `"m" in mode auto`},
		"timeout":          {func(c *Config) { c.Timeout = time.Hour }, "at most 1m"},
	} {
		bad := good
		c.change(&bad)
		if _, err := New(bad, Use{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want it to have %q", name, err, c.want)
		}
	}
	s, err := New(good, Use{})
	if err != nil || s.Config.Timeout != DefaultTimeout {
		t.Errorf("defaults: %+v, %v", s.Config, err)
	}
	for m := auto; m <= Sentinel; m++ {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("mode %v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("ring"); err == nil || !strings.Contains(err.Error(), "auto, single, cluster, sentinel") {
		t.Errorf("mode ring: %v", err)
	}
}

// Nothing that is sent may be sent again, and nothing is asked for that an ACL is likely to forbid.
func TestOptionsNeverRetry(t *testing.T) {
	c := fatal.Get(Config{Addrs: []string{"a:1"}, TLS: func() *tls.Config { return &tls.Config{ServerName: "redis"} }}.complete())(t)
	o := redis.NewClient(c.options("a:1", 4)).Options()
	if o.MaxRetries != 0 { // what go-redis makes of -1
		t.Errorf("%d retries", o.MaxRetries)
	}
	if o.MaxActiveConns != 4 || o.PoolSize <= o.MaxActiveConns {
		t.Errorf("a pool of %d, at most %d connections", o.PoolSize, o.MaxActiveConns)
	}
	if !o.DisableIdentity || o.MaintNotificationsConfig.Mode != "disabled" || o.Protocol != 2 {
		t.Errorf("a connection sends more than it has to: %+v", o)
	}
}

func TestFullAddress(t *testing.T) {
	for _, c := range []struct{ addr, origin, want string }{
		{"10.0.0.1:7000", "seed:6379", "10.0.0.1:7000"},
		{":7000", "seed:6379", "seed:7000"},
		{"?:7000", "seed:6379", "seed:7000"},
		{"10.0.0.1:0", "seed:6379", "10.0.0.1:6379"},
		{"127.0.0.1:7000", "seed:6379", "seed:7000"},
		{"127.0.0.1:7000", "localhost:6379", "127.0.0.1:7000"},
		{"127.0.0.1:7000", "127.0.0.2:6379", "127.0.0.1:7000"},
		{"[::1]:7000", "10.0.0.1:6379", "10.0.0.1:7000"},
		{"node-1.example:7000", "seed:6379", "node-1.example:7000"},
		{"2001:db8::1:6379", "seed:6379", "[2001:db8::1]:6379"}, // Redis writes no brackets in MOVED and ASK
		{"2001:db8::1:0", "[2001:db8::2]:6380", "[2001:db8::1]:6380"},
		{":7000", "[2001:db8::2]:6380", "[2001:db8::2]:7000"},
		{"fe80::1%eth0:6379", "seed:6379", "[fe80::1%eth0]:6379"},
		{"::ffff:10.0.0.1:6379", "seed:6379", "[::ffff:10.0.0.1]:6379"},
		{"::1:7000", "10.0.0.1:6379", "10.0.0.1:7000"},
		{"::1:7000", "[::1]:6379", "[::1]:7000"},
		{"[2001:db8::1]:6379", "seed:6379", "[2001:db8::1]:6379"},
		{"", "seed:6379", ""},
		{"nonsense", "seed:6379", ""},
		{"host:", "seed:6379", ""},
		{"host:port", "seed:6379", ""},
		{"host:65536", "seed:6379", ""},
		{"host:-1", "seed:6379", ""},
		{"[[::1]]:1", "seed:6379", ""},
		{"::1]:1", "seed:6379", ""},
	} {
		if got := fullAddress(c.addr, c.origin); got != c.want {
			t.Errorf("%s named by %s: %s, want %s", c.addr, c.origin, got, c.want)
		}
	}
}

// replyError is what go-redis has for an error that the server sent.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestReplyOf(t *testing.T) {
	for text, want := range map[string]Reply{
		"NOSCRIPT No matching script. Please use EVAL.":  {NoScript, ""},
		"MOVED 3999 127.0.0.1:6381":                      {Moved, "127.0.0.1:6381"},
		"ASK 3999 [::1]:6381":                            {Ask, "[::1]:6381"},
		"MOVED 3999 :6381":                               {Moved, ":6381"},
		"MOVED 1 2001:db8::1:6379":                       {Moved, "2001:db8::1:6379"},
		"ASK 1 ::1:6379":                                 {Ask, "::1:6379"},
		"MOVED":                                          {Moved, ""},
		"CLUSTERDOWN The cluster is down":                {Stale, ""},
		"LOADING Redis is loading the dataset in memory": {Stale, ""},
		"READONLY You can't write against a read only replica. script: 1, on @user_script:1.":                                  {Stale, ""},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                              {Stale, ""},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                     {Stale, ""},
		"OOM command not allowed when used memory > 'maxmemory'.":                                                              {Full, ""},
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                     {Rejected, ""},
		"ERR READONLY You can't write against a read only replica.":                                                            {Stale, ""},
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a replica": {Stale, ""},
		"ERR LOADING Redis is loading the dataset in memory":                                                                   {Stale, ""},
		"ERR CLUSTERDOWN: The cluster is down":                                                                                 {Stale, ""},
		"ERR OOM command not allowed when used memory > 'maxmemory'.":                                                          {Full, ""},
		"ERR NOSCRIPT No matching script.":                                                                                     {NoScript, ""},
		"ERR there is no ROOM and no LOADINGS":                                                                                 {Rejected, ""},
		"ERR MOVED 1 127.0.0.1:6381":                                                                                           {Rejected, ""},
		"ERR unknown command":                                                                                                  {Rejected, ""},
		"":                                                                                                                     {Rejected, ""},
	} {
		if got := ReplyOf(replyError(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// The better view is that of a node that sees a majority, then that of the newest
// epoch; anything is better than an error.
func TestViews(t *testing.T) {
	down, cutOff := view{err: errNoReply}, view{ok: false, epoch: 9}
	old, recent := view{ok: true, epoch: 3}, view{ok: true, epoch: 4}
	order := []view{down, cutOff, old, recent}
	for i := range order {
		for j := range i {
			if !order[i].better(&order[j]) || order[j].better(&order[i]) {
				t.Errorf("view %d against view %d", i, j)
			}
		}
	}
}

// What began before the breaker opened does not count after it closed. When it opens is tested with [holder.Breaker].
func TestBreaker(t *testing.T) {
	const jitter = 100 // percent
	var b breaker
	report := func(generation uint64, o outcome, now lease.Millis, counts, opened bool) {
		t.Helper()
		if gotCounts, gotOpened := b.report(generation, o, now, jitter); gotCounts != counts || gotOpened != opened {
			t.Fatalf("at %d: counts %v and opened it %v, want %v and %v; %+v", now, gotCounts, gotOpened, counts, opened, b)
		}
	}
	report(0, timedOut, 1, true, true)
	report(0, answered, 2, false, false) // only a probe closes it
	if b.ProbeDue(100) || !b.ProbeDue(101) {
		t.Errorf("no probe is due 100 ms later: %+v", b)
	}
	b.Answered(0)
	for now := lease.Millis(103); now < 107; now++ {
		report(0, failed, now, false, false) // their client was closed
	}
	report(1, failed, 107, true, false)
	report(1, failed, 108, true, false)
	report(0, answered, 109, false, false) // which is no good sign either
	report(1, failed, 110, true, true)
	b.Answered(0)
	report(1, timedOut, 211, false, false)
	report(2, timedOut, 212, true, true)
}

// Whatever a server answers: an address that it names becomes one that can be dialled, or none.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{"MOVED 1 127.0.0.1:6379", "ASK 1 :7000", "MOVED 1 ?:0", "MOVED 1 [::1]:1", "MOVED  ", "NOSCRIPT", "", "ASK 1 a:b:c", "MOVED 1 2001:db8::1:6379", "ASK 1 [[a]]:1"} {
		f.Add(text, "seed:6379")
	}
	f.Fuzz(func(t *testing.T, text, origin string) {
		r := ReplyOf(replyError(text))
		if r.Kind == Done || r.Kind == NoReply || r.Addr != "" && r.Kind != Moved && r.Kind != Ask {
			t.Fatalf("%q: %+v", text, r)
		}
		full := fullAddress(r.Addr, origin)
		if host, port, err := net.SplitHostPort(full); full != "" && (err != nil || host == "" || port == "") {
			t.Errorf("%q named by %q became %q: %v", r.Addr, origin, full, err)
		}
		if again := fullAddress(full, origin); again != full {
			t.Errorf("%q named by %q became %q, then %q", r.Addr, origin, full, again)
		}
		fields(text)
		SlotOf(text)
	})
}
