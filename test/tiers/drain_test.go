package tiers

import (
	"strings"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

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
		r := newReplica(t, region.Config{Name: name, Rules: drainRules, Flags: []string{"--redis-timeout", "1s"}}, c.Addrs()) // on a busy machine
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
	return fatal.Get(h.Acquire(t.Context(), 2*time.Second, wants...))(t)
}
