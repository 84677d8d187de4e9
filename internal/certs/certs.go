// Package certs reads TLS certificates again when their files change. Files with a mistake never replace correct ones. Open
// connections keep their certificates.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's authorities: our images have none of a system
)

// readEvery is the shortest time between two readings of the files. They are read while
// connections are made and when metrics are asked for.
const readEvery = time.Second

// Files names files in PEM.
type Files struct {
	// Cert and Key are the own certificate and its key; both or none. A server needs them.
	Cert, Key string
	// CA has the authorities of the other side. Empty: a server asks for no certificate, a
	// client trusts the authorities of the system, or those of Mozilla where the system has none.
	CA string
	// Optional is set if a server takes clients without a certificate, too.
	Optional bool
}

// Set is certificates in force. Create it with [Load]. It is safe for concurrent use.
type Set struct {
	what  string
	files Files
	log   *slog.Logger

	mu      sync.Mutex
	read    time.Time // when the files were read last
	content [3]string // of the files, as last read
	own     []tls.Certificate
	others  *x509.CertPool // nil: the system's, or none is asked for
	changes int            // how often these were put in force
	failure string         // the last error in the log; empty if the files are good
}

// Load reads the files. what begins log lines and errors, and is the label in metrics: for whom
// the certificates are. metrics may be nil.
func Load(what string, files Files, metrics *telemetry.Registry, log *slog.Logger) (*Set, error) {
	s := &Set{what: what, files: files, log: log, read: time.Now()}
	if _, err := s.load(); err != nil {
		return nil, err
	}
	if metrics != nil {
		metrics.GaugeFuncOf("weir_certificates_ok", "1 if the files of certificates, as they were last read, are in force; 0 if they cannot be used, and older ones are.", telemetry.Labels{"of": what}, s.good)
		s.observe(metrics)
	}
	return s, nil
}

// good is 1 if the files are in force. It reads them also while no connection is made.
func (s *Set) good() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if s.failure != "" {
		return 0
	}
	return 1
}

// Server is the configuration of a server of these protocols, which uses the current
// certificates at each handshake. With Files.CA every client has to present a certificate, unless that is Optional;
// verify then decides whether to accept the client, of resumed sessions, too. nil: any.
func (s *Set) Server(verify func(tls.ConnectionState) error, protocols ...string) *tls.Config {
	var present *tls.Config
	made := 0 // of these certificates
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refresh()
			if made != s.changes {
				made, present = s.changes, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: s.own, VerifyConnection: verify}
				if s.others != nil {
					present.ClientCAs, present.ClientAuth = s.others, tls.RequireAndVerifyClientCert
				}
				if s.others != nil && s.files.Optional {
					present.ClientAuth = tls.VerifyClientCertIfGiven
				}
			}
			return present, nil
		},
	}
}

// Client is the configuration for one connection, with the certificates that are in force: to a
// server of this name, or where that is empty of the name that is dialled, for these protocols. The
// next connection needs another one. A nil set has none.
func (s *Set) Client(name string, protocols ...string) func() *tls.Config {
	if s == nil {
		return nil
	}
	return func() *tls.Config {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refresh()
		return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, ServerName: name, GetClientCertificate: s.present, RootCAs: s.others}
	}
}

// present is the own certificate for a server that asks for one, of whatever authorities that
// server trusts: its rejection states what is wrong. An empty one if there is none.
func (s *Set) present(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if len(s.own) == 0 {
		return new(tls.Certificate), nil
	}
	return &s.own[0], nil
}

// refresh reads the files again if that has not been done lately.
func (s *Set) refresh() {
	if now := time.Now(); now.Sub(s.read) >= readEvery {
		s.read = now
		s.reload()
	}
}

func (s *Set) reload() {
	changed, err := s.load()
	switch {
	case err == nil:
		if changed {
			s.log.Info(s.what+": new certificates", "file", s.files.Cert)
		} else if s.failure != "" {
			s.log.Info(s.what+": the files have the certificates in force again", "file", s.files.Cert)
		}
		s.failure = ""
	case err.Error() != s.failure:
		s.failure = err.Error()
		s.log.Error(s.what+": cannot use the new certificates; the old ones stay in force", "error", err)
	}
}

// load reads the files. If they have changed it puts them in force.
func (s *Set) load() (changed bool, err error) {
	content, err := s.readAll()
	if err != nil || content == s.content {
		return false, err
	}
	var own []tls.Certificate
	if s.files.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(content[0]), []byte(content[1]))
		if err != nil {
			return false, fmt.Errorf("%s: TLS: %s and %s: %w", s.what, s.files.Cert, s.files.Key, err)
		}
		own = []tls.Certificate{pair}
	}
	var others *x509.CertPool
	if s.files.CA != "" {
		others = x509.NewCertPool()
		if !others.AppendCertsFromPEM([]byte(content[2])) {
			return false, fmt.Errorf("%s: TLS: %s: no certificate in PEM; write those of the authorities", s.what, s.files.CA)
		}
	}
	s.content, s.own, s.others = content, own, others
	s.changes++
	return true, nil
}

func (s *Set) readAll() (content [3]string, err error) {
	for i, path := range [3]string{s.files.Cert, s.files.Key, s.files.CA} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return content, fmt.Errorf("%s: TLS: %w", s.what, err)
		}
		content[i] = string(data)
	}
	return content, nil
}

// Named reports whether a certificate is for a name: a DNS name (a certificate with * as its
// first label matches), an IP address, or exactly a URI or e-mail address.
func Named(cert *x509.Certificate, name string) bool {
	return cert.VerifyHostname(name) == nil || slices.Contains(others(cert), name)
}

// Names is what a certificate is for, for messages.
func Names(cert *x509.Certificate) []string {
	names := append(slices.Clone(cert.DNSNames), others(cert)...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// others are the names that are neither of hosts nor addresses.
func others(cert *x509.Certificate) []string {
	names := slices.Clone(cert.EmailAddresses)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}
