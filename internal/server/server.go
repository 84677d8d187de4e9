// Package server is an HTTP server on one port: HTTP/1.1 and HTTP/2, with or without TLS. It answers health checks on that port
// and ends without cutting calls in flight.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

const (
	// maxHeaders bounds the headers of a request, in bytes; a filter sends some 300.
	maxHeaders = 16 << 10
	// deadPeer is how long a connection may be silent before it is pinged, and
	// then how long it has to answer: a PoP that vanished frees its connections.
	deadPeer = 15 * time.Second
)

// Limits bound what clients can take of a server.
type Limits struct {
	MaxStreams    int           // calls in flight on one HTTP/2 connection
	HeaderTimeout time.Duration // for a request's headers, and again for its body
	WriteTimeout  time.Duration // for an answer, from its request's headers on; a handler that streams renews it
	IdleTimeout   time.Duration // for connections without calls
}

// Server serves one port. It answers from [Server.Serve] on.
type Server struct {
	http   *http.Server
	silent sync.Map // connections that have sent no request yet
}

// silentTime is how long connections that have sent no request may stay when the server
// ends: a peer that has just connected may be about to send one. Without an end, package http waits
// 5 s for each of them and answers nobody meanwhile. An Envoy that starts has such a
// connection for that long: it connects for its health checks and then compiles the module.
const silentTime = 200 * time.Millisecond

// New makes a server; with secure it takes TLS alone.
func New(secure *tls.Config, h http.Handler, l Limits, log *slog.Logger) *Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(secure == nil)
	protocols.SetHTTP2(secure != nil)
	s := new(Server)
	s.http = &http.Server{
		Handler:           h,
		ConnState:         s.note,
		Protocols:         &protocols,
		TLSConfig:         secure,
		ReadHeaderTimeout: l.HeaderTimeout,
		ReadTimeout:       2 * l.HeaderTimeout,
		WriteTimeout:      l.WriteTimeout,
		IdleTimeout:       l.IdleTimeout,
		MaxHeaderBytes:    maxHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: l.MaxStreams,
			SendPingTimeout:      deadPeer,
			PingTimeout:          deadPeer,
			WriteByteTimeout:     l.WriteTimeout, // a peer that takes no bytes keeps deadlines of its streams from being carried out
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// descriptorShare is the part of the process's file descriptors that the connections of one port may have: three ports
// leave a quarter for files, Redis, Consul and other servers.
const descriptorShare = 4

// Listen opens a port that has at most so many connections at a time; 0: as many as its part of the file descriptors.
// Beyond that, each new one closes one of the address that has the most: a client that opens too many keeps no
// other client out. flag is how to choose another address.
func Listen(ctx context.Context, address, flag string, most int) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process; stop it, or choose another address with --%s", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	var descriptors syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &descriptors); err != nil {
		return nil, errors.Join(fmt.Errorf("file descriptors: %w", err), l.Close())
	}
	own := max(int(min(descriptors.Cur, math.MaxInt32)/descriptorShare), 1)
	return &bounded{Listener: l, most: min(cmp.Or(most, own), own), open: map[*conn]netip.Addr{}, from: map[netip.Addr]int{}}, nil
}

// Serve answers connections of an open port until the server is shut down.
func (s *Server) Serve(port net.Listener) error {
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(port net.Listener) error { return s.http.ServeTLS(port, "", "") }
	}
	if err := serve(port); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shut lets calls in flight end within the timeout, then cuts them. Connections that
// have sent no request are cut before. HTTP/2 connections get a GOAWAY, so that peers send
// the next call elsewhere.
func (s *Server) Shut(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer time.AfterFunc(silentTime, func() { s.silent.Range(cut) }).Stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("calls were still in flight after %v, cut", timeout), s.http.Close())
	}
	return nil
}

// note is for [http.Server.ConnState].
func (s *Server) note(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.silent.Store(c, nil)
	} else {
		s.silent.Delete(c)
	}
}

func cut(c, _ any) bool {
	_ = c.(net.Conn).Close() // nobody waits for anything on it
	return true
}
