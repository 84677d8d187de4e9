package service

import (
	"context"
	"errors"
	"maps"
	"slices"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// Live takes reports for those who watch; [live.Collector] does. It is safe for concurrent use.
type Live interface {
	// WatchMs is for how many milliseconds from now somebody watches; 0: nobody does. Every call asks for it.
	WatchMs() uint32
	// Take takes a report of a holder at this address. The error is [live.ErrFull], or says what is out of its bounds.
	Take(from any, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error)
}

func (s *Service) watchMs() uint32 {
	if s.config.Live == nil {
		return 0
	}
	return s.config.Live.WatchMs()
}

// Report takes what a holder shows.
func (p rpc) Report(ctx context.Context, r *connect.Request[quotav1.ReportRequest]) (*connect.Response[quotav1.ReportResponse], error) {
	from := &ctx.Value(callKey{}).(*call).origin
	err := p.handler.allowed(from.secure, r.Msg.Region)
	answer := new(quotav1.ReportResponse)
	if err == nil {
		answer, err = p.service.report(from, r.Msg)
	}
	return answerTo(p, r, answer, err)
}

// report takes a report. An error is a *rejection.
func (s *Service) report(from *origin, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	protocol, ok := wire.Common(m.Protocol, m.ProtocolMax)
	switch {
	case !ok:
		return nil, otherProtocol(m.Protocol, m.ProtocolMax)
	case len(m.Holder) != len(holderID{}):
		return nil, wrong("holder", "%d bytes, must be %d", len(m.Holder), len(holderID{}))
	case m.Region != "" && !rule.IsRegion(m.Region):
		return nil, wrong("region", "%.64q is no name of a region, which has %s", m.Region, rule.RegionForm)
	case m.Region == "" && s.config.Divides:
		return nil, wrong("region", "is missing: regions report here")
	}
	answer := new(quotav1.ReportResponse)
	if s.config.Live != nil {
		var err error
		if answer, err = s.config.Live.Take(from.source(), m); errors.Is(err, live.ErrFull) {
			return nil, &rejection{err, connect.CodeResourceExhausted, true}
		} else if err != nil {
			return nil, &rejection{err, connect.CodeInvalidArgument, true}
		}
	}
	answer.Protocol = protocol
	return answer, nil
}

// Knows reports whether a rule is in force, here or at the holders.
func (s *Service) Knows(name string) bool { return s.rules.Load().names[name] }

// RuleNames are those of the rules that [Service.Knows] knows, in order.
func (s *Service) RuleNames() []string { return slices.Sorted(maps.Keys(s.rules.Load().names)) }

// Rule is the rule in force with a name; nil: there is none.
func (s *Service) Rule(name string) *rule.Rule {
	set := s.rules.Load().set
	if set == nil {
		return nil
	}
	i, ok := set.Find(name)
	if !ok {
		return nil
	}
	return set.Rule(i)
}

// PerSecond is how many units a second a rule lets pass of a key, by the limit that counts for it; override is its name.
// 0: that is not known here, or not a matter of time.
func (s *Service) PerSecond(name, override string, key []byte) float64 {
	e := s.rules.Load().rules[name]
	if e == nil {
		return 0
	}
	if own := e.keys.Find(key, s.config.Now()); own.Policy != nil && string(own.Name) == override {
		return perSecond(own.Policy)
	}
	for _, p := range e.policies {
		of := ""
		if named := e.overrides[p.Override]; named != nil {
			of = named.override
		}
		if of == override {
			return perSecond(p)
		}
	}
	return 0
}

func perSecond(p *engine.Policy) float64 {
	if p.Unlimited {
		return 0
	}
	return p.Limit.Spec().PerSecond()
}
