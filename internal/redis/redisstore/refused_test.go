package redisstore

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A value under the name of a counter that is none of ours stays as it is; its key is
// unavailable, which is counted and logged with its name, and no other key is.
func TestForeignValue(t *testing.T) {
	server := redistest.Start(t)
	var logged notes
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}, Log: slog.New(slog.NewTextHandler(&logged, nil))}})
	p := fixedPolicy(t, "r", 10)
	name := string(script.AppendKey(nil, p, []byte("theirs")))
	value := "\x21" + strings.Repeat("x", 40) // of layout 2
	server.Do("SET", name, value)
	for range 10 {
		g := acquire(t, s, plenty, one(p, "theirs"), one(p, "ours"))
		if g[0].Status != lease.Unavailable || g[1].Status != lease.OK {
			t.Fatalf("%+v", g)
		}
	}
	if st := s.Stats(); st.Unavailable["foreign"] != 10 || st.Open != 0 || server.Do("GET", name) != value {
		t.Errorf("%d unavailable, %d breakers open, value %q", st.Unavailable["foreign"], st.Open, server.Do("GET", name))
	}
	if log := logged.String(); strings.Count(log, "theirs") != 1 {
		t.Errorf("logged %q, want the key once", log)
	}
}

// A server without memory counts on what it counts. New keys are unavailable, which is no outage of it,
// until there is room again.
func TestFullMemory(t *testing.T) {
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	p := fixedPolicy(t, "r", 10)
	ask := func(key string, want lease.Status) {
		t.Helper()
		if g := acquire(t, s, plenty, one(p, key))[0]; g.Status != want {
			t.Errorf("%s: %+v", key, g)
		}
	}
	ask("known", lease.OK)
	server.Do("CONFIG", "SET", "maxmemory", 1)
	for i := range 5 {
		ask("new", lease.Unavailable)
		ask("known", lease.OK)
		if st := s.Stats(); st.Unavailable["full"] != uint64(i)+1 || st.Open != 0 {
			t.Errorf("%v unavailable, %d breakers open", st.Unavailable, st.Open)
		}
	}
	server.Do("CONFIG", "SET", "maxmemory", 0)
	ask("new", lease.OK)
	if left := remaining(t, s, p, "known"); left != 4 {
		t.Errorf("%d are left of 10 after 6 asks", left)
	}
}

// Scripts that a server has forgotten are sent again, and no ask notices: each is charged once.
func TestScriptsFlushed(t *testing.T) {
	server := redistest.Start(t)
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	fixed, bucket := fixedPolicy(t, "fixed", 1000), policyOf(t, "bucket", limit.Spec{Count: 1000, Period: limit.MaxPeriod})
	const flushes = 20
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
}
