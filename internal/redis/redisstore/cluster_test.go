package redisstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// TestCluster has the tests that can share a cluster of three masters: they leave it well, and each has keys
// of its own. No node is ever taken for dead, however long it hangs. Those that wait for a node run at once.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	for _, test := range []struct {
		name  string
		run   func(*testing.T, *redistest.Cluster)
		waits bool
	}{
		{"CutConnectionChargesOnce", cutInACluster, false},
		{"Resharding", resharding, false},
		{"RedirectThatNeverEnds", redirectThatNeverEnds, false},
		{"CellOfAMovingSlot", cellOfAMovingSlot, false},
		{"GroupGivesBack", groupGivesBack, false},
		{"NodeThatHangs", nodeThatHangs, true},
		{"CallerLeavesInTime", callerLeavesInTime, true},
		{"GroupWithAMemberAway", groupWithAMemberAway, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.waits {
				t.Parallel()
			}
			test.run(t, c)
		})
	}
}

// onCluster runs a store on a cluster, and waits until it has found three masters and all answer.
func onCluster(t *testing.T, c *redistest.Cluster, config Config) *Store {
	t.Helper()
	config.Redis.Addrs = c.Addrs()
	s := start(t, config)
	eventually(t, func() (bool, any) {
		masters, open := metric(s, "masters"), metric(s, "breakers_open")
		return masters == 3 && open == 0, fmt.Sprintf("%d masters, %d open", masters, open)
	})
	return s
}

// linked is [onCluster] with a proxy before each master.
func linked(t *testing.T, c *redistest.Cluster, config Config) (*Store, map[*redistest.Server]*proxy) {
	t.Helper()
	links, byAddr := map[*redistest.Server]*proxy{}, map[string]*proxy{}
	for _, n := range c.Nodes {
		links[n] = newProxy(t, n.Addr)
		byAddr[n.Addr] = links[n]
	}
	config.Redis.Dial = through(byAddr)
	return onCluster(t, c, config), links
}

