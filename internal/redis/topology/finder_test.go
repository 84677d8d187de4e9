package topology

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// places are the addresses of a network that is not there. The time of their tests is virtual.
type places struct {
	mu    sync.Mutex
	nodes map[string]*place
	conns map[string][]net.Conn
}

// place is what is at an address: a node of a cluster that answers, or nothing that ever does.
type place struct {
	silent   bool     // connections are neither accepted nor rejected
	isolated bool     // the node does not see a majority
	masters  []string // whom it names, for a part of the slots each
}

// set has these be all that there is. Connections to others end.
func (p *places) set(nodes map[string]*place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, conns := range p.conns {
		if nodes[addr] == nil || nodes[addr].silent {
			for _, c := range conns {
				_ = c.Close()
			}
			delete(p.conns, addr)
		}
	}
	p.nodes = nodes
}

func (p *places) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[addr]
	switch {
	case n == nil:
		return nil, &net.OpError{Op: "dial", Err: errors.New(addr + ": connection refused")}
	case n.silent:
		p.mu.Unlock()
		<-ctx.Done()
		p.mu.Lock()
		return nil, &net.OpError{Op: "dial", Err: context.Cause(ctx)}
	}
	client, server := net.Pipe()
	if p.conns == nil {
		p.conns = map[string][]net.Conn{}
	}
	p.conns[addr] = append(p.conns[addr], server)
	go n.serve(server)
	return client, nil
}

// serve answers commands until the connection ends. It reads on while it answers, as
// the connection holds nothing itself.
func (n *place) serve(c net.Conn) {
	commands := make(chan []string, 1000)
	go func() {
		defer close(commands)
		lines := bufio.NewScanner(c)
		for command := readCommand(lines); command != nil; command = readCommand(lines) {
			commands <- command
		}
	}()
	for command := range commands {
		if _, err := io.WriteString(c, n.answer(command)); err != nil {
			_ = c.Close() // ends the reading
		}
	}
}

func (n *place) answer(command []string) string {
	switch strings.ToLower(strings.Join(command[:min(2, len(command))], " ")) {
	case "cluster slots":
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(n.masters))
		for i, addr := range n.masters {
			host, port, _ := strings.Cut(addr, ":")
			fmt.Fprintf(&b, "*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%s\r\n$2\r\nid\r\n",
				i*slots/len(n.masters), (i+1)*slots/len(n.masters)-1, len(host), host, port)
		}
		return b.String()
	case "cluster info":
		state := "cluster_state:ok\r\ncluster_current_epoch:3"
		if n.isolated {
			state = "cluster_state:fail\r\ncluster_current_epoch:9"
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(state), state)
	case "hello 2":
		return "-ERR unknown command 'HELLO'\r\n"
	case "script load":
		return "$3\r\nsha\r\n"
	}
	if n.isolated {
		return "-CLUSTERDOWN The cluster is down\r\n"
	}
	return ":1\r\n"
}

// readCommand reads an array of strings without line breaks, each after its length; nil: the connection has ended.
func readCommand(lines *bufio.Scanner) (words []string) {
	if lines.Scan() {
		n, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
		for range n {
			lines.Scan() // the length
			lines.Scan()
			words = append(words, lines.Text())
		}
	}
	return words
}

// A cluster begins anew at other addresses, all at once; the seeds, or the configuration endpoint, lead to them.
// Whatever is at the old addresses now, nothing, what never answers, or a node that was left behind and names the
// others where they were: five seconds later every slot is served from where it is.
func TestClusterMoves(t *testing.T) {
	old, moved := []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}, []string{"10.1.0.1:6379", "10.1.0.2:6379", "10.1.0.3:6379"}
	const endpoint = "redis.example:6379"
	behind := &place{isolated: true, masters: old}
	for name, left := range map[string]map[string]*place{
		"nothing is left":      {},
		"all are silent":       {old[0]: {silent: true}, old[1]: {silent: true}, old[2]: {silent: true}},
		"one was left behind":  {old[0]: behind},
		"two, the third hangs": {old[0]: behind, old[1]: {silent: true}, old[2]: behind},
	} {
		for _, seeds := range [][]string{{endpoint}, {endpoint, "10.9.0.1:6379"}, {"10.9.0.1:6379", "10.9.0.2:6379", endpoint}} {
			for _, timeout := range []time.Duration{DefaultTimeout, 5 * time.Second} {
				t.Run(fmt.Sprint(name, " ", len(seeds), " ", timeout), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { clusterMoves(t, old, moved, left, seeds, timeout) })
				})
			}
		}
	}
}

