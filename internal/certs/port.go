package certs

import (
	"crypto/tls"
	"errors"
	"log/slog"

	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Port has the settings of TLS of a port. Its files are read again when they change; open connections keep the certificates
// that they have.
type Port struct {
	// Cert and Key encrypt the connections; both or none.
	Cert string `help:"Certificate of ${port}: PEM. It then takes TLS alone." placeholder:"FILE"`
	Key  string `help:"Its key." placeholder:"FILE"`

	// ClientCA has the authorities of client certificates. Empty: clients need none.
	ClientCA string `name:"client-ca" help:"Authorities of ${clients}." placeholder:"FILE"`
}

// Check names settings that do not fit together, whose names begin with a prefix.
func (p *Port) Check(prefix string) error {
	return errors.Join(
		settings.Pair(prefix+"tls_cert", p.Cert, prefix+"tls_key", p.Key),
		settings.Reject(p.ClientCA != "" && p.Cert == "", "%stls_client_ca: needs %[1]stls_cert and %[1]stls_key: without TLS no client presents a certificate", prefix),
	)
}

// Load reads the files, and returns the configuration of the port; nil without TLS. what is as for [Load], optional as for
// [Files], and the others as for [Set.Server].
func (p *Port) Load(what string, optional bool, metrics *telemetry.Registry, log *slog.Logger, verify func(tls.ConnectionState) error, protocols ...string) (*tls.Config, error) {
	if p.Cert == "" {
		return nil, nil
	}
	set, err := Load(what, Files{Cert: p.Cert, Key: p.Key, CA: p.ClientCA, Optional: optional}, metrics, log)
	if err != nil {
		return nil, err
	}
	return set.Server(verify, protocols...), nil
}
