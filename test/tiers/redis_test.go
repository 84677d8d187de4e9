package tiers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

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
	proc.Eventually(t, 20*time.Second, "keys are decided again", func() bool {
		status, _, _, err := h.ask(t.Context(), "exact", fmt.Sprint("again-", time.Now().UnixNano()))
		return err == nil && status == quotav1.Status_STATUS_OK
	})
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
