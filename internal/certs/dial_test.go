package certs

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/blackhole"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Each connection has the authorities that are then in force.
func TestDialAfterAChangeOfAuthorities(t *testing.T) {
	a, b := authority(t), authority(t)
	port := fatal.Get(tls.Listen("tcp", "127.0.0.1:0", load(t, side(t, a, a, "server", "127.0.0.1")).Server(nil)))(t)
	defer port.Close()
	go func() {
		for conn, err := port.Accept(); err == nil; conn, err = port.Accept() {
			go func() {
				_ = conn.(*tls.Conn).Handshake() // the client has its error
				_ = conn.Close()
			}()
		}
	}()
	files := side(t, a, b, "client")
	client := load(t, files)
	d := Dialer{Secure: client.Client(""), Timeout: time.Minute}
	dial := func() error {
		conn, err := d.DialContext(t.Context(), "tcp", port.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := dial(); err == nil {
		t.Error("a server of another authority is trusted")
	}
	fatal.If(t, os.WriteFile(files.CA, a.PEM, 0o600))
	client.reload()
	if err := dial(); err != nil {
		t.Errorf("after the change: %v", err)
	}
}

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
