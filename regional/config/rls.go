package config

import (
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/settings"
)

// Ratelimit has settings for the limits of [Config.RatelimitConfig] that their language
// does not have.
type Ratelimit struct {
	// Consistency is leased: a hot key is served from a lease in this process, and the
	// remaining units in replies may lag; or exact: every request asks the store. Neither
	// ever admits more than the limit.
	Consistency string `default:"leased" help:"leased or exact."`

	// OnFailure decides requests while the store does not answer: allow, deny, or local:
	// each replica enforces its share of the limit.
	OnFailure string `default:"allow" help:"allow, deny or local."`

	// ChargeDenied also counts refused requests, as envoyproxy/ratelimit does by default.
	// It is for costs that are known only after the response (apply_on_stream_done): a
	// report of more than is left then uses up what is left. At most one limit more is
	// charged beyond a limit.
	ChargeDenied bool `default:"false" negatable:"" help:"Count refused requests, too."`

	// MergeDomains lets several files have the same domain (MERGE_DOMAIN_CONFIG).
	MergeDomains bool `default:"false" negatable:"" help:"Let several files have the same domain."`

	// Shadow admits everything, and counts (SHADOW_MODE).
	Shadow bool `default:"false" negatable:"" help:"Count, but admit everything."`

	// Metrics adds the metrics of hits under the names and labels that envoyproxy/ratelimit
	// has in Prometheus (USE_PROMETHEUS), for its dashboards.
	Metrics bool `default:"false" negatable:"" help:"Add the metrics of envoyproxy/ratelimit."`

	// Quota treats every limit as if it had quota_mode (QUOTA_MODE).
	Quota bool `default:"false" negatable:"" help:"Refuse only requests that are over all of their limits."`
}

// RLS has the settings of the server of Envoy's rate limit service.
type RLS struct {
	// Listen is the address, as host:port: gRPC, without TLS unless TLSCert is set.
	Listen string `default:"127.0.0.1:8081" help:"Address of Envoy's rate limit service, host:port."`

	// TLSCert and TLSKey encrypt the connections; both or none. With TLSClientCA
	// clients must present a certificate of these authorities, and /json and /rlconfig on
	// Config.Listen, where no certificate is asked for, are refused. The files are read
	// again when they change.
	TLSCert     string `name:"tls-cert" help:"Server certificate." placeholder:"FILE"`
	TLSKey      string `name:"tls-key" help:"Its key." placeholder:"FILE"`
	TLSClientCA string `name:"tls-client-ca" help:"Authorities of client certificates, which are then required." placeholder:"FILE"`

	// ClientSAN are the allowed names, with commas between (GRPC_CLIENT_TLS_SAN); a client's
	// certificate must be for one of them: DNS names, IP addresses, URIs or e-mail
	// addresses. Only with TLSClientCA; empty: any name is allowed.
	ClientSAN []string `name:"client-san" help:"Allowed names of client certificates." placeholder:"NAME"`

	// MaxConnectionAge is how long a connection lasts, ±10 %, 1s to 24h: clients
	// that connect again find replicas that were added. 0: without end.
	MaxConnectionAge time.Duration `default:"30m" help:"How long connections last."`

	// Budget is how long a request without a deadline may take, 1ms to 10s.
	Budget time.Duration `default:"100ms" help:"Time for requests without a deadline."`

	// Headers adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to
	// responses; Metadata adds dynamic metadata.
	Headers  bool `default:"false" negatable:"" help:"Add RateLimit-* headers to responses."`
	Metadata bool `default:"false" negatable:"" help:"Add dynamic metadata to responses."`
}

func (c *Config) checkRLS() error {
	var clientCA error
	if c.RLS.TLSClientCA != "" && c.RLS.TLSCert == "" {
		clientCA = errors.New("rls_tls_client_ca: needs rls_tls_cert and rls_tls_key: without TLS no client presents a certificate")
	}
	if len(c.RLS.ClientSAN) > 0 && c.RLS.TLSClientCA == "" {
		clientCA = errors.Join(clientCA, errors.New("rls_client_san: needs rls_tls_client_ca: without it no client presents a certificate"))
	}
	if c.RLS.MaxConnectionAge != 0 {
		clientCA = errors.Join(clientCA, settings.Between("rls_max_connection_age", c.RLS.MaxConnectionAge, time.Second, 24*time.Hour))
	}
	return errors.Join(
		clientCA,
		settings.Address("rls_listen", c.RLS.Listen),
		settings.Pair("rls_tls_cert", c.RLS.TLSCert, "rls_tls_key", c.RLS.TLSKey),
		settings.Between("rls_budget", c.RLS.Budget, time.Millisecond, 10*time.Second),
		settings.OneOf("ratelimit_consistency", c.Ratelimit.Consistency, "leased", "exact"),
		settings.OneOf("ratelimit_on_failure", c.Ratelimit.OnFailure, "allow", "deny", "local"),
	)
}
