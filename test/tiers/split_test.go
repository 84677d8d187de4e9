package tiers

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// split is a region whose network falls apart: three masters with a replica each,
// and two replicas of the service. Side a keeps two masters, all replicas of Redis
// and one of the service; side b has the third master and the other service.
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
	var before, cut []string // keys of the minority's master
	both := []string{"exact", "leased"}
	others := s.keys("others", both, func(slot int) bool { return !minority.serves(slot) }, 4)
	mine := s.keys("mine", both, minority.serves, 14)
	before, cut = mine[:4], mine[4:]
	never := s.keys("never", []string{"roomy"}, minority.serves, 6) // spent

	const spent = 20
	s.spend(before, spent)
	l := startSplitLoad(s, wanted("roomy", s.keys("warm", []string{"roomy"}, func(int) bool { return true }, 8)))

	s.cable.cut(t)
	l.offer(wanted("exact", mine, others), wanted("leased", mine, others), wanted("roomy", never))
	l.awaitDecided(s.b, "exact", cut, 10*time.Second) // by the master that is cut off
	l.awaitDecided(s.b, "roomy", never, 10*time.Second)
	l.awaitDecided(s.a, "exact", cut, 30*time.Second) // by the replica that took over
	l.awaitSilence(s.b, "roomy", never, 20*time.Second)
	l.awaitDecided(s.a, "roomy", never, 10*time.Second)
	l.awaitDecided(s.a, "exact", others, 10*time.Second)
	proc.Eventually(t, 30*time.Second, "a key is granted more than one limit: the region is split", func() bool {
		return slices.ContainsFunc(cut, func(key string) bool { return l.both("exact", key) > splitLimit })
	})

	l.eachWithin()
	s.cable.mend(t)
	healed := time.Now()
	l.awaitDecided(s.b, "roomy", never, 60*time.Second)
	l.awaitDecided(s.b, "exact", mine, 60*time.Second)
	l.awaitDecided(s.b, "exact", others, 60*time.Second)
	t.Logf("side b decides again %v after the cable is whole", time.Since(healed).Round(10*time.Millisecond))
	time.Sleep(2 * time.Second) // both sides, on keys that were spent twice
	l.stop()

	for _, key := range cut {
		l.bounded("exact", key, 2*splitLimit)
		l.bounded("leased", key, 2*splitLimit)
	}
	for _, key := range before {
		l.bounded("exact", key, 2*splitLimit-2*spent) // and spent before the load
	}
	for _, key := range others {
		l.bounded("exact", key, splitLimit)
		l.bounded("leased", key, splitLimit)
	}

	for i := range 5 {
		key := s.keys(fmt.Sprint("healed-", i), both, minority.serves, 1)[0]
		if units, undecided := drained(t, "exact", key, s.a, s.b); units != splitLimit-uint64(undecided) && (undecided == 0 || units > splitLimit) {
			t.Errorf("after it healed both sides granted %d of %d (%d asks were not decided)", units, splitLimit, undecided)
		}
	}
}

// spend uses up so much of the keys of the minority's master, and waits until its
// replica has that.
func (s *split) spend(keys []string, units int) {
	s.t.Helper()
	h := s.a.newHolder()
	for _, key := range keys {
		h.take(s.t, "exact", key, units)
	}
	if got := s.redis(s.nodes[0], "WAIT", "1", "5000"); got != "1" {
		s.t.Fatalf("%s replicas have what was spent before, want 1", got)
	}
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
	proc.Start(s.t, proc.LogDir(s.t), fmt.Sprint("redis-", port), on.within(s.t, program, "--port", strconv.Itoa(port), "--bind", on.addr,
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

// form makes a cluster of the nodes, a third of the slots on each master, the
// first third on the minority's.
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
	argv := n.side.within(s.t, append([]string{"redis-cli", "-e", "-h", n.side.addr, "-p", strconv.Itoa(n.port)}, args...)...)
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *split) startService(on *side, redis []string) *replica {
	s.t.Helper()
	r := replicaOf(s.t, region.Config{
		Name: "weir-" + on.device, Addr: on.addr + ":8080", Admin: on.addr + ":8090",
		Rules: splitRules, Dial: on.dial, Command: func(argv []string) []string { return on.within(s.t, argv...) },
	}, redis)
	r.Begin()
	return r
}
