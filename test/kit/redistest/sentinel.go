package redistest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// electionTimeout is how long sentinels may take to agree. Votes that split are
// repeated after twice the failover-timeout and a while, several times if need be.
const electionTimeout = time.Minute

// Sentinel is a master with its replicas, watched by three sentinels. Its methods
// may be called from one goroutine at a time.
type Sentinel struct {
	Name      string    // of the master, as sentinels call it
	Nodes     []*Server // the master at first, then its replicas
	Sentinels []*Server
	t         proc.T
}

// quorum is how many of the three sentinels must find the master down.
const sentinels, quorum = 3, 2

// StartSentinel starts a master, its replicas and three sentinels, and waits until all of them have found each other. A
// master that is silent for three seconds counts as down. The options are for the master and its replicas; sentinels
// ask for the same password.
func StartSentinel(t proc.T, replicas int, opts ...Option) *Sentinel {
	t.Helper()
	s := &Sentinel{Name: "weir", t: t}
	for i := range 1 + replicas {
		set := settingsOf(opts)
		if i > 0 {
			set.args = append(set.args, "--replicaof", "127.0.0.1", strconv.Itoa(s.Nodes[0].Port))
		}
		n := newServer(t, "node", false, set)
		n.launch()
		s.Nodes = append(s.Nodes, n)
	}
	for range sentinels {
		s.Sentinels = append(s.Sentinels, s.newSentinel(settingsOf(opts)))
	}
	for _, n := range s.Sentinels {
		n.await()
		// Seconds, by default, until they find each other.
		n.Do("SENTINEL", "DEBUG", "publish-period", 100, "info-period", 200, "ping-period", 100, "ask-period", 100)
	}
	s.Await()
	return s
}

// newSentinel starts a sentinel for the first of the nodes. What it learns it keeps in its configuration file.
func (s *Sentinel) newSentinel(set *settings) *Server {
	s.t.Helper()
	n := newServer(s.t, "sentinel", false, &settings{client: set.client})
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", n.Port, n.dir) +
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d\n", s.Name, s.Nodes[0].Port, quorum) +
		"sentinel down-after-milliseconds " + s.Name + " 3000\n" +
		"sentinel failover-timeout " + s.Name + " 2000\n"
	if password := n.client.Options().Password; password != "" {
		config += "sentinel auth-pass " + s.Name + " " + password + "\n" +
			"requirepass " + password + "\nsentinel sentinel-pass " + password + "\n"
	}
	n.Argv = []string{n.Argv[0], proc.WriteFile(s.t, filepath.Join(n.dir, n.Name+".conf"), config), "--sentinel"}
	n.Begin()
	return n
}

// Addrs are the addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.Sentinels))
	for i, n := range s.Sentinels {
		addrs[i] = n.Addr
	}
	return addrs
}

// Master is the master that the sentinels name.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	for _, n := range s.Sentinels {
		addr, err := n.Try("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.Name)
		if err != nil {
			continue
		}
		pair := addr.([]any)
		i := slices.IndexFunc(s.Nodes, func(n *Server) bool { return n.Addr == fmt.Sprintf("%v:%v", pair...) })
		if i >= 0 {
			return s.Nodes[i]
		}
	}
	s.t.Fatalf("no sentinel names a master")
	return nil
}

// AwaitMaster waits until the sentinels have made another node than lost the master, and returns it.
func (s *Sentinel) AwaitMaster(lost *Server) *Server {
	s.t.Helper()
	var master *Server
	proc.Await(s.t, electionTimeout, "sentinels choose a new master", func() string {
		if master = s.Master(); master == lost {
			return lost.Addr + " still is"
		}
		reply, err := master.Try("INFO", "replication") // sentinels cut the connections of whom they promote
		if err != nil || fields(reply)["role"] != "master" {
			return fmt.Sprintf("%s is not a master yet: %v", master.Addr, err)
		}
		return ""
	})
	return master
}

// Await waits until every sentinel that runs has found the others and all replicas that
// run, and those are in step with the master.
func (s *Sentinel) Await() {
	s.t.Helper()
	proc.Await(s.t, electionTimeout, "the sentinels are well", s.missing)
}

func (s *Sentinel) missing() string {
	for _, n := range s.Sentinels {
		if !n.Answers() {
			continue
		}
		reply, err := n.Try("SENTINEL", "MASTER", s.Name)
		if err != nil {
			return err.Error()
		}
		about := pairs(reply)
		if about["flags"] != "master" || about["num-other-sentinels"] != strconv.Itoa(sentinels-1) ||
			about["num-slaves"] != strconv.Itoa(len(s.Nodes)-1) {
			return fmt.Sprintf("%s reports %v", n.Addr, about)
		}
	}
	master := s.Master()
	for _, n := range s.Nodes {
		if n == master || !n.Answers() {
			continue
		}
		reply, err := n.Try("INFO", "replication")
		if f := fields(reply); err != nil || f["role"] != "slave" || f["master_link_status"] != "up" ||
			f["master_port"] != strconv.Itoa(master.Port) {
			return fmt.Sprintf("%s is not in step with %s: %v %v", n.Addr, master.Addr, err, f)
		}
	}
	return ""
}

// pairs reads a reply of names and values in turn.
func pairs(reply any) map[string]string {
	list, _ := reply.([]any)
	m := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		m[name], _ = list[i+1].(string)
	}
	return m
}