func clusterMoves(t *testing.T, old, moved []string, left map[string]*place, seeds []string, timeout time.Duration) {
	// whole is a cluster of these, which the endpoint leads to. Another seed is silent.
	whole := func(addrs []string) map[string]*place {
		all := map[string]*place{}
		for _, addr := range seeds {
			all[addr] = &place{silent: true}
		}
		for _, addr := range append([]string{"redis.example:6379"}, addrs...) {
			all[addr] = &place{masters: addrs}
		}
		return all
	}
	world := new(places)
	world.set(whole(old))
	s, stop := follow(t, world, seeds, timeout)
	defer stop()
	if !served(s, old) {
		t.Fatalf("it never begins: %v", s.state())
	}
	time.Sleep(10 * time.Second)

	world.set(left) // for a while there is nothing else
	time.Sleep(20 * time.Second)
	after := whole(moved)
	maps.Copy(after, left)
	world.set(after)
	if !served(s, moved) {
		t.Errorf("five seconds after the cluster serves again: %v, and slots are asked for at %s", s.state(), servers(s))
	}
}

// follow runs the topology of a cluster in a world, until stop.
func follow(t *testing.T, world *places, seeds []string, timeout time.Duration) (s *Topology, stop func()) {
	s, end := run(t, Config{Addrs: seeds, Mode: Cluster, Timeout: timeout, Dial: world.dial})
	return s, func() {
		world.set(nil)
		end()
		time.Sleep(2*timeout + 2*time.Second) // for what still dials
	}
}

// A replica takes over from a master that does not answer: five seconds later its slots are served, not
// only after the next look-up that comes by itself.
func TestReplicaTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const a, b, c, replica = "10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379"
		before, after := &place{masters: []string{a, b, c}}, &place{masters: []string{replica, b, c}}
		world := new(places)
		world.set(map[string]*place{a: before, b: before, c: before, replica: before})
		s, stop := follow(t, world, []string{a, b, c}, DefaultTimeout)
		defer stop()
		if !served(s, []string{a, b, c}) {
			t.Fatalf("it never begins: %v", s.state())
		}
		time.Sleep(10 * time.Second)
		world.set(map[string]*place{b: after, c: after, replica: after})
		for lost := s.At(0); !lost.Open(); {
			pipe := lost.Pipeline()
			pipe.Get(t.Context(), "k")
			if err := pipe.Exec(t.Context()); err == nil {
				t.Fatal("a master that is gone answers")
			}
		}
		if !served(s, []string{b, c, replica}) {
			t.Errorf("five seconds after the replica took over: %v, and slots are asked for at %s", s.state(), servers(s))
		}
	})
}

// served reports whether exactly these serve and answer within five seconds.
func served(s *Topology, addrs []string) bool {
	for begin := time.Now(); time.Since(begin) <= 5*time.Second; time.Sleep(10 * time.Millisecond) {
		well := servers(s) == strings.Join(addrs, " ")
		for _, n := range s.Masters() {
			well = well && n.answers()
		}
		if well {
			return true
		}
	}
	return false
}

func servers(s *Topology) string {
	var addrs []string
	for _, n := range s.Masters() {
		addrs = append(addrs, n.Addr)
	}
	return strings.Join(addrs, " ")
}

// Where nobody answers, the error is always about the same address, the first one that
// was configured, unless a server gave an answer that explains more.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // how long it looks for an answer is no time of the machine
		s := fatal.Get(New(Config{Addrs: []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, Dial: new(places).dial}, idle))(t)
		c := s.Config
		find := func() string {
			_, err := (&cluster{config: &c}).find(t.Context(), []string{"10.0.0.9:1", c.Addrs[2]})
			return fmt.Sprint(err)
		}
		for range 100 {
			if got := find(); !strings.Contains(got, c.Addrs[0]+": connection refused") {
				t.Fatalf("%s, want it to be about %s", got, c.Addrs[0])
			}
		}
		world := new(places)
		world.set(map[string]*place{c.Addrs[1]: {}}) // has no slots
		c.Dial = world.dial
		if got := find(); !strings.Contains(got, errNoSlots.Error()) {
			t.Errorf("%s, want %v", got, errNoSlots)
		}
		world.set(nil)
	})
}
