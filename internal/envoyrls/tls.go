package envoyrls

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/certs"
)

// checkName rejects a client whose certificate has none of the names, if there are any.
func (t *TLS) checkName(s tls.ConnectionState) error {
	if len(t.ClientSANs) == 0 {
		return nil
	}
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
