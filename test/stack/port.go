package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// ports are handed out once per test process. They lie below the range from
// which the kernel picks the local ends of outgoing connections (32768 and up),
// so that none of those can sit on a port between its choice and its use.
var ports = struct {
	sync.Mutex
	next int
}{next: 11000 + rand.IntN(16000)} // where test processes that run side by side hardly meet

// FreeAddr returns a loopback address on which nobody listens.
//
// Envoy listens with SO_REUSEPORT: two Envoys on one port would share its
// connections without an error, so a port that is in use is never handed out.
func FreeAddr(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		if ports.next++; ports.next >= 32000 {
			ports.next = 11000
		}
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		l, err := net.Listen("tcp", addr)
		if err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port between 11000 and 32000")
	return ""
}
