package rls

import (
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

// readEvery is the shortest time between two readings of the files. They are read only
// while clients connect.
const readEvery = time.Second

// certificates is TLS as it is in force. Files with a mistake do not replace it.
type certificates struct {
	files TLS
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time // when the files were read last
	content [3]string // of the files, as last read
	current *tls.Config
	failure string // the last error in the log; empty if the files are good
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, read: time.Now()}
	_, err := c.load()
	return c, err
}

// load reads the files. If they have changed it puts them in force.
func (c *certificates) load() (changed bool, err error) {
	content, err := c.files.read()
	if err != nil || content == c.content {
		return false, err
	}
	fresh, err := parseTLS(c.files, content)
	if err != nil {
		return false, err
	}
	c.current, c.content = fresh, content
	return true, nil
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
	changed, err := c.load()
	switch {
	case err == nil:
		c.failure = "" // also if the files are as before the failure
		if changed {
			c.log.Info("rls: new certificates", "file", c.files.Cert)
		}
	case err.Error() != c.failure:
		c.failure = err.Error()
		c.log.Error("rls: the new certificates cannot be used, the old ones stay in force", "error", err)
	}
}

func (t TLS) read() (content [3]string, err error) {
	for i, path := range [3]string{t.Cert, t.Key, t.ClientCA} {
		if path == "" && i == 2 {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return content, fmt.Errorf("rls: TLS: %w", err)
		}
		content[i] = string(data)
	}
	return content, nil
}

func parseTLS(t TLS, content [3]string) (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(content[0]), []byte(content[1]))
	if err != nil {
		return nil, fmt.Errorf("rls: TLS: %s and %s: %w", t.Cert, t.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.ClientCA != "" {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM([]byte(content[2])) {
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
