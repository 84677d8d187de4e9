package rls

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Config is what a server is made of. Judge is required.
type Config struct {
	// Judge decides.
	Judge limiter.Judge
	// Rules finds a rule of the rules file by its name, in its current version, for
	// bindings; nil: there are none.
	Rules func(name string) *limiter.Policy

	// Consistency is lease.Leased or lease.Exact, of all limits of the
	// configuration. Neither admits more than the limit; with Leased the remaining units
	// in replies may lag.
	Consistency lease.Consistency
	// OnFailure decides requests while the store does not answer. Under
	// lease.FailureLocal a limit is then divided by the number of replicas: by Replicas as
	// long as the real number is unknown; 0 counts as 1.
	OnFailure lease.OnFailure
	Replicas  int64
	// ChargeDenied makes refused requests count too, as envoyproxy/ratelimit does
	// unless STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT is set. It is for costs that
	// are only known after the response: a report of more than is left uses up what is
	// left. At most one limit more is charged beyond a limit.
	ChargeDenied bool
	// Shadow admits everything (SHADOW_MODE); Quota treats every limit as if it had
	// quota_mode (QUOTA_MODE).
	Shadow, Quota bool

	// Headers are added to responses; the zero value adds none.
	Headers Headers
	// Metadata adds dynamic metadata to responses, see metadata.go.
	Metadata bool

	// Budget is how long a request without a deadline may take; 0 means 100 ms. Of a
	// caller's own deadline a part is reserved for the way back.
	Budget time.Duration
	// MaxConnectionAge is how long a connection lasts, ±10 %, so that clients find
	// replicas that were added; 0: for ever.
	MaxConnectionAge time.Duration
	// MaxMessage bounds a request, in bytes; 0 means 1 MiB.
	MaxMessage int
	// TLS names the certificates; the zero value serves without TLS.
	TLS TLS

	// HitMetrics adds the metrics of envoyproxy/ratelimit, see hits.go.
	HitMetrics bool
	// Metrics and Log may be nil.
	Metrics *telemetry.Registry
	Log     *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Headers are the names of response headers for the limit that is nearest to its end:
// the limit, its remaining units, and the seconds until it is whole again. They are added
// if Limit is not empty.
type Headers struct{ Limit, Remaining, Reset string }

// DefaultHeaders are the names that envoyproxy/ratelimit uses.
func DefaultHeaders() Headers {
	return Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
}

const (
	defaultBudget     = 100 * time.Millisecond
	defaultMaxMessage = 1 << 20
	// A quarter of a caller's deadline, at most returnTime, is reserved for the reply's
	// way back. Envoy's default deadline is 20 ms, and a later reply is useless.
	returnShare = 4
	returnTime  = 5 * time.Millisecond
)

func (c *Config) fill() {
	if c.Budget <= 0 {
		c.Budget = defaultBudget
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = defaultMaxMessage
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewRegistry("")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rules == nil {
		c.Rules = func(string) *limiter.Policy { return nil }
	}
}
