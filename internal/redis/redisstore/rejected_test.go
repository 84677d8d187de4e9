package redisstore

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A value under the name of a counter that is none of ours stays as it is; its key is
// unavailable, which is counted and logged with its name, and no other key is. So is a new key while memory is full.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--maxmemory-policy", "noeviction"))
	var logged proc.Lines
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}, Log: slog.New(slog.NewTextHandler(&logged, nil))}})
	p := fixedPolicy(t, "r", 100)
	name := nameOf(p, "theirs")
	value := "\x21" + strings.Repeat("x", 40) // of layout 2
	server.Do("SET", name, value)
	for range 10 {
		g := acquire(t, s, plenty, one(p, "theirs"), one(p, "ours"))
		if g[0].Status != lease.Unavailable || g[1].Status != lease.OK {
			t.Fatalf("%+v", g)
		}
	}
	if n, open := unavailable(s, "foreign"), metric(s, "breakers_open"); n != 10 || open != 0 || server.Do("GET", name) != value {
		t.Errorf("%d unavailable, %d breakers open, value %q", n, open, server.Do("GET", name))
	}
	if log := strings.Join(logged.With(), ""); strings.Count(log, "theirs") != 1 {
		t.Errorf("logged %q, want the key once", log)
	}
	server.Do("CONFIG", "SET", "maxmemory", 1) // without memory new keys are unavailable, which is no outage of the server
	if g := acquire(t, s, plenty, one(p, "new"), one(p, "ours")); g[0].Status != lease.Unavailable || g[1].Status != lease.OK && g[1].Status != lease.Denied {
		t.Errorf("without memory: %+v", g)
	}
	if n, open := unavailable(s, "full"), metric(s, "breakers_open"); n != 1 || open != 0 {
		t.Errorf("%d unavailable, %d breakers open", n, open)
	}
}

// Scripts that a server has forgotten are sent again, and no ask notices: each is charged once.
func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	fixed, bucket := fixedPolicy(t, "fixed", 1000), policyOf(t, "bucket", limit.Spec{Count: 1000, Period: limit.MaxPeriod})
	const flushes = 20
	before := metric(s, "topology_reloads_total")
	for range flushes {
		server.Do("SCRIPT", "FLUSH", "SYNC")
		if got := statusOf(acquire(t, s, plenty, one(fixed, "k"), one(bucket, "k"), one(fixed, "l"), one(bucket, "k"))); got != "4 ok, 0 denied, 0 unavailable" {
			t.Errorf("after a flush: %s", got)
		}
	}
	for _, left := range []int64{remaining(t, s, fixed, "k"), remaining(t, s, fixed, "l"), remaining(t, s, bucket, "k") + flushes} {
		if left != 1000-flushes {
			t.Errorf("%d are left of 1000 after %d asks", left, flushes)
		}
	}
	if n := server.CommandStats()["evalsha"].Failed; n < flushes {
		t.Errorf("%d scripts were missed: the test shows nothing", n)
	}
	if reloads, opened := metric(s, "topology_reloads_total")-before, metric(s, "breaker_opened_total"); reloads > 1 || opened != 0 { // one is periodic
		t.Errorf("%d look-ups and %d opened breakers: a script that is missing is no dead node", reloads, opened)
	}
}

// A server was demoted, or taken out, while its address leads to another one: its connections stay open
// and reject everything, in the words of a server, of a proxy or of a script. New connections are made
// without anybody doing anything, and the limit goes on.
func TestConnectionsToADemotedServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for i, text := range []string{
		"READONLY You can't write against a read only replica.",
		"CLUSTERDOWN The cluster is down",
		"ERR NOAUTH Authentication required.",
		"ERR the proxy has no server for this",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			link := newProxy(t, server.Addr)
			s := start(t, Config{Redis: topology.Config{Addrs: []string{link.addr}, Mode: topology.Single}})
			p, key := fixedPolicy(t, "demoted", 10), fmt.Sprint(i)
			decides(t, s, p, key, lease.OK)
			link.rejection.Store(&text)
			decides(t, s, p, key, lease.Unavailable)
			eventually(t, func() (bool, any) {
				g := acquire(t, s, plenty, one(p, key))[0]
				return g.Granted == 1 && g.Remaining == 8, g
			})
			if metric(s, "breaker_opened_total") != 0 {
				t.Error("a breaker opened, though the server answers")
			}
		})
	}
}

