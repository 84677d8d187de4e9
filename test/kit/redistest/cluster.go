package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// HashSlots is how many hash slots a cluster has.
const HashSlots = 16384

// Cluster is a Redis Cluster. Its methods fail the test where they cannot do what
// they promise; they may be called from one goroutine at a time.
type Cluster struct {
	Nodes []*Server // the masters at first, then their replicas in turn
	t     proc.T
}

// StartCluster starts a cluster, its slots spread evenly over the masters, and
// waits until all nodes agree that it is well.
func StartCluster(t proc.T, masters, replicasEach int, opts ...Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	set := settingsOf(opts)
	for range masters * (1 + replicasEach) {
		c.Nodes = append(c.Nodes, newServer(t, "node", true, set))
	}
	for _, n := range c.Nodes {
		n.Begin()
	}
	for _, n := range c.Nodes {
		n.await()
	}
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1) // spares the nodes to settle it later
		if i < masters {
			n.Do("CLUSTER", "ADDSLOTSRANGE", i*HashSlots/masters, (i+1)*HashSlots/masters-1)
		}
	}
	c.meet()
	for i, n := range c.Nodes[masters:] {
		c.follow(n, c.Nodes[i%masters])
	}
	c.Await()
	return c
}

// meet introduces all to all, which is faster than waiting for gossip.
func (c *Cluster) meet() {
	c.t.Helper()
	for i, n := range c.Nodes {
		for _, other := range c.Nodes[i+1:] {
			n.Do("CLUSTER", "MEET", other.Host, other.Port, other.Bus)
		}
	}
}

// follow makes a node a replica of a master as soon as it sees that master.
func (c *Cluster) follow(replica, master *Server) {
	c.t.Helper()
	id := master.Do("CLUSTER", "MYID")
	proc.Await(c.t, startTimeout, replica.Name+" follows "+master.Name, func() string {
		_, err := replica.Try("CLUSTER", "REPLICATE", id)
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// Await waits until every node that runs finds the cluster well and all see the same: who has which slots, and replicas
// that have what their masters have. Of slots whose master is gone without a replica it asks no more than that all have
// noticed.
func (c *Cluster) Await() {
	c.t.Helper()
	proc.Await(c.t, startTimeout, "the cluster is well", c.missing)
}

func (c *Cluster) missing() string {
	running := c.running()
	views := make([]string, len(running))
	var all sync.WaitGroup
	for i, n := range running {
		all.Go(func() { views[i] = n.view(len(c.Nodes)) })
	}
	all.Wait()
	for i, v := range views {
		if v == "" || v[0] == '!' {
			return running[i].Addr + ": " + v
		}
		if v != views[0] {
			return fmt.Sprintf("%s sees %s, %s sees %s", running[0].Addr, views[0], running[i].Addr, v)
		}
	}
	return ""
}

// view is a node's own, the same for all that agree; from "!" on: what is wrong.
func (s *Server) view(nodes int) string {
	info, err := s.Try("CLUSTER", "INFO")
	if err != nil {
		return "!" + err.Error()
	}
	if state := fields(info); state["cluster_state"] != "ok" || state["cluster_slots_pfail"] != "0" ||
		state["cluster_known_nodes"] != strconv.Itoa(nodes) {
		return fmt.Sprintf("!%v", state)
	}
	repl, err := s.Try("INFO", "replication")
	if f := fields(repl); err != nil || f["role"] == "slave" && (f["master_link_status"] != "up" || f["slave_repl_offset"] == "0") {
		return "!replica not in step"
	}
	slots, err := s.slots()
	if err != nil {
		return "!" + err.Error()
	}
	return fmt.Sprint(slots)
}

// slots is how a node sees the cluster: ranges of slots in order, each with its master and then its replicas.
func (s *Server) slots() ([]redis.ClusterSlot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	//lint:ignore SA1019 Weir itself reads CLUSTER SLOTS
	all, err := s.client.ClusterSlots(ctx).Result()
	slices.SortFunc(all, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	for _, r := range all {
		slices.SortFunc(r.Nodes[1:], func(a, b redis.ClusterNode) int { return strings.Compare(a.Addr, b.Addr) })
	}
	return all, err
}

// running are the nodes that can answer.
func (c *Cluster) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Server) bool { return !n.Answers() })
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr
	}
	return addrs
}

