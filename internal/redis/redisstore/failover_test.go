package redisstore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// failoverTimeout is that of stores: nodes that are well may take as long on a busy machine.
const failoverTimeout = 3 * time.Second

// counter is one key of one rule.
type counter struct {
	policy *engine.Policy
	key    string
	slot   int
}

// spread makes keys of a limit of 40 of each algorithm, one in each share of the slots. Shares are equal: of as many as
// there are masters each master has one. No limit is whole again before a test is over.
func spread(t *testing.T, prefix string, shares int) (all []*counter) {
	for a := limit.TokenBucket; a < limit.Concurrency; a++ {
		p := policyOf(t, a.String(), limit.Spec{Algorithm: a, Count: 40, Period: 300 * limit.Day})
		for share := range shares {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%s-%d-%d", prefix, share, i)
				if slot := int(topology.SlotOf("{" + p.Rule + ":" + key + "}")); slot*shares/redistest.HashSlots == share {
					all = append(all, &counter{policy: p, key: key, slot: slot})
					break
				}
			}
		}
	}
	return all
}

// of returns the counters that a master has, and those that it has not.
func of(c *redistest.Cluster, master *redistest.Server, all []*counter) (its, others []*counter) {
	for _, k := range all {
		if c.OwnerOf(k.slot) == master {
			its = append(its, k)
		} else {
			others = append(others, k)
		}
	}
	return its, others
}

// take asks for single units of each counter, so many times, and demands a status.
func take(t *testing.T, s *Store, all []*counter, units int64, want lease.Status) {
	t.Helper()
	for _, c := range all {
		for range units {
			decides(t, s, c.policy, c.key, want)
		}
	}
}

// await asks for single units of each counter until it gets a status.
func await(t *testing.T, s *Store, all []*counter, want lease.Status) {
	t.Helper()
	for _, c := range all {
		awaits(t, s, c.policy, c.key, want)
	}
}

// awaitReplicated waits until replicas have what their master has.
func awaitReplicated(t *testing.T, master *redistest.Server, replicas ...*redistest.Server) {
	t.Helper()
	offset := func(s *redistest.Server, name string) (n int64) {
		_, _ = fmt.Sscan(s.Info("replication")[name], &n) // 0 is waited for
		return n
	}
	most := offset(master, "master_repl_offset")
	for _, r := range replicas {
		proc.Eventually(t, time.Minute, r.Name+" has all", func() bool { return r == master || offset(r, "slave_repl_offset") >= most })
	}
}

// The keys of a master that fails are away until its replica is promoted, and then go on where they
// were, but for what the replica has not seen: of these keys each grants at most a second limit. The old master comes
// back as a replica, also one that has not noticed yet that it was replaced.
func TestMasterReplaced(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, redistest.NodeTimeout(failoverTimeout))
	s := start(t, Config{Redis: topology.Config{Addrs: c.Addrs(), Timeout: failoverTimeout}})
	for _, row := range []struct {
		name       string
		fail, mend func(*redistest.Server)
		behind     bool
	}{
		{"hangs", (*redistest.Server).Pause, (*redistest.Server).Resume, false},
		{"killed, and its replica is behind", (*redistest.Server).Kill, (*redistest.Server).Restart, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			spent, late := spread(t, row.name, 3), spread(t, row.name+", late", 3)
			victim := c.Masters()[0]
			replica := c.ReplicasOf(victim)[0]
			struckSpent, sparedSpent := of(c, victim, spent)
			struckLate, sparedLate := of(c, victim, late)
			take(t, s, spent, 40, lease.OK)
			take(t, s, late, 10, lease.OK)
			awaitReplicated(t, victim, replica)
			if row.behind { // it loses its master, and may still be promoted
				replica.Do("CONFIG", "SET", "masterauth", "not the password")
				replica.Do("CLIENT", "KILL", "TYPE", "master")
			}
			take(t, s, late, 10, lease.OK)
			left := int64(20)
			if row.behind {
				left = 30
			} else {
				awaitReplicated(t, victim, replica)
			}
			row.fail(victim)
			take(t, s, struckLate[:1], 1, lease.Unavailable)
			take(t, s, sparedLate, 20, lease.OK)
			take(t, s, append(sparedSpent, sparedLate...), 1, lease.Denied)
			await(t, s, struckSpent, lease.Denied) // the replica has taken over
			await(t, s, struckLate, lease.OK)
			take(t, s, struckLate, left-1, lease.OK)
			row.mend(victim)
			take(t, s, slices.Concat(spent, late), 1, lease.Denied)
			c.Await()
			take(t, s, slices.Concat(spent, late), 1, lease.Denied)
			if masters := c.Masters(); slices.Contains(masters, victim) || len(masters) != 3 {
				t.Errorf("the masters are %v", masters)
			}
		})
	}
}

// Sentinels give the name to a replica when the master dies. Nobody helps, and what was spent stays spent.
func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	servers := redistest.StartSentinel(t, 2)
	s := start(t, Config{Redis: topology.Config{Addrs: servers.Addrs(), Mode: topology.Sentinel, SentinelMaster: servers.Name, Timeout: failoverTimeout}})
	keys := spread(t, "sentinel", 1)
	take(t, s, keys, 20, lease.OK)
	lost := servers.Master()
	awaitReplicated(t, lost, servers.Nodes...)
	lost.Kill()
	await(t, s, keys, lease.Unavailable)
	servers.AwaitMaster(lost)
	await(t, s, keys, lease.OK)
	take(t, s, keys, 19, lease.OK)
	take(t, s, keys, 1, lease.Denied)
}

// The password of the store's user changes while it is in use: the servers take both, the file gets the new one, the
// servers forget the old one, and connections that were opened with it are cut. Nobody restarts anything.
func TestPasswordRotates(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, redistest.Users(usersOf(t, "first")...))
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		fatal.If(t, os.Rename(proc.WriteFile(t, file+".new", password), file))
	}
	write("first")
	s := start(t, Config{Redis: topology.Config{Addrs: c.Addrs(), Username: "weir", Timeout: failoverTimeout,
		Password: func() (string, error) {
			b, err := os.ReadFile(file)
			return string(b), err
		}}})
	keys := spread(t, "rotated", 3)
	take(t, s, keys, 1, lease.OK)
	onEach(c.Nodes, "ACL", "SETUSER", "weir", ">second")
	write("second")
	onEach(c.Nodes, "ACL", "SETUSER", "weir", "<first")
	onEach(c.Nodes, "CLIENT", "KILL", "USER", "weir")
	await(t, s, keys, lease.OK)

	// The other way round, which is a mistake: when connections are cut nothing is decided until the file is right.
	onEach(c.Nodes, "ACL", "SETUSER", "weir", "resetpass", ">third")
	onEach(c.Nodes, "CLIENT", "KILL", "USER", "weir")
	proc.Eventually(t, 30*time.Second, "Ready reports that the password is wrong", func() bool {
		for _, k := range keys { // on new connections
			acquire(t, s, plenty, one(k.policy, k.key))
		}
		err := notReady(t, s)
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	})
	take(t, s, keys, 1, lease.Unavailable)
	write("third")
	await(t, s, keys, lease.OK)
}
