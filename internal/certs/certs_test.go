package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
)

// side is a certificate's files, and those of the authority that the other side has to have.
func side(t *testing.T, own, others *pki.Authority, name string, names ...string) Files {
	t.Helper()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	fatal.If(t, errors.Join(own.Write(dir, name, names...), os.WriteFile(ca, others.PEM, 0o600)))
	return Files{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key"), CA: ca}
}

func load(t *testing.T, files Files) *Set {
	t.Helper()
	return fatal.Get(Load("test", files, nil, slog.New(slog.DiscardHandler)))(t)
}

// handshake connects a client to a server, and returns what each of them has of the other.
func handshake(t *testing.T, server, client *tls.Config) (seen tls.ConnectionState, atServer, atClient error) {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0") // with buffers: both sides may write at once
	fatal.If(t, err)
	near, err1 := net.Dial("tcp", port.Addr().String())
	far, err2 := port.Accept()
	fatal.If(t, errors.Join(err1, err2, port.Close()))
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server)
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte("x"))
		}
		_ = conn.Close()
		done <- err
	}()
	conn := tls.Client(near, client)
	_, err = io.ReadAll(conn) // a rejected client of TLS 1.3 learns it only when it reads
	seen = conn.ConnectionState()
	_ = near.Close()
	return seen, <-done, err
}

// Both sides show certificates, and each rejects a stranger.
func TestBothSides(t *testing.T) {
	a, b, stranger := pki.NewAuthority(), pki.NewAuthority(), pki.NewAuthority()
	server := load(t, side(t, a, b, "server", "weir.example"))
	client := load(t, side(t, b, a, "client", "weir://region/eu"))
	if seen, err1, err2 := handshake(t, server.Server(nil, "h2"), client.Client("weir.example", "h2")()); err1 != nil || err2 != nil || seen.NegotiatedProtocol != "h2" {
		t.Errorf("%v, %v, protocol %q", err1, err2, seen.NegotiatedProtocol)
	}
	if _, _, err := handshake(t, server.Server(nil), client.Client("other.example")()); err == nil {
		t.Error("a server of another name is accepted")
	}
	if _, err, _ := handshake(t, server.Server(nil), load(t, side(t, stranger, a, "client")).Client("weir.example")()); err == nil {
		t.Error("a client of another authority is accepted")
	}
	if _, err, _ := handshake(t, server.Server(nil), load(t, Files{CA: side(t, b, a, "x").CA}).Client("weir.example")()); err == nil {
		t.Error("a client without a certificate is accepted")
	}
	reject := func(tls.ConnectionState) error { return errors.New("not you") }
	if _, err, _ := handshake(t, server.Server(reject), client.Client("weir.example")()); err == nil || !strings.Contains(err.Error(), "not you") {
		t.Errorf("a client that is rejected: %v", err)
	}
}

// Names of a certificate.
func TestNames(t *testing.T) {
	cert, _ := pki.NewAuthority().Issue("x", "envoy.example", "*.pop.example", "weir://pop/eu", "10.1.2.3")
	c := load(t, Files{}) // nothing is no mistake
	if c.own != nil || c.others != nil {
		t.Errorf("%+v", c)
	}
	leaf := parse(t, cert)
	for name, want := range map[string]bool{
		"envoy.example": true, "Envoy.example": true, "a.pop.example": true, "weir://pop/eu": true, "10.1.2.3": true,
		"x": false, "example": false, "a.b.pop.example": false, "weir://pop/": false, "weir://pop/eu/": false, "": false, "10.1.2.4": false,
	} {
		if Named(leaf, name) != want {
			t.Errorf("%q: %v, names are %q", name, !want, Names(leaf))
		}
	}
}

// A mistake is logged once for as long as it stands, and again when it comes again. The
// certificates before it stay in force.
func TestMistakes(t *testing.T) {
	a := pki.NewAuthority()
	files := side(t, a, a, "x", "weir.example")
	good := fatal.Get(os.ReadFile(files.Cert))(t)
	var log bytes.Buffer
	s := fatal.Get(Load("test", files, nil, slog.New(slog.NewTextHandler(&log, nil))))(t)
	for i, step := range []struct {
		cert string
		want int
	}{{string(good), 0}, {"nonsense", 1}, {"nonsense", 1}, {string(good), 1}, {"nonsense", 2}} {
		fatal.If(t, os.WriteFile(files.Cert, []byte(step.cert), 0o600))
		s.reload()
		if n := strings.Count(log.String(), "cannot use the new certificates"); n != step.want {
			t.Errorf("logged %d times, want %d: %s", n, step.want, log.String())
		}
		if mended := strings.Contains(log.String(), "have the certificates in force again"); mended != (i >= 3) {
			t.Errorf("step %d: logged that it is mended: %v", i, mended)
		}
		if _, err1, err2 := handshake(t, s.Server(nil), s.Client("weir.example")()); err1 != nil || err2 != nil {
			t.Errorf("%v, %v", err1, err2)
		}
	}
}

// An authority that was taken out is rejected at once, also of a client that resumes a session of before. A client trusts a new
// authority with its next connection.
func TestAuthorityTakenOut(t *testing.T) {
	a, b := pki.NewAuthority(), pki.NewAuthority()
	files, trusts := side(t, a, a, "server", "weir.example"), side(t, a, b, "client")
	server, set := load(t, files), load(t, trusts)
	if _, _, err := handshake(t, server.Server(nil), set.Client("weir.example")()); err == nil {
		t.Error("a server of another authority is accepted")
	}
	fatal.If(t, os.WriteFile(trusts.CA, a.PEM, 0o600))
	set.reload()
	client := set.Client("weir.example")()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	port := server.Server(nil)
	for resumes := range 2 {
		if seen, err1, err2 := handshake(t, port, client); err1 != nil || err2 != nil || seen.DidResume != (resumes == 1) {
			t.Fatalf("handshake %d: %v, %v, resumed: %v", resumes, err1, err2, seen.DidResume)
		}
	}
	fatal.If(t, os.WriteFile(files.CA, b.PEM, 0o600))
	server.reload()
	if seen, err, _ := handshake(t, port, client); err == nil {
		t.Errorf("the client is accepted, resumed: %v", seen.DidResume)
	}
}

func parse(t *testing.T, text []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(text)
	return fatal.Get(x509.ParseCertificate(block.Bytes))(t)
}

// TestRootsWithoutASystem: an image from scratch has no authorities of a system. The program
// trusts those that it brings along, else no managed Redis could be reached by TLS.
func TestRootsWithoutASystem(t *testing.T) {
	const here = "WEIR_TEST_ROOTS"
	if os.Getenv(here) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestRootsWithoutASystem$")
		again.Env = append(os.Environ(), here+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Fatalf("no authorities: %v", err)
	}
}
