package daemon

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// TLS has the settings of the port of the QuotaService. With ClientCA every caller must present a
// certificate, also for /healthz.
type TLS struct {
	certs.Port `kong:"embed,set='port=the port of the QuotaService',set='clients=certificates of callers, which are then required'"`

	// ClientSAN has the names of callers, with commas between; a caller's certificate must have
	// one of them, byte by byte, as a URI, DNS name, IP address or e-mail address. For
	// weir-global each needs {region} once, which stands for the region that a call states: no
	// region can call in the name of another one. For weir-regional {region} is a mistake. Only with
	// ClientCA. Empty: weir://region/{region} for weir-global; for weir-regional weir://pop/
	// and the name of its region, and where it has none ClientCA is a mistake.
	ClientSAN []string `name:"client-san" help:"Names that callers' certificates must have, such as weir://region/{region}." placeholder:"NAME"`
}

func (t *TLS) check() error {
	return errors.Join(
		t.Port.Check(""),
		settings.Reject(len(t.ClientSAN) > 0 && t.ClientCA == "", "tls_client_san: needs tls_client_ca: without it no caller presents a certificate"),
	)
}

// CheckRegions checks the names of callers of a program that regions call, or that they do not
// call.
func (t *TLS) CheckRegions(called bool) error {
	var errs []error
	for _, name := range t.ClientSAN {
		n := strings.Count(name, stated)
		errs = append(errs,
			settings.Reject(called && n != 1, "tls_client_san: %q has {region} %d times, which must be there once, such as in weir://region/{region}: else its owner could call in the name of every region", name, n),
			settings.Reject(!called && n > 0, "tls_client_san: %q has {region}, but PoPs state no region; write the name of this region for it", name))
	}
	return errors.Join(errs...)
}

// config is the configuration of the port; nil without TLS.
func (t *TLS) config(metrics *telemetry.Registry, log *slog.Logger) (*tls.Config, error) {
	if t.Cert != "" && t.ClientCA == "" {
		log.Warn("callers need no certificate: every program that reaches this port can spend every limit", "remedy", "give --tls-client-ca")
	}
	return t.Load("callers", false, metrics, log, nil, "h2", "http/1.1")
}

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
		settings.Reject(!c.TLS && c.TLSCA+c.TLSName+c.TLSCert+c.TLSKey != "",
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
