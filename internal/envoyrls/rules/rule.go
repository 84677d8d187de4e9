package rules

import (
	"math"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Rule is a rule with everything that does not depend on the request.
type Rule struct {
	Of     *descriptor.Rule // of the configuration; nil: none
	Policy *engine.Policy   // nil: unlimited
	// Current is the same in all replies, and never changed.
	Current *rlspb.RateLimitResponse_RateLimit
	Counts  *metrics.Counts
	Mode    decision.Mode
	Quota   bool         // it is one of the quotas of a request, in shadow mode too
	Window  limit.Micros // of windows that are aligned to the clock, else 0

	binding *binding.Binding // to a rule of the rules file; nil: none
}

// InConfig is the rule of the configuration that r is made of; nil if there is none, or no r.
func (r *Rule) InConfig() *descriptor.Rule {
	if r == nil {
		return nil
	}
	return r.Of
}

// prepare makes a rule of the configuration.
func (c *Config) prepare(r *descriptor.Rule) *Rule {
	stat := r.AppendStatName(nil, nil)
	p := &Rule{Of: r, Counts: c.Metrics.Rule(r.Path, string(stat)), Quota: r.Quota || c.Quota}
	switch {
	case r.Shadow:
		p.Mode = decision.Shadow
	case p.Quota:
		p.Mode = decision.Quota
	}
	if r.Unlimited {
		return p
	}
	c.setLimit(p, r.Path, r.Limit.Spec())
	p.Current = &rlspb.RateLimitResponse_RateLimit{
		Name:            r.Name,
		RequestsPerUnit: r.RequestsPerUnit,
		Unit:            rlspb.RateLimitResponse_RateLimit_Unit(r.Unit),
	}
	return p
}

// setLimit gives a rule its limit. The spec has been checked.
func (c *Config) setLimit(p *Rule, name string, spec limit.Spec) {
	spec.ChargeRejected = c.ChargeRejected
	l, _ := limit.New(spec)
	p.Policy = engine.NewPolicy(name, 0, l, lease.NewTerms(l, c.Consistency, 0, 0, 0))
	p.Policy.OnFailure, p.Policy.ExpectedPoPs = c.OnFailure, c.Replicas
	if p.Mode == decision.Shadow {
		p.Policy.Mode = rule.Shadow
	}
	p.Window = spec.Period
}

// currentOf returns a limit in units of Envoy's API: in the longest unit of which its
// period is a multiple.
func currentOf(name string, spec limit.Spec) *rlspb.RateLimitResponse_RateLimit {
	c := &rlspb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: uint32(min(spec.Count, math.MaxUint32))}
	for _, u := range [...]descriptor.Unit{descriptor.Year, descriptor.Month, descriptor.Week, descriptor.Day, descriptor.Hour, descriptor.Minute, descriptor.Second} {
		if spec.Period == 0 || spec.Period%u.Period() != 0 {
			continue
		}
		c.Unit = rlspb.RateLimitResponse_RateLimit_Unit(u)
		if n := spec.Period / u.Period(); n > 1 {
			c.UnitMultiplier = wrapperspb.UInt32(uint32(n))
		}
		break
	}
	return c
}
