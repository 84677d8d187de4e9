package envoyrls

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
)

// authority signs certificates.
type authority struct {
	t *testing.T
	*pki.Authority
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := fatal.Get(pki.NewAuthority())(t)
	return &authority{t, a}
}

// sign makes a certificate of 127.0.0.1 and other names, valid until end.
func (a *authority) sign(name string, end time.Time, names ...string) (cert, key []byte) {
	a.t.Helper()
	cert, key, err := a.IssueUntil(end, name, append(names, "127.0.0.1")...)
	fatal.If(a.t, err)
	return cert, key
}

// write writes what belongs to a server into dir.
func write(t *testing.T, files TLS, cert, key, ca []byte) {
	t.Helper()
	for path, data := range map[string][]byte{files.Cert: cert, files.Key: key, files.ClientCA: ca} {
		fatal.If(t, os.WriteFile(path, data, 0o600))
	}
}

// knock asks once over TLS, and returns the name that the server showed.
func knock(t *testing.T, addr string, roots *authority, cert, key []byte) (name string, err error) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(roots.Certificate)
	c := &tls.Config{RootCAs: pool, VerifyConnection: func(s tls.ConnectionState) error {
		name = s.PeerCertificates[0].Subject.CommonName
		return nil
	}}
	if cert != nil {
		pair := fatal.Get(tls.X509KeyPair(cert, key))(t)
		c.Certificates = []tls.Certificate{pair}
	}
	conn := dial(t, addr, grpc.WithTransportCredentials(credentials.NewTLS(c)))
	_, err = rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(patient(t), request(of("free", "x")))
	return name, err
}

func TestTLS(t *testing.T) {
	dir, later := t.TempDir(), time.Now().Add(time.Hour)
	servers, clients, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	files := TLS{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	cert, key := servers.sign("first", later)
	write(t, files, cert, key, clients.PEM)
	b := newBench(t, specYAML, func(c *Config) { c.TLS = files })
	addr := b.serve()

	goodCert, goodKey := clients.sign("client", later)
	if name, err := knock(t, addr, servers, goodCert, goodKey); err != nil || name != "first" {
		t.Fatalf("a client of the authority: %s, %v", name, err)
	}
	strangeCert, strangeKey := strangers.sign("stranger", later)
	for who, pair := range map[string][2][]byte{"without certificate": {}, "unknown": {strangeCert, strangeKey}} {
		if _, err := knock(t, addr, servers, pair[0], pair[1]); err == nil {
			t.Errorf("a client %s is served", who)
		}
	}

	// New certificates are used by new connections, and a new authority of clients takes the place of the old one.
	cert, key = servers.sign("second", later)
	write(t, files, cert, key, strangers.PEM)
	eventually(t, "the new certificate is shown", func() bool {
		name, err := knock(t, addr, servers, strangeCert, strangeKey)
		return err == nil && name == "second"
	})
	if _, err := knock(t, addr, servers, goodCert, goodKey); err == nil {
		t.Error("a client of the old authority is served")
	}
}

func TestTLSThatCannotBe(t *testing.T) {
	files := TLS{Cert: filepath.Join(t.TempDir(), "cert"), Key: "key"}
	if _, err := New(Config{Endpoint: Endpoint{TLS: files}}); err == nil || !strings.Contains(err.Error(), files.Cert) {
		t.Errorf("no files: %v", err)
	}
}

// TestClientNames: of the authority's clients only those with an allowed name are served.
func TestClientNames(t *testing.T) {
	dir, later := t.TempDir(), time.Now().Add(time.Hour)
	a := newAuthority(t)
	files := TLS{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), ClientCA: filepath.Join(dir, "ca")}
	cert, key := a.sign("server", later)
	write(t, files, cert, key, a.PEM)
	clientCert, clientKey := a.sign("client", later, "envoy.example", "spiffe://example/envoy")
	for name, allowed := range map[string]bool{"envoy.example": true, "spiffe://example/envoy": true, "client": false, "example": false} {
		files.ClientSANs = []string{"nobody.example", name}
		b := newBench(t, specYAML, func(c *Config) { c.TLS = files })
		if _, err := knock(t, b.serve(), a, clientCert, clientKey); (err == nil) != allowed {
			t.Errorf("with %s allowed: %v", name, err)
		}
	}
}
