// Package pki makes certificates for tests, and for trying Weir with TLS.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
func NewAuthority() (*Authority, error) { return NewLastingAuthority(day) }

// NewLastingAuthority is NewAuthority with another time.
func NewLastingAuthority(life time.Duration) (*Authority, error) {
	a := &Authority{life: life}
	cert, _, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "Weir test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageCertSign,
	})
	a.PEM = cert
	return a, err
}

// Issue makes a certificate for names (DNS names, IP addresses, URIs) and its key, in PEM,
// for servers and clients.
func (a *Authority) Issue(subject string, names ...string) (cert, key []byte, err error) {
	return a.IssueUntil(time.Now().Add(a.life), subject, names...)
}

// IssueUntil is Issue of a certificate that is valid until then.
func (a *Authority) IssueUntil(end time.Time, subject string, names ...string) (cert, key []byte, err error) {
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
func (a *Authority) issue(c *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c.NotBefore = time.Now().Add(-time.Hour)
	parent := a.Certificate
	if parent == nil {
		parent, a.key = c, k
	}
	der, err1 := x509.CreateCertificate(rand.Reader, c, parent, k.Public(), a.key)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(k)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	if a.Certificate == nil {
		if a.Certificate, err = x509.ParseCertificate(der); err != nil {
			return nil, nil, err
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// Write issues a certificate and writes it to NAME.pem and NAME.key in dir.
func (a *Authority) Write(dir, name string, names ...string) error {
	cert, key, err := a.Issue(name, names...)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, name+".pem"), cert, 0o600), os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600))
}
