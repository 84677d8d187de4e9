package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Authority is a certificate authority of the test's own. It has signed one
// certificate for servers on the loopback interface and one for clients.
type Authority struct {
	CA                     string // path of its certificate, as PEM; so are the others
	ServerCert, ServerKey  string
	ClientCert, ClientKey  string
	certificate            *x509.Certificate
	key                    *ecdsa.PrivateKey
	serverPair, clientPair tls.Certificate
}

// NewAuthority makes an authority whose certificates are valid for a day.
func NewAuthority(t proc.T) *Authority {
	t.Helper()
	a, err := newAuthority(t.TempDir())
	if err != nil {
		t.Fatalf("certificates: %v", err)
	}
	return a
}

func newAuthority(dir string) (*Authority, error) {
	a := new(Authority)
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "redis"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		// Nodes of a cluster, and replicas, are clients of each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: "weir"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	ca, err1 := a.sign(dir, "ca", authority)
	serverPair, err2 := a.sign(dir, "server", server)
	clientPair, err3 := a.sign(dir, "client", client)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	a.serverPair, a.clientPair = serverPair, clientPair
	a.certificate = ca.Leaf
	path := func(name string) string { return filepath.Join(dir, name) }
	a.CA, a.ServerCert, a.ServerKey = path("ca.crt"), path("server.crt"), path("server.key")
	a.ClientCert, a.ClientKey = path("client.crt"), path("client.key")
	return a, nil
}

// sign makes a certificate and its key, and writes both to dir. The first one
// signs itself and all that follow.
func (a *Authority) sign(dir, name string, c *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if a.certificate == nil {
		a.certificate, a.key = c, key
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err1 := x509.CreateCertificate(rand.Reader, c, a.certificate, key.Public(), a.key)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2); err != nil {
		return tls.Certificate{}, err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	path := filepath.Join(dir, name)
	return pair, errors.Join(err, os.WriteFile(path+".crt", certPEM, 0o600), os.WriteFile(path+".key", keyPEM, 0o600))
}

// Client is what a client with a certificate of this authority connects with. It
// is the caller's.
func (a *Authority) Client() *tls.Config {
	c := a.ClientWithout()
	c.Certificates = []tls.Certificate{a.clientPair}
	return c
}

// ClientWithout trusts the authority's servers and shows no certificate of its own.
func (a *Authority) ClientWithout() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
}

// TLS has servers speak TLS only, to clients, replicas, sentinels and each other,
// and only to who shows a certificate of the authority.
func TLS(a *Authority) Option {
	return func(s *settings) {
		s.each = append(s.each, func(s *Server) []string {
			return append(a.args(), "--port", "0", "--tls-port", strconv.Itoa(s.Port))
		})
		s.args = append(s.args, "--tls-replication", "yes", "--tls-cluster", "yes")
		s.client = append(s.client, func(o *redis.Options) { o.TLSConfig = a.Client() })
	}
}

func (a *Authority) args() []string {
	return []string{"--tls-ca-cert-file", a.CA, "--tls-cert-file", a.ServerCert, "--tls-key-file", a.ServerKey,
		"--tls-auth-clients", "yes"}
}
