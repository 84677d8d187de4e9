package envoyrls

import (
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/settings"
)

// Limits has the settings of the limits in a configuration of envoyproxy/ratelimit that
// its language does not have.
type Limits struct {
	// Consistency is leased: a hot key is served from a lease in this process, and the
	// remaining units in replies may lag; or exact: every request asks the store. Neither
	// ever admits more than the limit.
	Consistency string `default:"leased" help:"leased or exact."`

	// OnFailure decides requests while the store does not answer: allow, deny, or local:
	// each replica enforces its share of the limit.
	OnFailure string `default:"allow" help:"allow, deny or local."`

	// ChargeRejected also counts rejected requests, as envoyproxy/ratelimit does unless
	// STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT is set. It is for costs that are known only
	// after the response (apply_on_stream_done): a report of more than is left then uses
	// up what is left. At most one limit more is charged beyond a limit.
	ChargeRejected bool `default:"false" negatable:"" help:"Count rejected requests, too."`

	// MergeDomains lets several files have the same domain (MERGE_DOMAIN_CONFIG).
	MergeDomains bool `default:"false" negatable:"" help:"Let several files have the same domain."`

	// Shadow admits everything, and counts (SHADOW_MODE).
	Shadow bool `default:"false" negatable:"" help:"Count, but admit everything."`

	// HitMetrics adds the metrics of hits under the names and labels that
	// envoyproxy/ratelimit has in Prometheus (USE_PROMETHEUS), for its dashboards.
	HitMetrics bool `name:"metrics" default:"false" negatable:"" help:"Add the metrics of envoyproxy/ratelimit."`

	// Quota treats every limit as if it had quota_mode (QUOTA_MODE).
	Quota bool `default:"false" negatable:"" help:"Reject only requests that are over all of their limits."`
}

// Endpoint has the settings of the server of Envoy's rate limit service.
type Endpoint struct {
	// Listen is the address, as host:port: gRPC, without TLS unless TLS.Cert is set.
	Listen string `default:"127.0.0.1:8081" help:"Address of Envoy's rate limit service, host:port."`
	TLS    TLS    `embed:"" prefix:"tls-"`

	// MaxConnectionAge is how long a connection lasts, ±10 %, 1s to 24h: clients
	// that connect again find replicas that were added. 0: without end.
	MaxConnectionAge time.Duration `default:"30m" help:"How long connections last."`

	// Budget is how long a request without a deadline may take, 1ms to 10s. A part of a
	// caller's own deadline is reserved for the way back.
	Budget time.Duration `default:"100ms" help:"Time for requests without a deadline."`

	// Headers adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset to
	// responses; Metadata adds dynamic metadata, see metadata.go.
	Headers  bool `default:"false" negatable:"" help:"Add RateLimit-* headers to responses."`
	Metadata bool `default:"false" negatable:"" help:"Add dynamic metadata to responses."`
}

// TLS has the settings of the certificates. With ClientCA every client must present a certificate,
// and /json and /rlconfig on the port of the QuotaService, where no certificate is asked for, are
// rejected.
type TLS struct {
	certs.Port `kong:"embed,set='port=the port of the rate limit service of Envoy',set='clients=client certificates, which are then required'"`

	// ClientSANs are the allowed names, with commas between (GRPC_CLIENT_TLS_SAN); a client
	// certificate must be for one of them: a DNS name (a certificate with * as its first
	// label matches), an IP address, or exactly a URI or e-mail address. Only with
	// ClientCA; empty: any name is allowed.
	ClientSANs []string `name:"client-san" help:"Allowed names of client certificates." placeholder:"NAME"`
}

// Check names every setting that is out of range, and the range.
func Check(l *Limits, e *Endpoint) error {
	age := e.MaxConnectionAge
	if age == 0 {
		age = time.Second // without end
	}
	return errors.Join(
		e.TLS.Check("rls_"),
		settings.Reject(len(e.TLS.ClientSANs) > 0 && e.TLS.ClientCA == "",
			"rls_tls_client_san: needs rls_tls_client_ca: without it no client presents a certificate"),
		settings.Between("rls_max_connection_age", age, time.Second, 24*time.Hour),
		settings.Address("rls_listen", e.Listen),
		settings.Between("rls_budget", e.Budget, time.Millisecond, 10*time.Second),
		settings.OneOf("ratelimit_consistency", l.Consistency, "leased", "exact"),
		settings.OneOf("ratelimit_on_failure", l.OnFailure, "allow", "deny", "local"),
	)
}
