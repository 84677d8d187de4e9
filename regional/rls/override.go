package rls

import (
	"sync"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/descriptor"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// maxOverrides bounds the cached limits of requests. When there are more the cache is
// emptied, which only makes these requests more expensive.
const maxOverrides = 4096

// overrides is a cache of limits that came with requests.
type overrides struct {
	mu    sync.RWMutex
	ready map[override]*prepared
}

// override is a limit that came with a request. The limits of descriptors without a rule
// have the name of their domain, so that their number does not grow with their keys.
type override struct {
	rule            *descriptor.Rule // whose numbers it replaces; nil: none
	domain          string           // without a rule
	requestsPerUnit uint32
	unit            descriptor.Unit
	multiplier      uint32
}

// override finds or makes the rule of a descriptor with its own limit. base is the rule
// that the descriptor matches, nil if there is none. The reason is why the limit is
// refused, empty if it is not.
func (s *Server) override(r *rules, domain string, base *prepared, l *ratelimitpb.RateLimitDescriptor_RateLimitOverride) (p *prepared, reason string) {
	o := override{requestsPerUnit: l.GetRequestsPerUnit(), multiplier: l.GetUnitMultiplier().GetValue()}
	var known bool
	if o.unit, known = descriptor.UnitOf(int32(l.GetUnit())); !known {
		return nil, "unit is " + l.GetUnit().String() + "; it is SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR"
	}
	if o.multiplier == 0 {
		o.multiplier = 1
	}
	if base != nil {
		o.rule = base.rule
	} else {
		o.domain = domain
	}
	r.overrides.mu.RLock()
	p = r.overrides.ready[o]
	r.overrides.mu.RUnlock()
	if p != nil {
		return p, ""
	}
	if limit.Micros(o.multiplier) > limit.MaxPeriod/o.unit.Period() {
		return nil, "unit_multiplier makes a period of more than 366 days; lower it"
	}
	spec := limit.Spec{Algorithm: limit.FixedWindow, Count: int64(o.requestsPerUnit), Period: o.unit.Period() * limit.Micros(o.multiplier)}
	if _, err := limit.New(spec); err != nil {
		return nil, err.Error()
	}
	p = s.prepareOverride(o, base, spec)
	r.overrides.keep(o, p)
	return p, ""
}

func (s *Server) prepareOverride(o override, base *prepared, spec limit.Spec) *prepared {
	p := &prepared{}
	if base != nil {
		*p = *base
	} else {
		p.counts = s.metrics.rule(domainName(o.domain), o.domain)
		if p.quota = s.cfg.Quota; p.quota {
			p.mode = quota
		}
	}
	s.setLimit(p, p.name(), spec)
	p.policy.Beside = p.policy.Exactly()
	title := "" // of the rule in its file, if it has one
	if p.rule != nil {
		title = p.rule.Name
	}
	p.current = &rlspb.RateLimitResponse_RateLimit{
		Name:            title,
		RequestsPerUnit: o.requestsPerUnit,
		Unit:            rlspb.RateLimitResponse_RateLimit_Unit(o.unit.Number()),
	}
	if o.multiplier > 1 {
		p.current.UnitMultiplier = wrapperspb.UInt32(o.multiplier)
	}
	return p
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
	return s.prepareOverride(override{}, p, spec).policy
}

// name is the name of a rule in its counters and in metrics.
func (p *prepared) name() string { return p.counts.name }

// domainName is the name of the counters of a domain's descriptors that no rule matches:
// the beginning of the paths of the domain's rules, with the bar after it. No path and no
// rule of the rules file has this name.
func domainName(domain string) string { return descriptor.DomainPath(domain) + "|" }

func (o *overrides) keep(key override, p *prepared) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ready == nil || len(o.ready) >= maxOverrides {
		o.ready = make(map[override]*prepared)
	}
	o.ready[key] = p
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
