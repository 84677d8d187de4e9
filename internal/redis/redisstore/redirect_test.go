package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A slot moves to another master while it is asked for: no ask fails, none counts
// twice, and afterwards the new master is asked at once.
func resharding(t *testing.T, c *redistest.Cluster) {
	s := onCluster(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}}) // redirects may fail here, and nothing else
	p := fixedPolicy(t, "r", 1_000_000)
	slot, _, to := journey(c, nameOf(p, "hot")) // its tag is the whole name: other keys are in other slots
	variants := slices.Clip(asksOf(one(p, "hot"), one(fixedVariant(t, 1), "hot"), one(fixedVariant(t, 2), "hot")))
	asked := int64(0)
	ask := func(step string) {
		t.Helper()
		for range 5 {
			other := one(p, fmt.Sprint("other", asked)) // in another slot, on any of the masters
			for i, g := range acquire(t, s, plenty, append(variants, other)...) {
				if g.Granted != 1 {
					t.Fatalf("%s: ask %d: %+v", step, i, g)
				}
			}
			asked++
		}
	}
	ask("before")
	redirected := metric(s, "redirects_total")
	c.Migrate(slot, to, ask)
	if metric(s, "redirects_total") == redirected {
		t.Error("nothing was redirected")
	}
	redirected = metric(s, "redirects_total")
	ask("after")
	if n := metric(s, "redirects_total") - redirected; n != 0 {
		t.Errorf("%d asks were redirected though it is known where the slot is", n)
	}
	for _, v := range variants {
		if spent := 1_000_000 - remaining(t, s, v.Policy, "hot"); spent != asked {
			t.Errorf("%d units are charged for %d asks", spent, asked)
		}
	}
	if n := to.CommandStats()["asking"].Calls; n == 0 {
		t.Error("ASK never occurred")
	}
}

// journey is the slot of a key, its master, and another one to which it may move.
func journey(c *redistest.Cluster, key string) (slot int, from, to *redistest.Server) {
	slot = int(topology.SlotOf(key))
	from = c.OwnerOf(slot)
	if from == c.Nodes[0] {
		return slot, from, c.Nodes[1]
	}
	return slot, from, c.Nodes[0]
}

// A redirect that leads nowhere, or in circles, ends.
func redirectThatNeverEnds(t *testing.T, c *redistest.Cluster) {
	s := onCluster(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}})
	p := fixedPolicy(t, "r", 10)
	slot, from, to := journey(c, nameOf(p, "k"))
	// The slot is marked as on its way to a node that does not expect it: ASK one
	// way and MOVED the other.
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	defer from.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	decides(t, s, p, "k", lease.Unavailable)
	if n := unavailable(s, "moved"); n != 1 {
		t.Errorf("%d asks moved away, want 1", n)
	}
}
