package blackhole

import (
	"net"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// A connection to a hole is not made, and counted while it is tried.
func TestHole(t *testing.T) {
	h := New(t)
	ended := make(chan error, 1)
	go func() {
		_, err := net.DialTimeout("tcp", h.Addr, 3*time.Second)
		ended <- err
	}()
	proc.Eventually(t, 20*time.Second, "a socket dials", func() bool { return h.Dialling() == 1 })
	if err := <-ended; err == nil {
		t.Error("a connection was made")
	}
	proc.Eventually(t, 20*time.Second, "no socket dials", func() bool { return h.Dialling() == 0 })
}
