package rls

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// TLS names the files of certificates, in PEM. They are read again when they
// change; open connections keep the certificates that they have.
type TLS struct {
	Cert, Key string // of this server; both or none
	// ClientCA has the authorities of client certificates. Every client must then
	// present a certificate; empty: none.
	ClientCA string
	// ClientSANs are the allowed names; a client certificate must be for one of them: a
	// DNS name (a certificate with * as its first label matches), an IP address, or
	// exactly a URI or e-mail address. Empty: any name is allowed. Only with ClientCA.
	ClientSANs []string
}

// readEvery is the shortest time between two readings of the files. They are read only
// while clients connect.
const readEvery = time.Second

// certificates is TLS as it is in force. Files with a mistake do not replace it.
type certificates struct {
	files TLS
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time // when the files were read last
	content [3][]byte // of the files, as last read
	current *tls.Config
	failure string // the last error in the log; empty if the files are good
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log}
	content, err := files.read()
	if err == nil {
		c.current, err = parseTLS(files, content)
	}
	c.content, c.read = content, time.Now()
	return c, err
}

// config returns a configuration that uses the current certificates at each handshake.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.present(), nil },
	}
}

func (c *certificates) present() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.read) >= readEvery {
		c.read = now
		c.reload()
	}
	return c.current
}

func (c *certificates) reload() {
	content, err := c.files.read()
	if err == nil && same(content, c.content) {
		c.failure = "" // the files are as before the failure
		return
	}
	var fresh *tls.Config
	if err == nil {
		fresh, err = parseTLS(c.files, content)
	}
	switch {
	case err == nil:
		c.current, c.content, c.failure = fresh, content, ""
		c.log.Info("rls: new certificates", "file", c.files.Cert)
	case err.Error() != c.failure:
		c.failure = err.Error()
		c.log.Error("rls: the new certificates cannot be used, the old ones stay in force", "error", err)
	}
}

func same(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}

func (t TLS) read() (content [3][]byte, err error) {
	for i, path := range [3]string{t.Cert, t.Key, t.ClientCA} {
		if path == "" && i == 2 {
			continue
		}
		if content[i], err = os.ReadFile(path); err != nil {
			return content, fmt.Errorf("rls: TLS: %w", err)
		}
	}
	return content, nil
}

func parseTLS(t TLS, content [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, fmt.Errorf("rls: TLS: %s and %s: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.ClientCA != "" {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(content[2]) {
			return nil, fmt.Errorf("rls: TLS: %s: no certificate in PEM; write those of the authorities of clients", t.ClientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if len(t.ClientSANs) > 0 {
		c.VerifyConnection = t.checkName // of sessions that are resumed, too
	}
	return c, nil
}

// checkName refuses a client whose certificate has none of the names.
func (t TLS) checkName(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("rls: TLS: the client has no certificate")
	}
	cert := s.PeerCertificates[0]
	others := cert.EmailAddresses
	for _, u := range cert.URIs {
		others = append(others[:len(others):len(others)], u.String())
	}
	for _, name := range t.ClientSANs {
		if cert.VerifyHostname(name) == nil || slices.Contains(others, name) {
			return nil
		}
	}
	return fmt.Errorf("rls: TLS: the client's certificate is for %q, %v and %q, of which none is allowed", cert.DNSNames, cert.IPAddresses, others)
}
