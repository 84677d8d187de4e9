package rules

import (
	"errors"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// override makes the rule of a descriptor with its own limit. base is the rule that the
// descriptor matches, nil if there is none: then the metrics have the name of the domain, so
// that their number does not grow with keys. The error is why the limit is rejected.
func (c *Config) override(domain string, base *Rule, l *ratelimitpb.RateLimitDescriptor_RateLimitOverride) (*Rule, error) {
	unit, known := descriptor.UnitOf(int32(l.GetUnit()))
	if !known {
		return nil, errors.New("unit is " + l.GetUnit().String() + "; it is SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR")
	}
	multiplier := max(l.GetUnitMultiplier().GetValue(), 1)
	if limit.Micros(multiplier) > limit.MaxPeriod/unit.Period() {
		return nil, errors.New("unit_multiplier makes a period of more than 366 days; lower it")
	}
	spec := limit.Spec{Algorithm: limit.FixedWindow, Count: int64(l.GetRequestsPerUnit()), Period: unit.Period() * limit.Micros(multiplier)}
	if _, err := limit.New(spec); err != nil {
		return nil, err
	}
	p := &Rule{}
	if base != nil {
		*p = *base
	} else {
		p.Counts = c.Metrics.Rule(descriptor.DomainPath(domain), domain)
		if p.Quota = c.Quota; p.Quota {
			p.Mode = decision.Quota
		}
	}
	c.setLimit(p, p.Counts.Name, spec)
	p.Policy.Brought = true
	p.Current = &rlspb.RateLimitResponse_RateLimit{
		RequestsPerUnit: l.GetRequestsPerUnit(),
		Unit:            rlspb.RateLimitResponse_RateLimit_Unit(unit),
	}
	if p.Of != nil {
		p.Current.Name = p.Of.Name
	}
	if multiplier > 1 {
		p.Current.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return p, nil
}

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
