// Package tiers runs weir-regional and weir-global as real processes, without an Envoy, through what happens to
// them: Redis restarts and splits, clocks are wrong, networks swallow packets, replicas end.
package tiers

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// TestMain lets four tests run at once, also on a machine of two cores: they mostly wait.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}

// replica is one of several weir-regional that share a Redis.
type replica struct {
	*region.Region
	t *testing.T
}

// newReplica prepares a replica that is to run by cfg.
func newReplica(t *testing.T, cfg region.Config, redis []string) *replica {
	t.Helper()
	proc.AwaitDay()
	cfg.Dir = proc.LogDir(t)
	cfg.Flags = append([]string{"--redis", strings.Join(redis, ",")}, cfg.Flags...)
	return &replica{region.New(t, cfg), t}
}

// holder asks a replica for units, one call after the other.
type holder struct {
	*region.Worker
	budget time.Duration
}

func (r *replica) newHolder() *holder {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &holder{region.NewWorker(r.HTTP, r.Addr, "", id, 0), callBudget}
}

// callBudget is how long a call may take, unless its holder has another budget. The caller itself
// waits on, to see that the answer comes in time.
const callBudget = 100 * time.Millisecond

// ask asks for one unit of a key. granted is 0 or 1; took is how long it took.
func (h *holder) ask(ctx context.Context, rule, key string) (status quotav1.Status, granted uint64, took time.Duration, err error) {
	begin := time.Now()
	grants, err := h.Acquire(ctx, h.budget, region.Single(rule, []byte(key)))
	took = time.Since(begin)
	if err != nil {
		return 0, 0, took, err
	}
	return grants[0].GetStatus(), grants[0].GetGranted(), took, nil
}

// take takes single units of a key, until there are so many, one is denied, or nothing was decided for two
// seconds. An ask that a busy machine did not decide in time may have cost a unit.
func (r *replica) take(rule, key string, most int) (granted int) {
	h := r.newHolder()
	for decided := time.Now(); granted < most && time.Since(decided) < 2*time.Second; {
		status, n, _, _ := h.ask(r.t.Context(), rule, key)
		granted += int(n)
		switch status {
		case quotav1.Status_STATUS_DENIED:
			return granted
		case quotav1.Status_STATUS_OK:
			decided = time.Now()
		}
	}
	return granted
}

const drainRules = `
rules:
  - { name: leased, match: { path: /leased }, key: [ { header: x-user } ], limit: 10000/1d, algorithm: fixed_window }
`

// What a replica has on lease at SIGTERM is the other's as soon as it has
// ended: not ten seconds later, when its leases would have.
func TestReplicaThatEndsLeavesItsUnits(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	start := func(name string) *replica {
		r := newReplica(t, region.Config{Name: name, Rules: drainRules, Flags: []string{"--redis-timeout", "10s"}}, c.Addrs()) // on a busy machine
		r.Start()
		return r
	}
	one, two := start("replica-1"), start("replica-2")
	keys := []string{"a", "b", "c", "d", "e", "f"} // on every node
	h := one.newHolder()
	const each = 40
	for range each {
		for i, g := range h.askAll(t, keys, 1) {
			if g.GetGranted() != 1 {
				t.Fatalf("one of 10,000 for %s: %v", keys[i], g)
			}
		}
	}
	one.Stop()
	if log := one.Log(); !strings.Contains(log, "returned unspent leases") {
		t.Errorf("the log has nothing that was given back:\n%s", log)
	}
	for i, g := range two.newHolder().askAll(t, keys, 10_000-each) {
		if g.GetGranted() != 10_000-each {
			t.Errorf("all but the %d of 10,000 for %s that were spent: %v", each, keys[i], g)
		}
	}
}

// askAll asks for so many units of each key in one call, which may take its time.
func (h *holder) askAll(t *testing.T, keys []string, units uint64) []*quotav1.Grant {
	t.Helper()
	var wants []*quotav1.Want
	for _, key := range keys {
		wants = append(wants, &quotav1.Want{Rule: "leased", Key: []byte(key), Need: units, Waiting: units, Want: units})
	}
	return fatal.Get(h.Acquire(t.Context(), 15*time.Second, wants...))(t)
}

// The windows last a day, so that none ends within a test: see proc.AwaitDay.
const sharedRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [ { header: x-user } ], limit: 60/1d, algorithm: fixed_window,
      consistency: exact }
`

const sharedLimit = 60

// A replica that starts without Redis is not ready, and states the reason. Once Redis has answered it is, and stays so
// when Redis fails: each rule's on_failure needs somebody who carries it out. Nothing is decided then but what was
// denied before, every call returns in time, and metrics show what is wrong. When Redis is back, empty, limits hold
// again, and nobody had to do anything.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	r := newReplica(t, region.Config{Name: "replica", Rules: sharedRules}, c.Addrs())
	killAll(c)
	r.Begin()
	proc.Eventually(t, 20*time.Second, "the replica is not ready, and states that Redis does not answer", func() bool {
		status, text := r.Ready()
		return status == http.StatusServiceUnavailable && strings.Contains(text, c.Nodes[0].Addr) && strings.Contains(text, "refused")
	})
	restartAll(c)
	r.AwaitReady()
	if units := r.take("exact", "spent", 2*sharedLimit); units > sharedLimit {
		t.Fatalf("granted %d of %d", units, sharedLimit)
	}

	killAll(c)
	h := r.newHolder()
	proc.Eventually(t, 10*time.Second, "metrics show that Redis is away", func() bool {
		for i := range 20 { // on every node
			_, _, _, _ = h.ask(t.Context(), "exact", fmt.Sprint("somebody asks ", i)) // whatever the answer is
		}
		m := r.Metrics()
		return m["weir_redis_breakers_open"] == 3 && m[`weir_redis_unavailable_total{reason="network"}`] > 0
	})
	if status, text := r.Ready(); status != http.StatusOK {
		t.Errorf("/readyz: %d %s; want ready, for on_failure", status, text)
	}
	h.budget = 10 * time.Second // for a busy machine
	for i := range 100 {
		if status, granted, _, err := h.ask(t.Context(), "exact", fmt.Sprint("new-", i)); status != quotav1.Status_STATUS_UNAVAILABLE || granted != 0 {
			t.Fatalf("a new key without Redis: %v, %d units, %v; want unavailable", status, granted, err)
		}
	}
	if n := r.Metrics()[`weir_redis_unavailable_total{reason="breaker"}`]; n < 90 {
		t.Errorf("the breaker rejected %v of 100 asks: the others waited for Redis", n)
	}

	restartAll(c)
	proc.Eventually(t, 20*time.Second, "a limit holds again", func() bool {
		return r.take("exact", fmt.Sprint("after-", time.Now().UnixNano()), 2*sharedLimit) == sharedLimit
	})
}

func killAll(c *redistest.Cluster) {
	for _, n := range c.Nodes {
		n.Kill()
	}
}

func restartAll(c *redistest.Cluster) {
	for _, n := range c.Nodes {
		n.Restart()
	}
	c.Await()
}
