package daemon

import (
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// ClientTLS has the settings of TLS for calls of another server. The files are read again when
// they change; open connections keep the certificates that they have.
type ClientTLS struct {
	// TLS encrypts the calls. The server's certificate is checked against TLSCA, or the
	// system's authorities if that is empty, and against TLSName, or the host of the address.
	TLS     bool   `default:"false" negatable:"" help:"Encrypt ${calls}."`
	TLSCA   string `name:"tls-ca" help:"Authorities to trust: PEM." placeholder:"FILE"`
	TLSName string `name:"tls-name" help:"Name that the server's certificate must have." placeholder:"NAME"`

	// TLSCert and TLSKey are for a server that asks for a certificate; both or none.
	TLSCert string `name:"tls-cert" help:"Certificate to present, if the server asks for one: PEM." placeholder:"FILE"`
	TLSKey  string `name:"tls-key" help:"Its key." placeholder:"FILE"`
}

// check names settings that do not fit together; server is the prefix of their names.
func (c *ClientTLS) check(server string) error {
	return errors.Join(
		settings.Pair(server+"_tls_cert", c.TLSCert, server+"_tls_key", c.TLSKey),
		settings.Refuse(!c.TLS && c.TLSCA+c.TLSName+c.TLSCert+c.TLSKey != "",
			"%s_tls: is false, but %[1]s_tls_* is set; give --%[1]s-tls, or leave these out", server),
	)
}

// load reads the certificates; nil without TLS.
func (c *ClientTLS) load(server string, metrics *telemetry.Registry, log *slog.Logger) (*certs.Set, error) {
	if !c.TLS {
		return nil, nil
	}
	return certs.Load(server, certs.Files{Cert: c.TLSCert, Key: c.TLSKey, CA: c.TLSCA}, metrics, log)
}
