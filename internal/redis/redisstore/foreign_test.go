package redisstore

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
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
