package tiers

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb"
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
// a keeps two masters, all replicas of Redis and one of the service; side b has the third master and the other service.
type split struct {
	t     *testing.T
	cable *cable
	nodes []*clusterNode // minority, then the other masters, then replicas in this order
	a, b  *replica
}

// clusterNode is a redis-server on one side.
type clusterNode struct {
	side *side
	port int
	id   string
}

func (n *clusterNode) addr() string { return net.JoinHostPort(n.side.addr, strconv.Itoa(n.port)) }

// The network between two sides of a region fails, and both sides go on serving.
//
// What is admitted then: the master on the minority side grants no more than the
// limit of a window, since it alone decides on its keys; it stops when the
// other masters have been silent for cluster-node-timeout. On the majority side its
// replica takes over with what it had received until the cut, and grants no more
// than the limit less that. So a window admits at most two limits, less what had
// been replicated. A service on either side asks no other master.
func TestRegionSplits(t *testing.T) {
	t.Parallel()
	s := startSplit(t)
	minority := s.nodes[0]
	both := []string{"exact", "leased"}
	others := s.keys("others", both, func(slot int) bool { return !minority.serves(slot) }, 2)
	mine := s.keys("mine", both, minority.serves, 6)
	before := mine[:2]
	roomy := s.keys("roomy", []string{"roomy"}, minority.serves, 1)[0]

	const spent = 20
	for _, key := range before {
		if n := s.a.take("exact", key, spent); n != spent {
			t.Fatalf("%d units of %s before the cut", n, key)
		}
	}
	if got := s.redis(minority, "WAIT", "1", "5000"); got != "1" {
		t.Fatalf("%s replicas have what was spent before, want 1", got)
	}

	s.cable.cut(t)
	all := append(slices.Clone(mine), others...)
	granted := s.takeAll(s.b, all) // by the master that is cut off
	s.await(s.a, roomy, true)      // the replica has taken over
	s.await(s.b, roomy, false)
	split := false
	for want, n := range s.takeAll(s.a, all) {
		granted[want] += n
		split = split || granted[want] > splitLimit
	}
	if !split {
		t.Errorf("no key is granted more than one limit: the region is not split: %v", granted)
	}
	s.cable.mend(t)
	s.await(s.b, roomy, true)
	for want, n := range s.takeAll(s.b, all) {
		granted[want] += n
	}
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
		key := s.keys(fmt.Sprint("healed-", i), both, minority.serves, 1)[0]
		if a, b := s.a.take("exact", key, splitLimit/2), s.b.take("exact", key, splitLimit); a != splitLimit/2 || a+b > splitLimit || b == 0 {
			t.Errorf("after it healed the sides granted %d and %d of %d", a, b, splitLimit)
		}
	}
}

// want is a key of a rule.
type want struct{ rule, key string }

// takeAll takes what a side grants of keys of both rules.
func (s *split) takeAll(side *replica, keys []string) map[want]int {
	granted, mu := map[want]int{}, new(sync.Mutex)
	proc.Together(2*len(keys), func(i int) {
		w := want{[]string{"exact", "leased"}[i%2], keys[i/2]}
		n := side.take(w.rule, w.key, 2*splitLimit)
		mu.Lock()
		defer mu.Unlock()
		granted[w] = n
	})
	return granted
}

// await waits until a side decides on a key, or does not.
func (s *split) await(side *replica, key string, decides bool) {
	s.t.Helper()
	h := side.newHolder()
	proc.Eventually(s.t, time.Minute, fmt.Sprintf("%s decides on %s: %v", side.Name, key, decides), func() bool {
		status, _, _, err := h.ask(s.t.Context(), "roomy", key)
		return (err == nil && status == quotapb.Status_STATUS_OK) == decides
	})
}

// serves reports whether the node has a slot, as the cluster begins.
func (n *clusterNode) serves(slot int) bool { return slot < redistest.HashSlots/3 }

