package envoyrls

import (
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/envoyrls/rules"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Config is what a server is made of. Of the settings the zero values are legal, too.
type Config struct {
	Limits
	Endpoint

	// Judge decides.
	Judge engine.Judge
	// Rules has those of the rules file, for bindings.
	Rules *service.Service
	// Replicas divides limits under on_failure: local as long as the real number of
	// replicas is unknown; 0 counts as 1.
	Replicas int64

	Metrics *telemetry.Registry
	Tracer  *telemetry.Tracer // makes the spans of requests; nil: there are none
	Log     *slog.Logger
	Now     func() time.Time // the clock
}

const (
	// maxMessage bounds a request of gRPC, in bytes, and maxBody one of HTTP. maxInFlight
	// bounds all requests of gRPC that have arrived and are not answered yet.
	maxMessage, maxBody, maxInFlight = 4 << 20, 1 << 20, 64 << 20
	// fewBytes is how long messages are whose lists need no bound before they are
	// decoded: a list of empty items takes 50 times its bytes.
	fewBytes = 16 << 10
	// A quarter of a caller's deadline, at most returnTime, is reserved for the reply's
	// way back. Envoy's default deadline is 20 ms, and a later reply is useless.
	returnShare = 4
	returnTime  = 5 * time.Millisecond
)

// rules is what rules are made with.
func (c *Config) rules(counts *metrics.Metrics) rules.Config {
	return rules.Config{
		Consistency:    rule.ParseWord[lease.Consistency](c.Consistency),
		OnFailure:      rule.ParseWord[lease.OnFailure](c.OnFailure),
		ChargeRejected: c.ChargeRejected,
		Replicas:       c.Replicas,
		Quota:          c.Quota,
		File:           c.Rules,
		Metrics:        counts,
	}
}
