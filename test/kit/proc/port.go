package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// Ports are taken from this range: below the one from which the kernel picks the local
// ends of outgoing connections (32768 and up), so that none of those can sit on a port
// between its choice and its use.
const firstPort, lastPort = 3000, 31999

// ports are those of this process, until it ends: what was chosen and is not listened on yet is not chosen again. Processes
// that run side by side lock theirs, each a byte of one file.
var ports struct {
	sync.Mutex
	locks *os.File
	taken map[int]bool // no process is kept out by its own locks
}

// FreePort returns a port of the loopback interface on which nobody listens, and that nobody else gets from here while this
// process runs.
//
// Envoy listens with SO_REUSEPORT: two Envoys on one port would share its connections
// without an error, so a port that is in use is never handed out.
func FreePort(t T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.locks == nil {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("weir-ports-%d.locks", os.Getuid()))
		ports.locks, ports.taken = fatal.Get(os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600))(t), map[int]bool{}
	}
	for range 10 * (lastPort - firstPort) {
		port := firstPort + rand.IntN(lastPort+1-firstPort) // one that was in use a moment ago is hardly chosen
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(port), Len: 1}
		if ports.taken[port] || unix.FcntlFlock(ports.locks.Fd(), unix.F_OFD_SETLK, &lock) != nil {
			continue
		}
		ports.taken[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatalf("no free port between %d and %d", firstPort, lastPort)
	return 0
}

// FreeAddr returns an address of the loopback interface on which nobody listens.
func FreeAddr(t T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}
