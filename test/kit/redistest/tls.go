package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Authority is a certificate authority of the test's own. It has signed one
// certificate for servers on the loopback interface and one for clients.
type Authority struct {
	CA                    string // path of its certificate, as PEM; so are the others
	ServerCert, ServerKey string
	ClientCert, ClientKey string
	certificate           *x509.Certificate
	clientPair            tls.Certificate
}

// NewAuthority makes an authority whose certificates are valid for a day.
func NewAuthority(t proc.T) *Authority {
	t.Helper()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	a := &Authority{CA: path("ca.pem"), ServerCert: path("server.pem"), ServerKey: path("server.key"), ClientCert: path("client.pem"), ClientKey: path("client.key")}
	signer, err := pki.NewAuthority()
	if err == nil {
		a.certificate = signer.Certificate
		err = errors.Join(os.WriteFile(a.CA, signer.PEM, 0o600), signer.Write(dir, "server", "localhost", "127.0.0.1"), signer.Write(dir, "client", "weir"))
	}
	if err == nil {
		a.clientPair, err = tls.LoadX509KeyPair(a.ClientCert, a.ClientKey)
	}
	if err != nil {
		t.Fatalf("certificates: %v", err)
	}
	return a
}

// Client is what a client with a certificate of this authority connects with. It is the caller's.
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
			return []string{"--tls-ca-cert-file", a.CA, "--tls-cert-file", a.ServerCert, "--tls-key-file", a.ServerKey,
				"--tls-auth-clients", "yes", "--port", "0", "--tls-port", strconv.Itoa(s.Port)}
		})
		s.args = append(s.args, "--tls-replication", "yes", "--tls-cluster", "yes")
		s.client = append(s.client, func(o *redis.Options) { o.TLSConfig = a.Client() })
	}
}

// Users gives servers an ACL file with this content, a line for each user, such as "user weir on >secret ~weir:* +get".
// The default user, with which the harness itself connects, goes on as it was unless a line changes it.
func Users(lines ...string) Option {
	return func(s *settings) {
		s.each = append(s.each, func(s *Server) []string {
			return []string{"--aclfile", proc.WriteFile(s.t, filepath.Join(s.dir, s.Name+".acl"), strings.Join(lines, "\n")+"\n")}
		})
	}
}

// Rejections is what the server rejected for want of a permission, the newest last: who, and what. It forgets them.
func (s *Server) Rejections() []string {
	s.t.Helper()
	var all []string
	for _, entry := range s.Do("ACL", "LOG").([]any) {
		about := pairs(entry)
		all = append([]string{about["username"] + ": " + about["reason"] + " " + about["object"] + " (" + about["context"] + ")"}, all...)
	}
	s.Do("ACL", "LOG", "RESET")
	return all
}
