package server

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// silentTime is how long connections that have sent nothing may stay when the server
// ends: a peer that has just connected may be about to send a request.
const silentTime = 200 * time.Millisecond

// listener has a list of the connections that have sent nothing yet. A server that
// shuts down waits 5 s for each of them and answers nobody meanwhile. An Envoy that
// starts has such a connection for that long: it connects for its health checks and then
// compiles the module.
type listener struct {
	net.Listener
	mu     sync.Mutex
	silent map[*connection]struct{}
}

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &connection{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = map[*connection]struct{}{}
	}
	l.silent[conn] = struct{}{}
	return conn, nil
}

// cut closes the connections that have sent nothing.
func (l *listener) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.silent {
		_ = c.Conn.Close() // nobody waits for anything on it
	}
}

func (l *listener) forget(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.silent, c)
}

// connection leaves the list of its listener when it has received something.
type connection struct {
	net.Conn
	of   *listener
	left atomic.Bool
}

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.leave()
	}
	return n, err
}

func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (c *connection) leave() {
	if !c.left.Load() && !c.left.Swap(true) {
		c.of.forget(c)
	}
}
