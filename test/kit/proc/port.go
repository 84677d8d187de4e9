package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// Ports are taken from this range: below the one from which the kernel picks the local
// ends of outgoing connections (32768 and up), so that none of those can sit on a port
// between its choice and its use.
const firstPort, lastPort = 3000, 31999

// block is how many ports a process of tests takes for itself at a time.
const block = 250

// ports are handed out once per round of a process, so that what was chosen and is not
// listened on yet is not chosen again. Processes that run side by side have other blocks.
var ports = struct {
	sync.Mutex
	next, end int
	held      []held
}{}

// held is a block of this process.
type held struct {
	first int
	lock  *os.File // until the process ends
}

// FreePort returns a port of the loopback interface on which nobody listens, and that no other
// process gets from here.
//
// Envoy listens with SO_REUSEPORT: two Envoys on one port would share its connections
// without an error, so a port that is in use is never handed out.
func FreePort(t T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range lastPort - firstPort {
		if ports.next == ports.end {
			fatal.If(t, takeBlock())
		}
		port := ports.next
		ports.next++
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return 0
}

// takeBlock takes a block that no process has. When none is left, it takes that of its own again that it
// has had longest.
func takeBlock() error {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("weir-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const blocks = (lastPort + 1 - firstPort) / block
	begin := rand.IntN(blocks) // a port is used again late
	for n := range blocks {
		first := firstPort + (begin+n)%blocks*block
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		// Two openings of a file are two owners, so a process does not take a block twice, either.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			use(held{first, f})
			return nil
		}
		_ = f.Close()
	}
	if len(ports.held) == 0 {
		return fmt.Errorf("other processes hold all ports between %d and %d: see the locks in %s", firstPort, lastPort, dir)
	}
	h := ports.held[0]
	ports.held = ports.held[1:]
	use(h)
	return nil
}

func use(h held) {
	ports.held, ports.next, ports.end = append(ports.held, h), h.first, h.first+block
}

// FreeAddr returns an address of the loopback interface on which nobody listens.
func FreeAddr(t T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}
