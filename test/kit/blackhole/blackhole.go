// Package blackhole has addresses that swallow what is sent to them, as a host behind a broken
// route or a firewall does: connections to them are neither made nor rejected.
package blackhole

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Hole is a port of this machine whose queue of new connections is full for good.
type Hole struct {
	Addr string
	t    proc.T
	port int
}

// New makes a hole, until the end of the test.
func New(t proc.T) *Hole {
	t.Helper()
	h := &Hole{t: t}
	fd := h.socket()
	any := syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	fatal.If(t, syscall.Bind(fd, &any))
	h.port = fatal.Get(syscall.Getsockname(fd))(t).(*syscall.SockaddrInet4).Port
	h.Addr = fmt.Sprintf("127.0.0.1:%d", h.port)
	fatal.If(t, syscall.Listen(fd, 0))
	// One connection fills the queue, and nobody takes it. What else comes waits.
	filling := h.socket()
	fatal.If(t, syscall.Connect(filling, &syscall.SockaddrInet4{Addr: any.Addr, Port: h.port}))
	return h
}

func (h *Hole) socket() int {
	h.t.Helper()
	fd := fatal.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(h.t)
	h.t.Cleanup(func() { _ = syscall.Close(fd) })
	return fd
}

// Dialling is how many sockets of this machine wait for a connection to the hole.
func (h *Hole) Dialling() int {
	h.t.Helper()
	sockets := fatal.Get(os.ReadFile("/proc/net/tcp"))(h.t)
	n, remote := 0, fmt.Sprintf("0100007F:%04X", h.port)
	for line := range strings.Lines(string(sockets)) {
		const synSent = "02"
		if f := strings.Fields(line); len(f) > 3 && f[2] == remote && f[3] == synSent {
			n++
		}
	}
	return n
}
