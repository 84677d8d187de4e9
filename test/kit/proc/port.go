package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from this range: below the one from which the kernel picks the local
// ends of outgoing connections (32768 and up), so that none of those can sit on a port
// between its choice and its use.
const firstPort, lastPort = 3000, 31999

// ports are handed out once per round of a process, so that what was chosen and is not
// listened on yet is not chosen again.
var ports = struct {
	sync.Mutex
	next int
}{next: firstPort + rand.IntN(lastPort-firstPort)} // where processes that run side by side hardly meet

// FreePort returns a port of the loopback interface on which nobody listens.
//
// Envoy listens with SO_REUSEPORT: two Envoys on one port would share its connections
// without an error, so a port that is in use is never handed out.
func FreePort(t T) int {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range lastPort - firstPort {
		if ports.next++; ports.next > lastPort {
			ports.next = firstPort
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports.next))
		if err == nil {
			l.Close()
			return ports.next
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
