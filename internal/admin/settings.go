package admin

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Settings has the settings of the admin API, which is on the port of AdminListen. Where others than this machine can
// reach the port, it serves the API only with TLS and Tokens; else health and metrics alone. Files are read again when
// they change.
type Settings struct {
	// Tokens is the file of those who may use the API: tokens and names in client certificates, with the role of each
	// (viewer, operator or admin). `weir admin token` makes tokens. A file
	// that everybody may write is rejected. Empty: on a loopback address everybody may do everything.
	Tokens string `help:"File of tokens and roles of the admin API." placeholder:"FILE"`

	// TLSCert and TLSKey encrypt the connections of the port, health and metrics as well; both or none.
	TLSCert string `name:"tls-cert" help:"Certificate of the admin port: PEM. It then takes TLS alone." placeholder:"FILE"`
	TLSKey  string `name:"tls-key" help:"Its key." placeholder:"FILE"`

	// TLSClientCA has the authorities of client certificates, for callers without a token. Clients without a
	// certificate still get health and metrics. Only with TLSCert and Tokens, which has the clients' roles.
	TLSClientCA string `name:"tls-client-ca" help:"Authorities of client certificates for the admin API." placeholder:"FILE"`

	// Local opens the API to calls of this machine, to a loopback address, even if others reach the port of
	// AdminListen: `docker compose exec` and `kubectl port-forward` call so. What passes calls of others on to a
	// loopback address, such as a proxy, lets these in, too, so give Tokens where there is one.
	Local bool `default:"false" negatable:"" help:"Serve the admin API to this machine, even if others reach the port."`
}

// Check names settings that do not fit together.
func (s *Settings) Check() error {
	return errors.Join(
		settings.Pair("admin_tls_cert", s.TLSCert, "admin_tls_key", s.TLSKey),
		settings.Reject(s.TLSClientCA != "" && s.TLSCert == "", "admin_tls_client_ca: needs admin_tls_cert and admin_tls_key: without TLS no client presents a certificate"),
		settings.Reject(s.TLSClientCA != "" && s.Tokens == "", "admin_tls_client_ca: needs admin_tokens, which has the roles of clients"),
	)
}

// TLS is the configuration of the port; nil without TLS.
func (s *Settings) TLS(metrics *telemetry.Registry, log *slog.Logger) (*tls.Config, error) {
	if s.TLSCert == "" {
		return nil, nil
	}
	set, err := certs.Load("admin", certs.Files{Cert: s.TLSCert, Key: s.TLSKey, CA: s.TLSClientCA, Optional: true}, metrics, log)
	if err != nil {
		return nil, err
	}
	return set.Server(nil, "h2", "http/1.1"), nil
}

// IsLoopback reports whether only this machine can reach an address, host:port.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
