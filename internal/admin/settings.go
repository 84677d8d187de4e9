package admin

import (
	"errors"
	"net"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/settings"
)

// Settings has the settings of the admin API, which is on the port of AdminListen. Where others than this machine can
// reach the port, it serves the API only with TLS and Tokens; else health and metrics alone. Files are read again when
// they change.
type Settings struct {
	// Tokens is the file of those who may use the API: tokens and names in client certificates, with the role of each
	// (viewer, operator or admin). `weir admin token` makes tokens. A file
	// that everybody may write is rejected. Empty: on a loopback address everybody may do everything.
	Tokens string `help:"File of tokens and roles of the admin API." placeholder:"FILE"`

	// TLS encrypts the connections of the port, health and metrics as well. Client certificates are for callers without a
	// token. Clients without a certificate still get health and metrics. ClientCA needs Tokens, which has the clients' roles.
	TLS certs.Port `kong:"embed,prefix='tls-',set='port=the admin port',set='clients=client certificates for the admin API'"`

	// Local opens the API to calls of this machine, to a loopback address, even if others reach the port of
	// AdminListen: `docker compose exec` and `kubectl port-forward` call so. What passes calls of others on to a
	// loopback address, such as a proxy, lets these in, too, so give Tokens where there is one.
	Local bool `default:"false" negatable:"" help:"Serve the admin API to this machine, even if others reach the port."`
}

// Check names settings that do not fit together.
func (s *Settings) Check() error {
	return errors.Join(
		s.TLS.Check("admin_"),
		settings.Reject(s.TLS.ClientCA != "" && s.Tokens == "", "admin_tls_client_ca: needs admin_tokens, which has the roles of clients"),
	)
}

// IsLoopback reports whether an address, host:port, is surely on this machine, and only this machine can reach it. The only
// such name is localhost: what another name resolves to may change at any time.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
