package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/redistest"
)

// needsTheMachine skips, with -short, a test that fails where others take the processor.
func needsTheMachine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("compares times under load")
	}
}

// TestFaultsWithoutReplicas harms a cluster of three masters, one way after the
// other; after each it has to be whole again.
func TestFaultsWithoutReplicas(t *testing.T) {
	needsTheMachine(t)
	c := redistest.StartCluster(t, 3, 0)
	t.Run("ScriptsFlushed", func(t *testing.T) { scriptsFlushed(t, c) })
	t.Run("SlotsMoved", func(t *testing.T) { slotsMoved(t, c) })
	t.Run("MasterPaused", func(t *testing.T) { masterPaused(t, c) })
	t.Run("MasterKilled", func(t *testing.T) { masterKilled(t, c) })
	t.Run("FloodWhileKilled", func(t *testing.T) { floodWhileAway(t, c, killed) })
	t.Run("FloodWhilePaused", func(t *testing.T) { floodWhileAway(t, c, paused) })
	t.Run("AllRestarted", func(t *testing.T) { allRestarted(t, c) })
}

// scriptsFlushed: a script that is gone is sent again, and no ask notices.
func scriptsFlushed(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("flush", 3, 2))
	before := c.Commands("evalsha").Failed
	for until := r.at() + 2*time.Second; r.at() < until; time.Sleep(50 * time.Millisecond) {
		for _, n := range c.Nodes {
			n.Do("SCRIPT", "FLUSH", "SYNC")
		}
	}
	r.fault = span{r.calm.until, r.at()}
	r.end()
	r.emptied(r.fault)
	if missed := c.Commands("evalsha").Failed - before; missed == 0 {
		t.Error("no script was ever missed: the test shows nothing")
	}
}

// slotsMoved moves slots away and back while their keys are asked for, spent ones
// and ones that do not exist yet: every ask is redirected within its budget, and
// not a unit is lost.
func slotsMoved(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("move", 3, 2))
	from, to := c.Nodes[0], c.Nodes[1]
	redirected := r.stores[0].Stats().Redirects
	owners := c.Owners()
	elsewhere := func(n *counter) bool { return owners(n.slot) != from }
	spent := slices.DeleteFunc(slices.Clone(*r.offered.Load()), elsewhere)
	for _, n := range spent[:4] {
		r.homes[n] = append(r.homes[n], to.Addr)
		c.Migrate(n.slot, to, func(redistest.Step) { time.Sleep(50 * time.Millisecond) })
		c.Migrate(n.slot, from, nil)
	}
	fresh := slices.DeleteFunc(counters("new", 3, 1), elsewhere)
	for _, n := range fresh {
		c.Migrate(n.slot, to, func(s redistest.Step) {
			if s == redistest.Opened {
				r.offerMore([]*counter{n}) // its first asks find nothing where it was, and go on
				r.homes[n] = append(r.homes[n], to.Addr)
			}
			time.Sleep(50 * time.Millisecond)
		})
	}
	r.awaitAnswers(t, r.at(), patience)
	r.fault = span{r.calm.until, r.at()}
	r.end()
	r.emptied(r.fault)
	if r.stores[0].Stats().Redirects == redirected {
		t.Error("no ask was ever redirected: the test shows nothing")
	}
}

// masterPaused: a node hangs with its connections up, and goes on where it was.
func masterPaused(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("pause", 3, 2))
	victim := c.Nodes[1]
	r.spareAllBut(victim)
	r.offerMore(counters("late", 3, 1))
	from := r.at()
	victim.Pause()
	r.harm(2500 * time.Millisecond)
	victim.Resume()
	r.hangs = append(r.hangs, hang{of: r.struck, from: from, until: r.at()})
	r.recovers()
	r.end()
	r.refuses()
}

// masterKilled: a third of the keys is away while its master is, and then begins
// anew. The others do not notice.
func masterKilled(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("kill", 3, 2))
	victim := c.Nodes[2]
	r.spareAllBut(victim)
	victim.Kill()
	r.harm(1500 * time.Millisecond)
	r.lost(r.struck)
	victim.Restart()
	r.recovers()
	r.awaitSpent(t, r.fault.until)
	r.end()
	r.refuses()
	r.beginsAnew()
}

