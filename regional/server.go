package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/weirlimit/weir/regional/config"
)

const (
	// maxHeaders bounds the headers of a request, in bytes; a filter sends some 300.
	maxHeaders = 16 << 10
	// deadPeer is how long a connection may be silent before it is pinged, and
	// then how long it has to answer: a PoP that vanished frees its connections.
	deadPeer = 15 * time.Second
)

// newServer makes a server of HTTP/1.1 and of HTTP/2 without TLS on one port.
func newServer(h http.Handler, c *config.Config, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		Protocols:         &protocols,
		ReadHeaderTimeout: c.HeaderTimeout,
		ReadTimeout:       2 * c.HeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    maxHeaders,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: c.MaxStreams,
			SendPingTimeout:      deadPeer,
			PingTimeout:          deadPeer,
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// listen opens a port. flag is how to choose another one.
func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use by another process; stop it, or choose another address with --%s", address, flag)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, nil
}

// serve answers connections until the server is shut down.
func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shut lets calls in flight end within the timeout, then cuts what is left, and before
// that what has not begun. HTTP/2 connections get a GOAWAY, so that peers send the next
// call elsewhere.
func shut(s *http.Server, l *listener, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	defer time.AfterFunc(silentTime, l.cut).Stop()
	if err := s.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("calls were still in flight after %v, cut", timeout), s.Close())
	}
	return nil
}
