package envoyrls

import (
	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// override makes the rule of a descriptor with its own limit. base is the rule that the
// descriptor matches, nil if there is none: then the metrics have the name of the domain, so
// that their number does not grow with keys. The reason is why the limit is refused, empty if
// it is not.
func (s *Server) override(domain string, base *prepared, l *ratelimitpb.RateLimitDescriptor_RateLimitOverride) (p *prepared, reason string) {
	unit, known := descriptor.UnitOf(int32(l.GetUnit()))
	if !known {
		return nil, "unit is " + l.GetUnit().String() + "; it is SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
	}
	multiplier := max(l.GetUnitMultiplier().GetValue(), 1)
	if limit.Micros(multiplier) > limit.MaxPeriod/unit.Period() {
		return nil, "unit_multiplier makes a period of more than 366 days; lower it"
	}
	spec := limit.Spec{Algorithm: limit.FixedWindow, Count: int64(l.GetRequestsPerUnit()), Period: unit.Period() * limit.Micros(multiplier)}
	if _, err := limit.New(spec); err != nil {
		return nil, err.Error()
	}
	p = &prepared{}
	if base != nil {
		*p = *base
	} else {
		p.counts = s.metrics.rule(domainName(domain), domain)
		if p.quota = s.cfg.Quota; p.quota {
			p.mode = quota
		}
	}
	s.bring(p, spec)
	p.current = &rlspb.RateLimitResponse_RateLimit{
		RequestsPerUnit: l.GetRequestsPerUnit(),
		Unit:            rlspb.RateLimitResponse_RateLimit_Unit(unit.Number()),
	}
	if p.rule != nil {
		p.current.Name = p.rule.Name
	}
	if multiplier > 1 {
		p.current.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return p, ""
}

// bring gives a rule another limit for one request.
func (s *Server) bring(p *prepared, spec limit.Spec) {
	s.setLimit(p, p.counts.name, spec)
	p.policy.Brought = true
}

// narrow gives each ask for descriptors with different limits the limit under which each
// descriptor fits its own after those before it are charged. For each ask with different
// limits, or with a peek, it adds an ask that reads the counter without a limit: a refused
// ask does not return the real count.
func (s *Server) narrow(q *query) {
	for at := range q.charges {
		a, least := &q.asks[at], int64(limit.MaxCount)
		var tightest *prepared
		several := false
		for i := range q.descriptors {
			d := &q.descriptors[i]
			if d.ask != at {
				continue
			}
			capacity := d.rule.policy.Terms.Capacity
			several = several || d.peek() || tightest != nil && capacity != tightest.policy.Terms.Capacity
			if n := capacity + q.after(i); !d.peek() && (tightest == nil || n < least) {
				least, tightest = n, d.rule
			}
		}
		if !several || tightest.policy.Limit.Spec().Algorithm != limit.FixedWindow {
			continue
		}
		if a.Group != 0 && tightest.policy.Terms.Capacity != least {
			a.Policy = s.counting(tightest, least)
		} else if a.Group != 0 {
			a.Policy = tightest.policy
		}
		if s.cfg.ChargeDenied {
			continue // refused units are charged in any case
		}
		for i := range q.descriptors {
			if d := &q.descriptors[i]; d.ask == at {
				d.balance = len(q.asks)
			}
		}
		q.asks = append(q.asks, engine.Ask{Policy: s.counting(tightest, limit.MaxCount), Key: a.Key})
	}
}

// counting is the policy of the counters of p with another limit.
func (s *Server) counting(p *prepared, count int64) *engine.Policy {
	spec := p.policy.Limit.Spec()
	spec.Count = count
	other := *p
	s.bring(&other, spec)
	return other.policy
}

// domainName is the name of the counters of a domain's descriptors that no rule matches:
// the beginning of the paths of the domain's rules, with the bar after it. No path and no
// rule of the rules file has this name.
func domainName(domain string) string { return descriptor.DomainPath(domain) + "|" }

// appendOverrideKey appends the key of a counter without a rule: all keys and values.
func appendOverrideKey(dst []byte, entries []descriptor.Entry) []byte {
	for i := range entries {
		if i > 0 {
			dst = append(dst, '|')
		}
		dst = rule.AppendKeyPart(dst, entries[i].Key)
		dst = rule.AppendKeyPart(append(dst, '|'), entries[i].Value)
	}
	return dst
}
