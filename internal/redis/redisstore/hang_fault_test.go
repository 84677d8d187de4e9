package redisstore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A node that hangs: its queue fills and overflows, its callers leave after one timeout, its breaker opens, the other
// nodes go on, and when it runs again it is asked again without anybody doing anything.
func nodeThatHangs(t *testing.T, c *redistest.Cluster) {
	const timeout = 4 * time.Second // other nodes may take as long, on a busy machine
	s, links := linked(t, c, Config{Redis: topology.Config{Timeout: timeout}, Queue: 64})
	p := fixedPolicy(t, "r", 1_000_000)
	hanging, well := keysOn(c, p, c.Nodes[0])
	ask := func(keys []string, i int) lease.Grant { return acquire(t, s, plenty, one(p, keys[i%len(keys)]))[0] }
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
	for i := range 100 {
		if g := ask(well, i); g.Status != lease.OK {
			t.Fatalf("a key of another node: %+v", g)
		}
	}
	callers.Wait()
	// One more timeout is what who queues behind a pipeline would wait if the first one did not open the breaker.
	if took := time.Since(begin); took > timeout*3/2 {
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

// keysOn makes 40 keys that a node serves, and 40 that others do.
func keysOn(c *redistest.Cluster, p *engine.Policy, n *redistest.Server) (there, elsewhere []string) {
	for i := 0; len(there) < 40 || len(elsewhere) < 40; i++ {
		if key := fmt.Sprint("key", i); c.MasterOf(nameOf(p, key)) == n {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	return there, elsewhere
}