// keys are so many keys whose slots are wanted in each of rules.
func (s *split) keys(prefix string, rules []string, wanted func(slot int) bool, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		if !slices.ContainsFunc(rules, func(rule string) bool { return !wanted(redistest.HashSlot("weir:{" + rule + ":" + key + "}")) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

func startSplit(t *testing.T) *split {
	t.Helper()
	s := &split{t: t, cable: newCable(t)}
	a, b := s.cable.a, s.cable.b
	for i, on := range []*side{b, a, a, a, a, a} {
		s.nodes = append(s.nodes, s.startNode(on, 7001+i))
	}
	s.form()
	var addrs []string
	for _, n := range s.nodes {
		addrs = append(addrs, n.addr())
	}
	s.a, s.b = s.startService(a, addrs), s.startService(b, addrs)
	s.a.AwaitReady()
	s.b.AwaitReady()
	return s
}

func (s *split) startNode(on *side, port int) *clusterNode {
	s.t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redis-server is not installed: run `make setup`")
	}
	proc.Start(s.t, proc.LogDir(s.t), fmt.Sprint("redis-", port), on.within(program, "--port", strconv.Itoa(port), "--bind", on.addr,
		"--protected-mode", "no", "--dir", s.t.TempDir(), "--save", "", "--cluster-enabled", "yes",
		"--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")...)
	n := &clusterNode{side: on, port: port}
	proc.Eventually(s.t, 30*time.Second, fmt.Sprint("redis on port ", port, " answers"), func() bool {
		n.id, err = s.try(n, "CLUSTER", "MYID")
		return err == nil && len(n.id) == 40
	})
	return n
}

// form makes a cluster of the nodes, a third of the slots on each master, the first third on the minority's.
func (s *split) form() {
	s.t.Helper()
	for i, n := range s.nodes {
		s.redis(n, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < 3 {
			s.redis(n, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*redistest.HashSlots/3), strconv.Itoa((i+1)*redistest.HashSlots/3-1))
		}
	}
	for i, n := range s.nodes {
		for _, other := range s.nodes[i+1:] {
			s.redis(n, "CLUSTER", "MEET", other.side.addr, strconv.Itoa(other.port))
		}
	}
	for i, n := range s.nodes[3:] {
		proc.Eventually(s.t, 30*time.Second, n.addr()+" follows its master", func() bool {
			printed, err := s.try(n, "CLUSTER", "REPLICATE", s.nodes[i].id)
			return err == nil && printed == "OK"
		})
	}
	for _, n := range s.nodes {
		proc.Eventually(s.t, 30*time.Second, n.addr()+" finds the cluster well", func() bool {
			info, _ := s.try(n, "CLUSTER", "INFO")
			nodes, _ := s.try(n, "CLUSTER", "NODES")
			replication, _ := s.try(n, "INFO", "replication")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:6") &&
				strings.Count(nodes, "slave "+s.nodes[0].id)+strings.Count(nodes, "slave "+s.nodes[1].id)+strings.Count(nodes, "slave "+s.nodes[2].id) == 3 &&
				!strings.Contains(replication, "master_link_status:down")
		})
	}
}

// redis runs a command on a node and returns what redis-cli prints.
func (s *split) redis(n *clusterNode, args ...string) string {
	s.t.Helper()
	out, err := s.try(n, args...)
	if err != nil {
		s.t.Fatalf("%s: %v: %v: %s", n.addr(), args, err, out)
	}
	return out
}

func (s *split) try(n *clusterNode, args ...string) (string, error) {
	s.t.Helper()
	argv := n.side.within(append([]string{"redis-cli", "-e", "-h", n.side.addr, "-p", strconv.Itoa(n.port)}, args...)...)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *split) startService(on *side, redis []string) *replica {
	s.t.Helper()
	r := replicaOf(s.t, region.Config{
		Name: "weir-" + on.device, Addr: on.addr + ":8080", Admin: on.addr + ":8090",
		Rules: splitRules, Dial: on.dial, Command: func(argv []string) []string { return on.within(argv...) },
	}, redis)
	r.Begin()
	return r
}
