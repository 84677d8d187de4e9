package server

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// silentTime is how long connections that have sent no request may stay when the server
// ends: a peer that has just connected may be about to send one.
const silentTime = 200 * time.Millisecond

// silent are the connections that have sent no request yet. A server that shuts down waits
// 5 s for each of them and answers nobody meanwhile. An Envoy that starts has such a
// connection for that long: it connects for its health checks and then compiles the module.
type silent struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// note is for [http.Server.ConnState].
func (s *silent) note(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew {
		s.conns[c] = struct{}{}
	} else {
		delete(s.conns, c)
	}
}

// cut closes them.
func (s *silent) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // nobody waits for anything on it
	}
}
