package redisstore

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// ran is how many scripts ran on servers, heartbeats left out: those are EVAL.
func ran(servers ...*redistest.Server) (n int64) {
	for _, s := range servers {
		n += s.CommandStats()["evalsha"].Calls
	}
	return n
}

// A connection that breaks after the script ran and before its reply arrives charges once: the ask is
// Unavailable, and nobody finds another node, or another connection, to send it again.
func cutInACluster(t *testing.T, c *redistest.Cluster) {
	s, links := linked(t, c, Config{})
	for _, n := range c.Nodes {
		eventually(t, func() (bool, any) { return ran(n) > 0, n.Addr + " has not been probed" })
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		cutOnce(t, s, links[c.MasterOf(nameOf(fixedPolicy(t, "r", 10), key))], key, c.Nodes...)
	}
}

func cutOnce(t *testing.T, s *Store, link *proxy, key string, servers ...*redistest.Server) {
	t.Helper()
	p := fixedPolicy(t, "r", 10)
	if g := acquire(t, s, plenty, one(p, key))[0]; g.Granted != 1 || g.Remaining != 9 {
		t.Fatalf("before: %+v", g)
	}
	before, lost := ran(servers...), unavailable(s, "network")
	link.cutting.Store(true)
	g := acquire(t, s, plenty, one(p, key))[0]
	if g.Status != lease.Unavailable || link.cut.Load() != 1 {
		t.Fatalf("%+v, %d links were cut; want it unavailable, and one", g, link.cut.Swap(0))
	}
	link.cut.Store(0)
	time.Sleep(50 * time.Millisecond) // for what might be sent again
	if n := ran(servers...) - before; n != 1 {
		t.Errorf("%d scripts ran for one ask", n)
	}
	if n := unavailable(s, "network") - lost; n != 1 {
		t.Errorf("%d asks were lost to the network, want 1", n)
	}
	if left := remaining(t, s, p, key); left != 8 {
		t.Errorf("%d are left of 10 after two asks of which one had no answer, want 8", left)
	}
}
