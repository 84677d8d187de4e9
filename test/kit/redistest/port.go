package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from this range: below the one from which the kernel picks the
// local ends of outgoing connections, and apart from the one that package stack
// takes its own from. Both ports of a cluster's node come from here.
const firstPort, lastPort = 3000, 10999

// ports are handed out once per round of a test process, so that what was picked
// and is not listened on yet is not picked again.
var ports = struct {
	sync.Mutex
	next int
}{next: firstPort + rand.IntN(lastPort-firstPort)} // where test processes that run side by side hardly meet

// freePort returns a port of the loopback interface on which nobody listens.
func freePort(t T) int {
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
