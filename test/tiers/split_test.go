package tiers

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

const splitRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [ { header: x-user } ], limit: 50/1d, algorithm: fixed_window,
      consistency: exact }
  - { name: leased, match: { path: /leased }, key: [ { header: x-user } ], limit: 50/1d, algorithm: fixed_window }
  - { name: roomy, match: { path: /roomy }, key: [ { header: x-user } ], limit: 1000000/1d, algorithm: fixed_window,
      consistency: exact }
`

const splitLimit = 50

// split is a region whose network falls apart: three masters with a replica each, and two replicas of the service. Side
// a keeps two masters, all replicas of Redis and one of the service; side b has the first master and the other service.
type split struct {
	t     *testing.T
	cable *cable
	redis *redistest.Cluster
	a, b  *replica
}

// The network between two sides of a region fails, and both sides go on serving.
//
// What is admitted then: the master on the minority side grants no more than the limit of a window, since it alone
// decides on its keys; it stops when the other masters have been silent for cluster-node-timeout. On the majority side
// its replica takes over with what it had received until the cut, and grants no more than the limit less that. So a
// window admits at most two limits, less what had been replicated. A service on either side asks no other master.
func TestRegionSplits(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	both := []string{"exact", "leased"}
	others := s.keys("others", both, func(slot int) bool { return !minority(slot) }, 2)
	mine := s.keys("mine", both, minority, 6)
	before := mine[:2]
	roomy := s.keys("roomy", []string{"roomy"}, minority, 1)[0]

	const spent = 20
	for _, key := range before {
		if n := s.a.take("exact", key, spent); n != spent {
			t.Fatalf("%d units of %s before the cut", n, key)
		}
	}
	proc.Eventually(t, 10*time.Second, "the replica has what was spent before", func() bool {
		return s.redis.Nodes[0].Info("replication")["master_repl_offset"] == s.redis.Nodes[3].Info("replication")["slave_repl_offset"]
	})

	s.cable.cut(t)
	all := append(slices.Clone(mine), others...)
	granted := map[want]int{}
	s.takeAll(s.b, all, granted) // by the master that is cut off
	s.await(s.a, roomy, true)    // the replica has taken over
	s.await(s.b, roomy, false)
	s.takeAll(s.a, all, granted)
	if slices.Max(slices.Collect(maps.Values(granted))) <= splitLimit {
		t.Errorf("no key is granted more than one limit: the region is not split: %v", granted)
	}
	s.cable.mend(t)
	s.await(s.b, roomy, true)
	s.takeAll(s.b, all, granted)
	for want, n := range granted {
		most := 2 * splitLimit
		if slices.Contains(others, want.key) {
			most = splitLimit
		} else if slices.Contains(before, want.key) && want.rule == "exact" {
			most -= 2 * spent // and spent before
		}
		if n > most {
			t.Errorf("%v: %d were granted in all, at most %d", want, n, most)
		}
	}
	for i := range 5 {
		key := s.keys(fmt.Sprint("healed-", i), both, minority, 1)[0]
		if a, b := s.a.take("exact", key, splitLimit/2), s.b.take("exact", key, splitLimit); a != splitLimit/2 || a+b > splitLimit || b == 0 {
			t.Errorf("after it healed the sides granted %d and %d of %d", a, b, splitLimit)
		}
	}
}

// want is a key of a rule.
type want struct{ rule, key string }

// takeAll takes what a side grants of keys of both rules, and adds it.
func (s *split) takeAll(side *replica, keys []string, granted map[want]int) {
	var mu sync.Mutex
	proc.Together(2*len(keys), func(i int) {
		w := want{[]string{"exact", "leased"}[i%2], keys[i/2]}
		n := side.take(w.rule, w.key, 2*splitLimit)
		mu.Lock()
		defer mu.Unlock()
		granted[w] += n
	})
}

// await waits until a side decides on a key, or does not.
func (s *split) await(side *replica, key string, decides bool) {
	s.t.Helper()
	h := side.newHolder()
	proc.Eventually(s.t, time.Minute, fmt.Sprintf("%s decides on %s: %v", side.Name, key, decides), func() bool {
		status, _, _, err := h.ask(s.t.Context(), "roomy", key)
		return (err == nil && status == quotav1.Status_STATUS_OK) == decides
	})
}

// minority reports whether the master of side b has a slot, as the cluster begins.
func minority(slot int) bool { return slot < redistest.HashSlots/3 }

// keys are so many keys whose slots are wanted in each of rules.
func (s *split) keys(prefix string, rules []string, wanted func(slot int) bool, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		if !slices.ContainsFunc(rules, func(rule string) bool { return !wanted(int(topology.SlotOf("weir:{" + rule + ":" + key + "}"))) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

func startSplit(t *testing.T) *split {
	t.Helper()
	s := &split{t: t, cable: newCable(t)}
	on := func(s *side) redistest.Place {
		return redistest.Place{Host: s.addr, Within: s.within(), Dial: s.dial}
	}
	a, b := s.cable.a, s.cable.b
	s.redis = redistest.StartCluster(t, 3, 1, redistest.NodeTimeout(5*time.Second), redistest.Args("--protected-mode", "no"),
		redistest.On(on(b), on(a), on(a), on(a), on(a), on(a)))
	s.a, s.b = s.startService(a, s.redis.Addrs()), s.startService(b, s.redis.Addrs())
	s.a.AwaitReady()
	s.b.AwaitReady()
	return s
}

func (s *split) startService(on *side, redis []string) *replica {
	s.t.Helper()
	r := newReplica(s.t, region.Config{
		Name: "weir-" + on.device, Addr: on.addr + ":8080", Admin: on.addr + ":8090",
		Rules: splitRules, Dial: on.dial, Command: func(argv []string) []string { return on.within(argv...) },
	}, redis)
	r.Begin()
	return r
}