// A store whose server is a replica is not ready, and states so. Once the server is a master, it is. A replica in place of
// its master decides on nothing, and the log has the reason.
func TestReplicaInPlaceOfItsMaster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--replicaof", "127.0.0.1 1"))
	var log proc.Lines
	s := launch(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}, Log: slog.New(slog.NewTextHandler(&log, nil))}})
	eventually(t, func() (bool, any) {
		err := notReady(t, s)
		if err == nil {
			t.Fatal("the store is ready")
		}
		return strings.Contains(err.Error(), "name the master"), err
	})
	server.Do("REPLICAOF", "NO", "ONE")
	eventually(t, func() (bool, any) {
		err := notReady(t, s)
		return err == nil, err
	})
	p := fixedPolicy(t, "r", 10)
	decides(t, s, p, "k", lease.OK)
	server.Do("REPLICAOF", "127.0.0.1", 1)
	for range 3 {
		decides(t, s, p, "k", lease.Unavailable)
	}
	if n := unavailable(s, "moved"); n != 3 {
		t.Errorf("%d of 3 asks are counted as moved", n)
	}
	if logged := strings.Join(log.With(), ""); strings.Count(logged, "redis rejects commands") != 1 || !strings.Contains(logged, "name the master") {
		t.Errorf("logged, want once what to change:\n%s", logged)
	}
}

// A master of a cluster was replaced, and what stands before it tells so in the words of a proxy: the new
// master is looked up at once, not after the time between two look-ups.
func TestReplacedBehindAProxy(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 1, 1)
	link := newProxy(t, c.Nodes[0].Addr)
	link.always = true
	s := start(t, Config{Redis: topology.Config{Addrs: c.Addrs(), Dial: through(map[string]*proxy{c.Nodes[0].Addr: link})}})
	p := fixedPolicy(t, "replaced", 1000)
	decides(t, s, p, "k", lease.OK)
	text := "ERR READONLY You can't write against a read only replica."
	link.rejection.Store(&text)
	begin := time.Now()
	c.Nodes[1].Do("CLUSTER", "FAILOVER", "TAKEOVER")
	awaits(t, s, p, "k", lease.OK)
	if took := time.Since(begin); took > 20*time.Second { // without a request masters are looked up every 30 s
		t.Errorf("the new master was found after %v: nobody asked for it", took)
	}
}

// A node of another cluster, which has another password and all slots, takes over the address of a lost node. Nothing is
// written there. The keys of the lost node are unavailable, and all others are decided.
func TestForeignNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, redistest.Password("ours"))
	s := onCluster(t, c, Config{Redis: topology.Config{Password: always("ours")}})
	p, lost := fixedPolicy(t, "r", 1_000_000), c.Nodes[2]
	want := map[string]lease.Status{}
	for i := range 30 {
		key := fmt.Sprint("key", i)
		if want[key] = lease.OK; c.MasterOf(nameOf(p, key)) == lost {
			want[key] = lease.Unavailable
		}
	}
	lost.Kill()
	lost.Argv = append(lost.Argv, "--requirepass", "theirs", "--cluster-config-file", "theirs.nodes")
	lost.Begin()
	foreign := redis.NewClient(&redis.Options{Addr: lost.Addr, Password: "theirs", Protocol: 2})
	t.Cleanup(func() { _ = foreign.Close() })
	eventually(t, func() (bool, any) {
		err := foreign.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", 100).Err() // newer than ours
		return err == nil, err
	})
	fatal.If(t, foreign.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, redistest.HashSlots-1).Err())
	for last := metric(s, "topology_reloads_total") + 5; metric(s, "topology_reloads_total") < last; s.topology.Reload() {
		for key, status := range want {
			if g := acquire(t, s, plenty, one(p, key))[0]; g.Status != status {
				t.Fatalf("%s: status %v, want %v", key, g.Status, status)
			}
		}
	}
	if n, err := foreign.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("%d keys at the foreign node, %v", n, err)
	}
}
