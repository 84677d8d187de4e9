package certs

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Dialer makes connections to servers.
type Dialer struct {
	// Secure is asked for each connection, so that it has the certificates that are then in
	// force. Where it names no server, the certificate has to be for the host of the address.
	// nil: plain TCP.
	Secure func() *tls.Config
	// Timeout bounds making a connection, with its handshake. Without it the kernel tries
	// for two minutes to reach an address that swallows packets, whether or not the caller still waits.
	Timeout time.Duration
}

// DialContext makes a connection, until ctx ends at the latest.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if d.Secure == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	return (&tls.Dialer{Config: d.Secure()}).DialContext(ctx, network, address)
}
