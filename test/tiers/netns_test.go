package tiers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// side is a network namespace: one end of a cable. What runs in it reaches what
// else does, and the other side while the cable is whole. It is there as long as a process of its own.
type side struct {
	pid    string // of that process
	addr   string // its address
	device string // its end of the cable
	file   *os.File
}

// cable joins two sides. It loses every packet, without a word, while it is cut:
// connections stay open, and neither side notices.
type cable struct{ a, b *side }

// newCable makes two sides, which go away with the test. It needs the rights of
// root, as `make test` in a container has them.
func newCable(t *testing.T) *cable {
	t.Helper()
	if err := exec.Command("unshare", "--net", "true").Run(); err != nil {
		t.Skipf("network namespaces can only be made by root, in a container with the right to it: %v", err)
	}
	// 198.18.0.0/15 is set aside for tests of networks (RFC 2544): it is nobody's.
	c := &cable{a: newSide(t, "a", "198.18.0.1"), b: newSide(t, "b", "198.18.0.2")}
	c.a.ip(t, "link", "add", c.a.device, "type", "veth", "peer", "name", c.b.device, "netns", c.b.pid)
	for _, s := range []*side{c.a, c.b} {
		s.ip(t, "addr", "add", s.addr+"/30", "dev", s.device)
		s.ip(t, "link", "set", "lo", "up")
		s.ip(t, "link", "set", s.device, "up")
	}
	return c
}

func newSide(t *testing.T, end, addr string) *side {
	t.Helper()
	const namespace = "ns/net"
	p := proc.Start(t, t.TempDir(), "side-"+end, "unshare", "--net", "sleep", "infinity")
	s := &side{pid: fmt.Sprint(p.PID()), addr: addr, device: "weir-" + end}
	path := filepath.Join("/proc", s.pid, namespace)
	here := fatal.Get(os.Readlink(filepath.Join("/proc/self", namespace)))(t)
	p.AwaitUp(func() string {
		if there, err := os.Readlink(path); err != nil || there == here {
			return fmt.Sprintf("it has no namespace of its own: %v", err)
		}
		return ""
	})
	s.file = fatal.Get(os.Open(path))(t)
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

// ip runs iproute2 on this side.
func (s *side) ip(t *testing.T, args ...string) {
	t.Helper()
	argv := s.within(append([]string{"ip"}, args...)...)
	proc.Run(t, exec.Command(argv[0], argv[1:]...))
}

// nobody is an Ethernet address that none of the two ends has.
const nobody = "02:00:00:00:00:01"

// cut has both sides send to an Ethernet address that nobody has.
func (c *cable) cut(t *testing.T) {
	t.Helper()
	c.a.ip(t, "neigh", "replace", c.b.addr, "lladdr", nobody, "dev", c.a.device, "nud", "permanent")
	c.b.ip(t, "neigh", "replace", c.a.addr, "lladdr", nobody, "dev", c.b.device, "nud", "permanent")
}

// mend makes the cable whole again.
func (c *cable) mend(t *testing.T) {
	t.Helper()
	c.a.ip(t, "neigh", "del", c.b.addr, "dev", c.a.device)
	c.b.ip(t, "neigh", "del", c.a.addr, "dev", c.b.device)
}

// within is a command line that runs argv on this side.
func (s *side) within(argv ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + s.pid + "/ns/net"}, argv...)
}

// dial connects from this side, wherever the test itself runs: a socket belongs
// to the namespace in which its thread was when it made it.
func (s *side) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() { _ = home.Close() }()
	if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering side %s: %w", s.device, err)
	}
	conn, dialErr := new(net.Dialer).DialContext(ctx, network, addr)
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread would go on in the wrong network
	}
	return conn, dialErr
}