// A slot moves to another master while it is asked for: no ask fails, none counts
// twice, and afterwards the new master is asked at once.
func resharding(t *testing.T, c *redistest.Cluster) {
	s := onCluster(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}}) // redirects may fail here, and nothing else
	p := fixedPolicy(t, "r", 1_000_000)
	slot, _, to := journey(c, nameOf(p, "hot")) // its tag is the whole name: other keys are in other slots
	var variants []engine.Ask
	for override := range uint64(3) {
		variants = append(variants, one(engine.NewPolicy("r", override, p.Limit, p.Terms), "hot"))
	}
	asked := int64(0)
	ask := func(step string) {
		t.Helper()
		for range 5 {
			other := one(p, fmt.Sprint("other", asked)) // in another slot, on any of the masters
			for i, g := range acquire(t, s, plenty, append(slices.Clip(variants), other)...) {
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

// A node that hangs: its queue fills and overflows, its callers leave after one timeout, its breaker opens, the other
// nodes go on, and when it runs again it is asked again without anybody doing anything.
func nodeThatHangs(t *testing.T, c *redistest.Cluster) {
	const timeout = 4 * time.Second // other nodes may take as long, on a busy machine
	s, links := linked(t, c, Config{Redis: topology.Config{Timeout: timeout}, Queue: 64})
	hanging, well := of(c, c.Nodes[0], spread(t, "hangs", 40))
	ask := func(keys []*counter, i int) lease.Grant {
		k := keys[i%len(keys)]
		return acquire(t, s, plenty, one(k.policy, k.key))[0]
	}
	for i := range 40 {
		ask(hanging, i)
		ask(well, i)
	}

	var callers sync.WaitGroup
	resume := links[c.Nodes[0]].hang(t)
	begin := time.Now()
	for i := range 300 {
		callers.Go(func() {
			if g := ask(hanging, i); g.Status != lease.Unavailable {
				t.Errorf("an ask of a node that hangs: %+v", g)
			}
		})
	}
	left := make(chan time.Duration, 1)
	go func() {
		callers.Wait()
		left <- time.Since(begin)
	}()
	for i := range 100 {
		if g := ask(well, i); g.Status != lease.OK {
			t.Fatalf("a key of another node: %+v", g)
		}
	}
	// One more timeout is what who queues behind a pipeline would wait if the first one did not open the breaker.
	if took := <-left; took > 2*timeout-100*time.Millisecond {
		t.Errorf("callers waited for %v with a timeout of %v", took, timeout)
	}
	if metric(s, "breakers_open") != 1 || metric(s, "breaker_opened_total") != 1 || metric(s, "queued") != 0 || unavailable(s, "timeout") == 0 || unavailable(s, "queue_full")+unavailable(s, "breaker") == 0 {
		t.Errorf("while it hangs: %v", measure.Of(s.topology.Config.Metrics.Handler()))
	}
	for i := range 1000 { // rejected at once
		if g := ask(hanging, i); g.Status != lease.Unavailable {
			t.Fatalf("with its breaker open: %+v", g)
		}
	}

	resume()
	eventually(t, func() (bool, any) {
		g := ask(hanging, 0)
		return g.Status == lease.OK, "it runs again, and is not asked"
	})
	if metric(s, "breakers_open") != 0 || metric(s, "queued") != 0 {
		t.Error("its breaker is open, or asks wait, when it is back")
	}
}

// All who share a Redis swap one value, and each region has one of its own.
func TestCell(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores [2]*Store
	for i := range stores {
		stores[i] = start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	}
	for _, of := range []func(*Store) engine.Cell{(*Store).Shares, func(s *Store) engine.Cell { return s.Record("eu") }} {
		enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
			server.Do("FLUSHALL")
			return [2]engine.Cell{of(stores[0]), of(stores[1])}
		})
	}
	if found, _, err := stores[0].Record("us").Swap(t.Context(), nil, nil); found != nil || err != nil {
		t.Errorf("of another region: %q, %v", found, err)
	}
	server.Do("LPUSH", sharesKey, "of another program")
	if found, _, err := stores[0].Shares().Swap(t.Context(), nil, []byte("a")); err == nil {
		t.Errorf("where another program has written: %q", found)
	}
	server.Kill()
	if found, _, err := stores[0].Record("eu").Swap(t.Context(), nil, nil); err == nil {
		t.Errorf("without Redis: %q", found)
	}
}

// While the hash slot of a cell moves to another master, as one does for long if a reshard was interrupted, the value is
// found whether it has moved or not.
func cellOfAMovingSlot(t *testing.T, c *redistest.Cluster) {
	s := onCluster(t, c, Config{})
	here, moved := s.Record("eu"), s.Record("us")
	swap := func(cell engine.Cell, old, next, want string) {
		t.Helper()
		if found, now, err := cell.Swap(t.Context(), []byte(old), []byte(next)); string(found) != want || now == 0 || err != nil {
			t.Errorf("found %q at %d, %v; want %q", found, now, err, want)
		}
	}
	swap(here, "", "a", "")
	slot, from, to := journey(c, replicasKey)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	defer from.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	defer to.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	swap(here, "a", "b", "a")
	swap(here, "b", "c", "b")
	swap(moved, "", "A", "")
	swap(moved, "A", "B", "A")
}

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
	p := fixedPolicy(t, "r", 10)
	for _, key := range []string{"a", "b", "c", "d"} {
		if g := acquire(t, s, plenty, one(p, key))[0]; g.Granted != 1 || g.Remaining != 9 {
			t.Fatalf("before: %+v", g)
		}
		before, lost := ran(c.Nodes...), unavailable(s, "network")
		link := links[c.MasterOf(nameOf(p, key))]
		link.cutting.Store(true)
		g := acquire(t, s, plenty, one(p, key))[0]
		if cut := link.cut.Swap(0); g.Status != lease.Unavailable || cut != 1 {
			t.Fatalf("%+v, %d links were cut; want it unavailable, and one", g, cut)
		}
		time.Sleep(50 * time.Millisecond) // for what might be sent again
		if n := ran(c.Nodes...) - before; n != 1 {
			t.Errorf("%d scripts ran for one ask", n)
		}
		if n := unavailable(s, "network") - lost; n != 1 {
			t.Errorf("%d asks were lost to the network, want 1", n)
		}
		if left := remaining(t, s, p, key); left != 8 {
			t.Errorf("%d are left of 10 after two asks of which one had no answer, want 8", left)
		}
	}
}