// Node is the one at an address.
func (c *Cluster) Node(addr string) *Server {
	c.t.Helper()
	i := slices.IndexFunc(c.Nodes, func(n *Server) bool { return n.Addr == addr })
	if i < 0 {
		c.t.Fatalf("no node at %s", addr)
	}
	return c.Nodes[i]
}

// seen is how the first node that answers sees the cluster.
func (c *Cluster) seen() []redis.ClusterSlot {
	c.t.Helper()
	for _, n := range c.running() {
		if slots, err := n.slots(); err == nil {
			return slots
		}
	}
	c.t.Fatalf("no node of the cluster answers")
	return nil
}

// Masters are the nodes that have slots, in the order of Nodes.
func (c *Cluster) Masters() (masters []*Server) {
	c.t.Helper()
	seen := c.seen()
	for _, n := range c.Nodes {
		if slices.ContainsFunc(seen, func(r redis.ClusterSlot) bool { return r.Nodes[0].Addr == n.Addr }) {
			masters = append(masters, n)
		}
	}
	return masters
}

// MasterOf is who has a key.
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	slot, _ := c.running()[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	return c.OwnerOf(int(slot))
}

// OwnerOf is who has a slot.
func (c *Cluster) OwnerOf(slot int) *Server {
	c.t.Helper()
	owner := ownerOf(c.seen(), slot)
	if owner == "" {
		c.t.Fatalf("nobody has slot %d", slot)
	}
	return c.Node(owner)
}

// ownerOf is the address of who has a slot; empty: nobody.
func ownerOf(slots []redis.ClusterSlot, slot int) string {
	for _, r := range slots {
		if r.Start <= slot && slot <= r.End {
			return r.Nodes[0].Addr
		}
	}
	return ""
}

// ReplicasOf are those that follow a master.
func (c *Cluster) ReplicasOf(master *Server) (replicas []*Server) {
	c.t.Helper()
	for _, r := range c.seen() {
		if r.Nodes[0].Addr == master.Addr {
			for _, n := range r.Nodes[1:] {
				replicas = append(replicas, c.Node(n.Addr))
			}
		}
	}
	return replicas
}

// Calls is how often all nodes that answer were called for these commands.
func (c *Cluster) Calls(names ...string) (sum int64) {
	c.t.Helper()
	for _, n := range c.running() {
		stats := n.CommandStats()
		for _, name := range names {
			sum += stats[name].Calls
		}
	}
	return sum
}

// CPU is the processor time that all nodes have used.
func (c *Cluster) CPU() (sum time.Duration) {
	c.t.Helper()
	for _, n := range c.Nodes {
		sum += n.CPU()
	}
	return sum
}

// Memory is what all nodes use, in bytes, and how many keys they have.
func (c *Cluster) Memory() (bytes, keys int64) {
	c.t.Helper()
	for _, n := range c.Nodes {
		used, err := strconv.ParseInt(n.Info("memory")["used_memory"], 10, 64)
		fatal.If(c.t, err)
		size, _ := n.Do("DBSIZE").(int64)
		bytes, keys = bytes+used, keys+size
	}
	return bytes, keys
}

// Dump is all that the cluster keeps, as text: keys and values, and the commands in the slow log.
func (c *Cluster) Dump() string {
	c.t.Helper()
	read := map[any][]any{
		"string": {"GET", nil}, "hash": {"HGETALL", nil}, "list": {"LRANGE", nil, 0, -1}, "set": {"SMEMBERS", nil},
		"zset": {"ZRANGE", nil, 0, -1, "WITHSCORES"}, "stream": {"XRANGE", nil, "-", "+"}, "none": {"TYPE", nil}, // has expired
	}
	text := new(strings.Builder)
	for _, n := range c.Nodes {
		keys, _ := n.Do("KEYS", "*").([]any)
		for _, key := range keys {
			command := read[n.Do("TYPE", key)]
			command[1] = key
			fmt.Fprintln(text, key, n.Do(command...))
		}
		fmt.Fprintln(text, n.Do("SLOWLOG", "GET", "-1"))
	}
	return text.String()
}
