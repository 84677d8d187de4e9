package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/blackhole"
)

// An address that swallows packets costs a socket for as long as the timeout.
func TestDialEnds(t *testing.T) {
	hole := blackhole.New(t)
	for _, d := range []Dialer{{}, {Secure: func() *tls.Config { return new(tls.Config) }}} {
		d.Timeout = 200 * time.Millisecond
		conn, err := d.DialContext(t.Context(), "tcp", hole.Addr)
		var timeout net.Error
		if conn != nil || !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v, %v; want a timeout", conn, err)
		}
	}
	if n := hole.Dialling(); n != 0 {
		t.Errorf("%d sockets go on", n)
	}
}
