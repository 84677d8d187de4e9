package envoyrls

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
)

// config reads the files, and returns a configuration that uses what they have at each
// handshake.
func (t TLS) config(metrics *telemetry.Registry, log *slog.Logger) (*tls.Config, error) {
	set, err := certs.Load("rls", certs.Files{Cert: t.Cert, Key: t.Key, CA: t.ClientCA}, metrics, log)
	if err != nil {
		return nil, err
	}
	var verify func(tls.ConnectionState) error
	if len(t.ClientSANs) > 0 {
		verify = t.checkName
	}
	return set.Server(verify), nil
}

// checkName rejects a client whose certificate has none of the names.
func (t TLS) checkName(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("rls: TLS: the client has no certificate")
	}
	for _, name := range t.ClientSANs {
		if certs.Named(s.PeerCertificates[0], name) {
			return nil
		}
	}
	return fmt.Errorf("rls: TLS: the client's certificate is for %q, of which none is allowed", certs.Names(s.PeerCertificates[0]))
}
