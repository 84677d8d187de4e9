package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	if f := fields(repl); err != nil || f["role"] == "slave" && f["master_link_status"] != "up" {
		return "!replica not in step"
	}
	members, err := s.members()
	if err != nil {
		return "!" + err.Error()
	}
	var b strings.Builder
	for _, m := range members {
		if strings.Contains(m.flags, "handshake") || strings.Contains(m.flags, "fail?") {
			return "!" + m.addr + " is " + m.flags
		}
		fmt.Fprintf(&b, "%s of %q has %v; ", m.addr, m.master, m.slots)
	}
	return b.String()
}

// member is a line of CLUSTER NODES.
type member struct {
	id, addr, master string // master: the id of whom it follows, "-" for a master
	flags            string
	slots            [][2]int // from, to
}

func (m *member) has(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

// members is how a node sees the cluster, ordered by address.
func (s *Server) members() ([]member, error) {
	reply, err := s.Try("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var all []member
	for line := range strings.Lines(reply.(string)) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("CLUSTER NODES: %q", line)
		}
		addr, _, _ := strings.Cut(f[1], "@")
		m := member{id: f[0], addr: addr, master: f[3], flags: f[2]}
		for _, r := range f[8:] {
			if first, last, ok := slotRange(r); ok {
				m.slots = append(m.slots, [2]int{first, last})
			}
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.addr, b.addr) })
	return all, nil
}

// slotRange reads "5" or "5-9"; what is open for migration, "[5->-…]", is neither.
func slotRange(text string) (first, last int, ok bool) {
	a, b, found := strings.Cut(text, "-")
	if !found {
		b = a
	}
	first, err1 := strconv.Atoi(a)
	last, err2 := strconv.Atoi(b)
	return first, last, err1 == nil && err2 == nil
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
func (c *Cluster) seen() []member {
	c.t.Helper()
	for _, n := range c.running() {
		if m, err := n.members(); err == nil {
			return m
		}
	}
	c.t.Fatalf("no node of the cluster answers")
	return nil
}

// Masters are the nodes that have slots, in the order of Nodes.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	var masters []*Server
	for _, m := range c.seen() {
		if len(m.slots) > 0 {
			masters = append(masters, c.Node(m.addr))
		}
	}
	slices.SortFunc(masters, func(a, b *Server) int { return slices.Index(c.Nodes, a) - slices.Index(c.Nodes, b) })
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
	for _, m := range c.seen() {
		if m.has(slot) {
			return c.Node(m.addr)
		}
	}
	c.t.Fatalf("nobody has slot %d", slot)
	return nil
}

// ReplicasOf are those that follow a master.
func (c *Cluster) ReplicasOf(master *Server) []*Server {
	c.t.Helper()
	members := c.seen()
	i := slices.IndexFunc(members, func(m member) bool { return m.addr == master.Addr })
	var replicas []*Server
	for _, m := range members {
		if i >= 0 && m.master == members[i].id {
			replicas = append(replicas, c.Node(m.addr))
		}
	}
	return replicas
}

// Calls is how often all nodes that answer were called for a command.
func (c *Cluster) Calls(name string) (sum int64) {
	c.t.Helper()
	for _, n := range c.running() {
		sum += n.CommandStats()[name].Calls
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
