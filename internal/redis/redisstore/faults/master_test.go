package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

const (
	// timeout is that of stores: nodes that are well may take as long on a busy machine.
	timeout = 3 * time.Second
	// replicationLag is how much of what a master acknowledged last its replicas may not have seen.
	replicationLag = time.Second
)

// of returns which counters a master has, and which it has not.
func of(c *redistest.Cluster, master *redistest.Server, all []*counter) (its, others func(*counter) bool) {
	has := map[int]bool{}
	for _, k := range all {
		has[k.slot] = c.OwnerOf(k.slot) == master
	}
	return func(k *counter) bool { return has[k.slot] }, func(k *counter) bool { return !has[k.slot] }
}

// awaitAway waits until counters are unavailable, and nothing waits for their node.
func (l *load) awaitAway(t *testing.T, struck func(*counter) bool) {
	t.Helper()
	l.await(t, "away if it is to be", func(k *counter, s tally) bool { return s.unavailable > 0 || !struck(k) })
	proc.Await(t, patience, "its breaker is open", func() string {
		if st := l.store.Stats(); st.Open != 1 {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
}

// A third of the keys is away while its master is, and then begins anew, once. The others do not
// notice, and nobody has to do anything.
func TestMasterKilled(t *testing.T) {
	c := redistest.StartCluster(t, 3, 0)
	keys := counters("kill", 3, 2)
	victim := c.Nodes[2]
	struck, spared := of(c, victim, keys)
	l := startLoad(t, runStore(t, redisstore.Config{Redis: topology.Config{Addrs: c.Addrs(), Timeout: timeout}}), keys)
	l.awaitSpent(t)
	victim.Kill()
	l.awaitAway(t, struck)
	l.lose(struck)
	victim.Restart()
	l.awaitSpent(t)
	l.end(t, none, spared)
}

// The keys of a master that fails are away until its replica is promoted, and then go on where they
// were, but for what the replica has not seen. The old master comes back as a replica, also one that has
// not noticed yet that it was replaced.
func TestMasterReplaced(t *testing.T) {
	c := redistest.StartCluster(t, 3, 1, redistest.NodeTimeout(timeout))
	for _, row := range []struct {
		name               string
		before, fail, mend func(*redistest.Server)
		behind             bool
	}{
		{"killed, and its replica is behind", fallBehind, (*redistest.Server).Kill, (*redistest.Server).Restart, true},
		{"hangs", func(*redistest.Server) {}, (*redistest.Server).Pause, (*redistest.Server).Resume, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			spent, late := counters(row.name, 3, 1), counters(row.name+", late", 3, 1)
			victim := c.Masters()[0]
			struck, spared := of(c, victim, append(slices.Clone(spent), late...))
			l := startLoad(t, runStore(t, redisstore.Config{Redis: topology.Config{Addrs: c.Addrs(), Timeout: timeout}}), spent)
			l.awaitSpent(t)
			time.Sleep(replicationLag)
			row.before(c.ReplicasOf(victim)[0])
			l.offer(late) // these are being spent when the master fails
			l.awaitDecided(t)
			row.fail(victim)
			l.awaitAway(t, struck)
			l.awaitSpent(t) // a replica has taken over
			row.mend(victim)
			c.Await()
			l.awaitDecided(t)
			lost := func(k *counter) bool { return row.behind && struck(k) && slices.Contains(late, k) }
			l.end(t, lost, spared)
			again := int64(0)
			for k, sum := range l.lives[0].tallies {
				if lost(k) {
					again += max(0, sum.granted-k.limit())
				}
			}
			if row.behind && again == 0 {
				t.Error("the failover lost nothing: the test does not show that what it loses is bounded")
			}
			if masters := c.Masters(); slices.Contains(masters, victim) || len(masters) != 3 {
				t.Errorf("the masters are %v", masters)
			}
		})
	}
}

// fallBehind has a replica lose its master, and not find it again. It keeps what it has, and may still
// be promoted.
func fallBehind(replica *redistest.Server) {
	replica.Do("CONFIG", "SET", "masterauth", "not the password")
	replica.Do("CLIENT", "KILL", "TYPE", "master")
}
