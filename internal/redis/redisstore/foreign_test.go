package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A node of another cluster, which has another password and all slots, takes over the address of a lost node. Nothing is
// written there. The keys of the lost node are unavailable, and all others are decided.
func TestForeignNode(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, redistest.Password("ours"))
	s := onCluster(t, c, Config{Redis: topology.Config{Timeout: time.Second, Password: func() (string, error) { return "ours", nil }}})
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
