// Package pki makes certificates for tests, and for trying Weir with TLS.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// day is how long certificates of tests last.
const day = 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	Certificate *x509.Certificate
	PEM         []byte
	key         *ecdsa.PrivateKey
	life        time.Duration
}

// NewAuthority makes one that signs itself. It lasts a day, and so does what it issues.
func NewAuthority() *Authority { return NewLastingAuthority(day) }

// NewLastingAuthority is NewAuthority with another time.
func NewLastingAuthority(life time.Duration) *Authority {
	a := &Authority{life: life}
	a.PEM, _ = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// Issue makes a certificate for names (DNS names, IP addresses, URIs) and its key, in PEM,
// for servers and clients.
func (a *Authority) Issue(subject string, names ...string) (cert, key []byte) {
	return a.IssueUntil(time.Now().Add(a.life), subject, names...)
}

// IssueUntil is Issue of a certificate that is valid until then.
func (a *Authority) IssueUntil(end time.Time, subject string, names ...string) (cert, key []byte) {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: subject}, NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if u, err := url.Parse(name); err == nil && u.Scheme != "" {
			c.URIs = append(c.URIs, u)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	return a.issue(c)
}

// issue signs a certificate. The first one signs itself.
func (a *Authority) issue(c *x509.Certificate) (cert, key []byte) {
	k := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	c.NotBefore = time.Now().Add(-time.Hour)
	parent := a.Certificate
	if parent == nil {
		parent, a.key = c, k
	}
	der := must(x509.CreateCertificate(rand.Reader, c, parent, k.Public(), a.key))
	if a.Certificate == nil {
		a.Certificate = must(x509.ParseCertificate(der))
	}
	keyDER := must(x509.MarshalPKCS8PrivateKey(k))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// must panics where a certificate of this package cannot be made: that is a mistake here.
func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// Write issues a certificate, and writes it to NAME.pem and NAME.key in dir, and that of the authority to ca.pem.
func (a *Authority) Write(dir, name string, names ...string) (err error) {
	cert, key := a.Issue(name, names...)
	for file, text := range map[string][]byte{name + ".pem": cert, name + ".key": key, "ca.pem": a.PEM} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	return err
}

// Client is what a client connects with that trusts the authority and, with names, shows a certificate for them.
func (a *Authority) Client(names ...string) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	c.RootCAs.AddCert(a.Certificate)
	if len(names) > 0 {
		c.Certificates = []tls.Certificate{must(tls.X509KeyPair(a.Issue("client", names...)))}
	}
	return c
}
