package redisstore

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// While a pipeline is under way, asks gather, and all of them travel in the next one. A queue that is full answers at once.
func TestAsksGather(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := newProxy(t, server.Addr)
	const room = 10
	s := start(t, Config{Redis: topology.Config{Addrs: []string{link.addr}, Timeout: 20 * time.Second}, Lanes: 1, Queue: room})
	p := fixedPolicy(t, "r", 1000)
	acquire(t, s, plenty, one(p, "k"))
	resume := link.hangScripts(t)
	before := metric(s, "pipelines_total")
	var all sync.WaitGroup
	all.Go(func() { acquire(t, s, 2*plenty, one(p, "first")) })
	arrived(t, server, nameOf(p, "first"))
	for i := range room / 2 {
		all.Go(func() {
			if g := acquire(t, s, 2*plenty, one(p, fmt.Sprint("k", i)))[0]; g.Granted != 1 {
				t.Errorf("%+v", g)
			}
		})
	}
	queued := func(n, full int) {
		t.Helper()
		eventually(t, func() (bool, any) {
			waits, rejected := metric(s, "queued"), unavailable(s, "queue_full")
			return waits == n && rejected == full, fmt.Sprintf("%d wait, %d were rejected", waits, rejected)
		})
	}
	queued(room/2, 0)
	var grants []lease.Grant
	all.Go(func() {
		grants = acquire(t, s, 2*plenty, slices.Repeat([]engine.Ask{one(p, "k")}, 20)...)
	})
	queued(room, 15)
	resume()
	all.Wait()
	if got := statusOf(grants); got != "5 ok, 0 denied, 15 unavailable" {
		t.Errorf("20 asks for room for 5: %s", got)
	}
	if got := metric(s, "pipelines_total") - before; got != 2 {
		t.Errorf("%d asks, one of them ahead, made %d pipelines, want 2", room+1, got)
	}
}

// A caller leaves when its time is over, with what has been decided by then.
func callerLeavesInTime(t *testing.T, c *redistest.Cluster) {
	s, links := linked(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}})
	p := fixedPolicy(t, "late", 1000)
	var asks []engine.Ask
	slow := map[int]bool{}
	for i := range 60 {
		asks = append(asks, one(p, fmt.Sprint("k", i)))
		slow[i] = c.MasterOf(nameOf(p, fmt.Sprint("k", i))) == c.Nodes[2]
	}
	acquire(t, s, plenty, asks...) // connects
	resume := links[c.Nodes[2]].hang(t)
	const budget = 8 * time.Second // enough for the others, on a busy machine
	begin := time.Now()
	grants := acquire(t, s, budget, asks...)
	if took := time.Since(begin); took < budget-10*time.Millisecond || took > budget+10*time.Second { // the store itself has 20 s
		t.Errorf("it took %v, want the %v that it had", took, budget)
	}
	for i, g := range grants {
		want := lease.OK
		if slow[i] {
			want = lease.Unavailable
		}
		if g.Status != want {
			t.Errorf("ask %d: %+v, slow %v", i, g, slow[i])
		}
	}
	if n := unavailable(s, "deadline"); fmt.Sprintf("%d ok, 0 denied, %d unavailable", 60-n, n) != statusOf(grants) || n == 0 {
		t.Errorf("%d were too late: %s", n, statusOf(grants))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := metric(s, "commands_total")
	s.Acquire(ctx, asks, grants)
	if got := statusOf(grants); got != "0 ok, 0 denied, 60 unavailable" || metric(s, "commands_total") != before {
		t.Errorf("a call whose time is over: %s", got)
	}

	resume() // what it was too late for is decided now, and goes back
	for i := range asks {
		eventually(t, func() (bool, any) {
			left := remaining(t, s, p, fmt.Sprint("k", i))
			return left == 999 || !slow[i] && left == 998, fmt.Sprintf("%d of 1000 are left: what nobody waited for was not given back", left)
		})
	}
}

// What an operator looks at stays where it is, also if the operator has gone when the answer comes.
func TestLookOfACallerThatHasGone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	link := newProxy(t, server.Addr)
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}, Timeout: 20 * time.Second, Dial: through(map[string]*proxy{server.Addr: link})}})
	p := policyOf(t, "r", limit.Spec{Count: 1000, Period: 300 * limit.Day})
	p.Terms.Consistency = lease.Leased
	look := engine.Ask{Policy: p, Key: []byte("k"), Op: engine.Look}
	lent := acquire(t, s, plenty, engine.Ask{Policy: p, Key: look.Key, Want: lease.Want{Want: 50}})[0]
	if lent.Granted != 50 {
		t.Fatalf("%+v", lent)
	}
	resume := link.hang(t)
	g := acquire(t, s, 50*time.Millisecond, look)[0]
	resume()
	if g.Status != lease.Unavailable {
		t.Errorf("behind a node that hangs: %+v", g)
	}
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		if g := acquire(t, s, plenty, look)[0]; g.Status != lease.OK || g.Granted != 50 || g.Remaining != 950 || g.TTL <= 0 {
			t.Fatalf("%+v, want 950 left and 50 on lease", g)
		}
	}
}

// Before Run and after it nothing is decided, and nobody waits.
func TestNotRunning(t *testing.T) {
	server := redistest.Start(t)
	s := fatal.Get(New(Config{Redis: topology.Config{Addrs: []string{server.Addr}, Timeout: 5 * time.Second}}))(t)
	p := fixedPolicy(t, "r", 10)
	idle := func(when string) {
		t.Helper()
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if g := acquire(t, s, plenty, one(p, "k"))[0]; g.Status != lease.Unavailable || s.Ready(done) == nil {
			t.Errorf("%s Run: %+v, ready: %v", when, g, s.Ready(done))
		}
	}
	idle("before")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	before := runtime.NumGoroutine()
	go func() { ended <- s.Run(ctx) }()
	fatal.If(t, s.Ready(t.Context()))
	decides(t, s, p, "k", lease.OK)
	stop()
	fatal.If(t, <-ended)
	idle("after")
	eventually(t, func() (bool, any) {
		n := runtime.NumGoroutine()
		return n <= before, fmt.Sprintf("%d goroutines are left over", n-before)
	})
}
