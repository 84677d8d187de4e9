package tiers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// side is a network namespace: one end of a cable. What runs in it reaches what
// else does, and the other side while the cable is whole.
type side struct {
	name   string
	addr   string // its address
	device string // its end of the cable
	file   *os.File
}

// cable joins two sides. It loses every packet, without a word, while it is cut:
// connections stay open, and neither side notices.
type cable struct{ a, b *side }

// namespacePrefix is followed by the id of the process that made the namespace.
const namespacePrefix = "weir-tiers-"

// newCable makes two sides, which go away with the test. It needs the rights of
// root, as `make test` in a container has them.
func newCable(t *testing.T) *cable {
	t.Helper()
	if err := exec.Command("unshare", "--net", "true").Run(); err != nil {
		t.Skipf("network namespaces can only be made by root, in a container with the right to it: %v", err)
	}
	removeOrphans(t)
	// 198.18.0.0/15 is set aside for tests of networks (RFC 2544): it is nobody's.
	c := &cable{a: newSide(t, "a", "198.18.0.1"), b: newSide(t, "b", "198.18.0.2")}
	ip(t, "link", "add", c.a.device, "netns", c.a.name, "type", "veth", "peer", "name", c.b.device, "netns", c.b.name)
	for _, s := range []*side{c.a, c.b} {
		ip(t, "-n", s.name, "addr", "add", s.addr+"/30", "dev", s.device)
		ip(t, "-n", s.name, "link", "set", "lo", "up")
		ip(t, "-n", s.name, "link", "set", s.device, "up")
	}
	return c
}

func newSide(t *testing.T, end, addr string) *side {
	t.Helper()
	s := &side{name: fmt.Sprintf("%s%d-%s", namespacePrefix, os.Getpid(), end), addr: addr, device: "weir-" + end}
	ip(t, "netns", "add", s.name)
	t.Cleanup(func() { ip(t, "netns", "del", s.name) })
	var err error
	if s.file, err = os.Open("/run/netns/" + s.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

// removeOrphans removes the namespaces of test processes that are gone. What ran in them died with the process.
func removeOrphans(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(ip(t, "netns", "list")) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, namespacePrefix)
		pid, _, _ := strings.Cut(rest, "-")
		if command, _ := os.ReadFile("/proc/" + pid + "/cmdline"); ours && len(command) == 0 { // it may be a zombie
			ip(t, "netns", "del", name)
		}
	}
}

// ip runs iproute2 and returns what it prints.
func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// nobody is an Ethernet address that none of the two ends has.
const nobody = "02:00:00:00:00:01"

// cut has both sides send to an Ethernet address that nobody has.
func (c *cable) cut(t *testing.T) {
	t.Helper()
	ip(t, "-n", c.a.name, "neigh", "replace", c.b.addr, "lladdr", nobody, "dev", c.a.device, "nud", "permanent")
	ip(t, "-n", c.b.name, "neigh", "replace", c.a.addr, "lladdr", nobody, "dev", c.b.device, "nud", "permanent")
}

// mend makes the cable whole again.
func (c *cable) mend(t *testing.T) {
	t.Helper()
	ip(t, "-n", c.a.name, "neigh", "del", c.b.addr, "dev", c.a.device)
	ip(t, "-n", c.b.name, "neigh", "del", c.a.addr, "dev", c.b.device)
}

// within is a command line that runs argv on this side.
func (s *side) within(argv ...string) []string {
	return append([]string{"ip", "netns", "exec", s.name}, argv...)
}

// dial connects from this side, wherever the test itself runs: a socket belongs
// to the namespace in which its thread was when it made it.
func (s *side) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer func() { _ = home.Close() }()
	if err := unix.Setns(int(s.file.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("entering %s: %w", s.name, err)
	}
	conn, dialErr := new(net.Dialer).DialContext(ctx, network, addr)
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		panic(err) // the thread would go on in the wrong network
	}
	runtime.UnlockOSThread()
	return conn, dialErr
}
