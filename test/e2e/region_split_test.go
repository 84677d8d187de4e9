package e2e

import (
	"context"
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
	"github.com/weirlimit/weir/regional/redisstore/redistest"
	"github.com/weirlimit/weir/test/stack"
)

const splitRules = `
rules:
  - name: exact
    match: { path: /exact }
    key: [ { header: x-user } ]
    limit: 50/1d
    algorithm: fixed_window
    consistency: exact
  - name: leased
    match: { path: /leased }
    key: [ { header: x-user } ]
    limit: 50/1d
    algorithm: fixed_window
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
// limit of a window, since it alone decides on its keys; it stops when it has not
// heard of the other masters for cluster-node-timeout. On the majority side its
// replica takes over with what it had received until the cut, and grants no more
// than the limit less that. So a window admits at most two limits, less what had
// been replicated. A service on either side asks no other master.
func TestRegionSplits(t *testing.T) {
	s := startSplit(t)
	minority := s.nodes[0]
	var before, cut []string // keys of the minority's master
	others := s.keys("others", func(slot int) bool { return !minority.serves(slot) }, 4)
	mine := s.keys("mine", minority.serves, 14)
	before, cut = mine[:4], mine[4:]

	const spent = 20
	h := s.a.newHolder()
	for _, key := range before {
		for range spent {
			if status, granted, _, err := h.ask(t.Context(), "exact", key); granted != 1 {
				t.Fatalf("%s before the cut: %v, %v", key, status, err)
			}
		}
	}
	if got := s.redis(minority, "WAIT", "1", "5000"); got != "1" {
		t.Fatalf("%s replicas have what was spent before, want 1", got)
	}

	s.cable.cut(t)
	l := startSplitLoad(s, append(slices.Clone(mine), others...))
	l.awaitDecided(s.b, cut, 10*time.Second) // by the master that is cut off
	l.awaitDecided(s.a, cut, 30*time.Second) // by the replica that took over
	l.awaitSilence(s.b, mine, 20*time.Second)
	l.awaitDecided(s.a, others, 10*time.Second)

	l.eachWithin()
	s.cable.mend(t)
	healed := time.Now()
	l.awaitDecided(s.b, mine, 60*time.Second)
	l.awaitDecided(s.b, others, 60*time.Second)
	t.Logf("side b decides again %v after the cable is whole", time.Since(healed).Round(10*time.Millisecond))
	time.Sleep(2 * time.Second) // both sides, on keys that were spent twice
	l.stop()

	twice := 0
	for _, key := range cut {
		twice += l.bounded("exact", key, 2*splitLimit) + l.bounded("leased", key, 2*splitLimit)
	}
	if twice == 0 {
		t.Error("no key was granted more than one limit: nothing was split")
	}
	for _, key := range before {
		l.bounded("exact", key, 2*splitLimit-2*spent) // and spent before the load
	}
	for _, key := range others {
		l.bounded("exact", key, splitLimit)
		l.bounded("leased", key, splitLimit)
	}
	l.inTime()

	for i := range 5 {
		key := s.keys(fmt.Sprint("healed-", i), minority.serves, 1)[0]
		if units, undecided := drained(t, "exact", key, s.a, s.b); units != splitLimit-uint64(undecided) && (undecided == 0 || units > splitLimit) {
			t.Errorf("after it healed both sides granted %d of %d (%d asks were not decided)", units, splitLimit, undecided)
		}
	}
}

// serves says whether the node has a slot, as the cluster begins.
func (n *clusterNode) serves(slot int) bool { return slot < redistest.Slots/3 }

// keys are so many keys of both rules whose slots are wanted.
func (s *split) keys(prefix string, wanted func(slot int) bool, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("%s-%d", prefix, i)
		if wanted(redistest.Slot("weir:{exact:"+key+"}")) && wanted(redistest.Slot("weir:{leased:"+key+"}")) {
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
	s.a.awaitReady()
	s.b.awaitReady()
	return s
}

func (s *split) startNode(on *side, port int) *clusterNode {
	s.t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatal("redis-server is not installed: run `make setup`")
	}
	stack.Run(s.t, fmt.Sprint("redis-", port), on.within(s.t, program, "--port", strconv.Itoa(port), "--bind", on.addr,
		"--protected-mode", "no", "--dir", s.t.TempDir(), "--save", "", "--cluster-enabled", "yes",
		"--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")...)
	n := &clusterNode{side: on, port: port}
	stack.Eventually(s.t, 30*time.Second, fmt.Sprint("redis on port ", port, " answers"), func() bool {
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
			s.redis(n, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*redistest.Slots/3), strconv.Itoa((i+1)*redistest.Slots/3-1))
		}
	}
	for i, n := range s.nodes {
		for _, other := range s.nodes[i+1:] {
			s.redis(n, "CLUSTER", "MEET", other.side.addr, strconv.Itoa(other.port))
		}
	}
	for i, n := range s.nodes[3:] {
		stack.Eventually(s.t, 30*time.Second, n.addr()+" follows its master", func() bool {
			said, err := s.try(n, "CLUSTER", "REPLICATE", s.nodes[i].id)
			return err == nil && said == "OK"
		})
	}
	for _, n := range s.nodes {
		stack.Eventually(s.t, 30*time.Second, n.addr()+" finds the cluster well", func() bool {
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
	r := &replica{t: s.t, name: "weir-" + on.device, quota: on.addr + ":8080", admin: on.addr + ":8090"}
	r.connectBy(on.dial)
	r.argv = on.within(s.t, r.command(splitRules, redis)...)
	r.begin()
	return r
}

// splitLoad asks for keys on both sides, all the time.
type splitLoad struct {
	t    *testing.T
	stop func()

	mu      sync.Mutex
	granted map[grantee]int
	last    map[grantee]time.Time // when each was decided on last
	calls   []period
	stalls  []period // in which the machine itself was late: timers of this process were
}

// period is from when until when.
type period struct{ from, until time.Time }

// grantee is a key of a rule on one side.
type grantee struct {
	side      *replica
	rule, key string
}

func startSplitLoad(s *split, keys []string) *splitLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &splitLoad{t: s.t, granted: map[grantee]int{}, last: map[grantee]time.Time{}}
	var all sync.WaitGroup
	for _, side := range []*replica{s.a, s.b} {
		for worker := range 6 {
			all.Go(func() {
				h := side.newHolder()
				for i := worker; ctx.Err() == nil; i++ {
					l.ask(ctx, h, []string{"exact", "leased"}[i%2], keys[i/2%len(keys)])
				}
			})
		}
	}
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				l.nap()
			}
		})
	}
	stop := sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	s.t.Cleanup(stop)
	l.stop = stop
	return l
}

func (l *splitLoad) ask(ctx context.Context, h *holder, rule, key string) {
	status, granted, took, err := h.ask(ctx, rule, key)
	end := time.Now()
	who := grantee{h.of, rule, key}
	l.mu.Lock()
	l.granted[who] += int(granted)
	if status == quotapb.Status_STATUS_OK || status == quotapb.Status_STATUS_DENIED {
		l.last[who] = time.Now()
	}
	if ctx.Err() == nil {
		l.calls = append(l.calls, period{end.Add(-took), end})
	}
	l.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		l.t.Errorf("%s: %v", h.of.name, err)
	}
	time.Sleep(2 * time.Millisecond)
}

// awaitDecided waits until a side has decided on all of keys after now.
func (l *splitLoad) awaitDecided(side *replica, keys []string, within time.Duration) {
	l.t.Helper()
	from := time.Now()
	stack.Eventually(l.t, within, side.name+" decides on "+keys[0]+" and its like", func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !l.lastly(side, key).After(from) })
	})
}

// awaitSilence waits until a side has decided on none of keys for a second. What
// was denied may stay so, from memory.
func (l *splitLoad) awaitSilence(side *replica, keys []string, within time.Duration) {
	l.t.Helper()
	stack.Eventually(l.t, within, side.name+" decides no more on some of "+keys[0]+" and its like", func() bool {
		return slices.ContainsFunc(keys, func(key string) bool { return time.Since(l.lastly(side, key)) > time.Second })
	})
}

// lastly is when a side decided on a key of the exact rule.
func (l *splitLoad) lastly(side *replica, key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[grantee{side, "exact", key}]
}

// eachWithin fails if a side alone was granted more than a limit of any key. That
// holds while each side has one master for it: a side that has both after another
// may be granted the rest of the second limit, too.
func (l *splitLoad) eachWithin() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, n := range l.granted {
		if n > splitLimit {
			l.t.Errorf("%s %s: %s granted %d of %d", who.rule, who.key, who.side.name, n, splitLimit)
		}
	}
}

// bounded fails if a key was granted more than most on both sides. It returns 1 if
// that was more than one limit: both sides served it apart from each other.
func (l *splitLoad) bounded(rule, key string, most int) (twice int) {
	l.t.Helper()
	total := 0
	for who, n := range l.granted {
		if who.rule == rule && who.key == key {
			total += n
		}
	}
	switch {
	case total > most:
		l.t.Errorf("%s %s: %d were granted in all, at most %d", rule, key, total, most)
	case total > splitLimit:
		return 1
	}
	return 0
}

// nap waits as a call does that nobody answers, and notes when it was woken late.
func (l *splitLoad) nap() {
	const nap, late = 10 * time.Millisecond, 10 * time.Millisecond
	begin := time.Now()
	time.Sleep(nap)
	if end := time.Now(); end.Sub(begin) > nap+late {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stalls = append(l.stalls, period{begin, end})
	}
}

// inTime: 999 of 1,000 calls return within their budget and 20 ms, leaving out those
// that the machine itself held up.
func (l *splitLoad) inTime() {
	l.t.Helper()
	var took []time.Duration
	for _, c := range l.calls {
		if !slices.ContainsFunc(l.stalls, func(s period) bool { return s.from.Before(c.until) && c.from.Before(s.until) }) {
			took = append(took, c.until.Sub(c.from))
		}
	}
	if len(took) == 0 {
		l.t.Fatal("the machine stood still all the time")
	}
	slices.Sort(took)
	got, most := took[len(took)*999/1000], callBudget+20*time.Millisecond
	if got > most {
		l.t.Errorf("p99.9 of %d calls took %v, at most %v", len(took), got, most)
	}
	l.t.Logf("%d calls, %d of them held up by the machine, p99.9 of the others %v", len(l.calls), len(l.calls)-len(took), got)
}