// allRestarted: every counter begins anew, once.
func allRestarted(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("all", 3, 2))
	r.spareAllBut(c.Nodes...)
	for _, n := range c.Nodes {
		n.Kill()
	}
	r.harm(time.Second)
	r.lost(r.struck)
	for _, n := range c.Nodes {
		n.Restart()
	}
	r.recovers()
	r.awaitSpent(t, r.fault.until)
	r.end()
	r.refuses()
	r.beginsAnew()
}

// TestFaultsWithReplicas takes masters away that have a replica each.
func TestFaultsWithReplicas(t *testing.T) {
	needsTheMachine(t)
	c := redistest.StartCluster(t, 3, 1)
	t.Run("MasterKilledReplicaBehind", func(t *testing.T) {
		r := failover(t, c, "kill", fallBehind, (*redistest.Server).Kill, (*redistest.Server).Restart)
		if r.grantedAgain() == 0 {
			t.Error("the failover lost nothing: the test does not show that what it loses is bounded")
		}
	})
	t.Run("MasterPaused", func(t *testing.T) {
		failover(t, c, "pause", func(*redistest.Server) {}, (*redistest.Server).Pause, (*redistest.Server).Resume)
	})
	t.Run("FloodWhileReplaced", func(t *testing.T) { floodWhileAway(t, c, replaced) })
}

// fallBehind has a replica lose its master, and not find it again. It keeps what it
// has, and may still be promoted.
func fallBehind(replica *redistest.Server) {
	replica.Do("CONFIG", "SET", "masterauth", "not the password")
	replica.Do("CLIENT", "KILL", "TYPE", "master")
}

// failover: the keys of a master that fails are away until its replica is
// promoted, and then go on where they were, but for what that has not seen. The old
// master comes back as a replica, also one that has not noticed yet that it was
// replaced.
func failover(t *testing.T, c *redistest.Cluster, name string, before, fail, mend func(*redistest.Server)) *trial {
	r := startTrial(t, c, counters(name, 3, 2))
	victim := c.Masters()[0]
	r.spareAllBut(victim)
	before(c.ReplicasOf(victim)[0])
	r.offerMore(counters(name+"-late", 3, 2)) // these are being spent when the master fails
	from := r.at()
	fail(victim)
	r.losses = append(r.losses, loss{of: r.struck, failover: true, fault: from})
	time.Sleep(time.Second) // a replica takes over later
	r.fault = span{from, r.at()}
	r.recovers()
	r.awaitSpent(t, r.fault.until)
	mend(victim)
	c.Await()
	r.recovers()
	r.end()
	r.refuses()
	if masters := c.Masters(); slices.Contains(masters, victim) || len(masters) != 3 {
		t.Errorf("the masters are %v", masters)
	}
	return r
}

// TestMemoryFull takes a server's memory away.
func TestMemoryFull(t *testing.T) {
	needsTheMachine(t)
	c := redistest.Single(redistest.Start(t, "--maxmemory", "16mb", "--maxmemory-policy", "noeviction"))
	t.Run("Counters", func(t *testing.T) { memoryFull(t, c) })
	t.Run("Flood", func(t *testing.T) { floodWhileAway(t, c, filled(t)) })
}

// memoryFull: counters that exist go on counting without an error when Redis has no
// memory left, new ones are unavailable at once, and are counted when there is room
// again.
func memoryFull(t *testing.T, c *redistest.Cluster) {
	r := startTrial(t, c, counters("old", 1, 4))
	s := c.Nodes[0]
	free := fill(t, s)
	fresh := counters("new", 1, 4)
	isNew := func(c *counter) bool { return slices.Contains(fresh, c) }
	r.struck, r.spared = isNew, except(isNew)
	r.offerMore(fresh)
	r.harm(2 * time.Second)
	free()
	r.recovers()
	r.end()
	r.refuses()
	if sum := r.during(except(isNew), r.fault); sum.granted == 0 {
		t.Error("no counter went on while memory was full: the test shows nothing")
	}
}

// fill stores values until nothing fits any more, by far: what connections take
// comes and goes. free makes room again.
func fill(t *testing.T, s *redistest.Server) (free func()) {
	t.Helper()
	n := 0
	for {
		if _, err := s.Try("SET", fmt.Sprint("filler", n), make([]byte, 64<<10)); err != nil {
			break
		}
		n++
	}
	limit := s.Info("memory")["maxmemory"]
	s.Do("CONFIG", "SET", "maxmemory", "14mb")
	return func() {
		for i := range n {
			s.Do("DEL", fmt.Sprint("filler", i))
		}
		s.Do("CONFIG", "SET", "maxmemory", limit)
	}
}
