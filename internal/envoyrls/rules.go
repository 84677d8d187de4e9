package envoyrls

import (
	"math"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// rules is a configuration as requests use it: immutable, replaced as a whole.
type rules struct {
	config   *descriptor.Config // without domains as long as there is none
	prepared map[*descriptor.Rule]*prepared
	bindings *bindings
}

// noConfig has no domains, and noBindings has no bindings.
var (
	noConfig, _ = descriptor.Parse(nil, descriptor.Options{})
	noBindings  = newBindings(new(binding.Set))
)

func (r *rules) has(domain string) bool {
	return r.config.Domain(domain) || r.bindings.Domain(domain)
}

// prepared is a rule with everything that does not depend on the request.
type prepared struct {
	rule    *descriptor.Rule // of the configuration; nil: none
	binding *binding.Binding // to a rule of the rules file; nil: none
	policy  *engine.Policy   // nil: unlimited
	// current is the same in all replies, and never changed.
	current  *rlspb.RateLimitResponse_RateLimit
	metadata *structpb.Struct // nil if there is none
	counts   *counts
	mode     mode
	quota    bool         // it is one of the quotas of a request, in shadow mode too
	window   limit.Micros // of windows that are aligned to the clock, else 0
}

// mode is what happens when a rule is over its limit.
type mode uint8

const (
	enforce mode = iota // the request is refused
	quota               // the request is refused if all quotas are over
	shadow              // nothing
)

// prepareAll prepares a configuration.
func (s *Server) prepareAll(c *descriptor.Config) map[*descriptor.Rule]*prepared {
	all := map[*descriptor.Rule]*prepared{}
	for r := range c.Rules() {
		all[r] = s.prepare(r)
	}
	return all
}

func (s *Server) prepare(r *descriptor.Rule) *prepared {
	stat := r.AppendStatName(nil, nil)
	p := &prepared{rule: r, metadata: structOf(r.Metadata), counts: s.metrics.rule(r.Path, string(stat)), mode: enforce, quota: r.Quota || s.cfg.Quota}
	switch {
	case r.Shadow:
		p.mode = shadow
	case p.quota:
		p.mode = quota
	}
	if r.Unlimited {
		return p
	}
	s.setLimit(p, r.Path, r.Limit.Spec())
	p.current = &rlspb.RateLimitResponse_RateLimit{
		Name:            r.Name,
		RequestsPerUnit: r.RequestsPerUnit,
		Unit:            rlspb.RateLimitResponse_RateLimit_Unit(r.Unit.Number()),
	}
	return p
}

// setLimit gives a rule its limit. The spec has been checked.
func (s *Server) setLimit(p *prepared, name string, spec limit.Spec) {
	spec.ChargeDenied = s.cfg.ChargeDenied
	l, _ := limit.New(spec)
	p.policy = engine.NewPolicy(name, 0, l, lease.NewTerms(l, rule.ParseWord[lease.Consistency](s.cfg.Consistency), 0, 0, 0))
	p.policy.OnFailure, p.policy.ExpectedHolders = rule.ParseWord[lease.OnFailure](s.cfg.OnFailure), s.cfg.Replicas
	if p.mode == shadow {
		p.policy.Mode = rule.Shadow
	}
	p.window = spec.Period
}

// prepareNative prepares a rule of the rules file.
func (s *Server) prepareNative(p *engine.Policy) *prepared {
	spec := p.Limit.Spec()
	n := &prepared{policy: p, counts: s.metrics.rule(p.Rule, ""), current: currentOf(p.Rule, spec)}
	if p.Mode == rule.Shadow {
		n.mode = shadow
	}
	if spec.Algorithm == limit.FixedWindow && spec.Align == limit.AlignClock {
		n.window = spec.Period
	}
	return n
}

// currentOf returns a limit in units of Envoy's API: in the longest unit of which its
// period is a multiple.
func currentOf(name string, spec limit.Spec) *rlspb.RateLimitResponse_RateLimit {
	c := &rlspb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: uint32(min(spec.Count, math.MaxUint32))}
	for _, u := range [...]descriptor.Unit{descriptor.Year, descriptor.Month, descriptor.Week, descriptor.Day, descriptor.Hour, descriptor.Minute, descriptor.Second} {
		if spec.Period == 0 || spec.Period%u.Period() != 0 {
			continue
		}
		c.Unit = rlspb.RateLimitResponse_RateLimit_Unit(u.Number())
		if n := spec.Period / u.Period(); n > 1 {
			c.UnitMultiplier = wrapperspb.UInt32(uint32(n))
		}
		break
	}
	return c
}

// structOf returns metadata in its form on the wire; nil if there is none.
func structOf(m map[string]any) *structpb.Struct {
	if m == nil {
		return nil
	}
	s, _ := structpb.NewStruct(m) // of what a Struct can hold, as Rule.Metadata promises
	return s
}
