package service

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// Live takes reports for those who watch; [live.Desk] does. It is safe for concurrent use.
type Live interface {
	// WatchMs is for how many milliseconds from now somebody watches; 0: nobody does. Every call asks for it.
	WatchMs() uint32
	// Take takes a report that was checked, of a holder at this address. The error is [live.ErrFull], or a
	// [live.RefusedError].
	Take(from string, m *wire.ReportRequest) (wire.ReportResponse, error)
}

func (s *Service) watchMs() uint32 {
	if s.config.Live == nil {
		return 0
	}
	return s.config.Live.WatchMs()
}

// Report takes what a holder shows.
func (p rpc) Report(ctx context.Context, r *connect.Request[quotapb.ReportRequest]) (*connect.Response[quotapb.ReportResponse], error) {
	in, err := proto.Marshal(r.Msg)
	m, answer := new(wire.ReportRequest), new(wire.ReportResponse)
	if err == nil {
		if err = m.Decode(in); err != nil {
			err = &refusal{err, connect.CodeInvalidArgument, true}
		}
	}
	from := &ctx.Value(callKey{}).(*call).origin
	if err == nil {
		err = p.handler.allowed(from.secure, m.Region)
	}
	if err == nil {
		answer, err = p.service.report(from, m)
	}
	if err != nil {
		p.service.refuse(err, r.Peer().Addr)
		return nil, coded(err)
	}
	out := new(quotapb.ReportResponse)
	if err := proto.Unmarshal(answer.Append(nil), out); err != nil {
		return nil, coded(err)
	}
	return connect.NewResponse(out), nil
}

// report takes a report. An error is a *refusal.
func (s *Service) report(from *origin, m *wire.ReportRequest) (*wire.ReportResponse, error) {
	protocol, ok := wire.Common(m.Protocol, m.ProtocolMax)
	if !ok {
		return nil, otherProtocol(m.Protocol, m.ProtocolMax)
	}
	if field := m.Check(); field != "" {
		return nil, wrong(field, "is out of its bounds; quota.proto has them")
	}
	switch {
	case m.Region != "" && !rule.IsRegion(m.Region):
		return nil, wrong("region", "%.64q is no name of a region, which has %s", m.Region, rule.RegionForm)
	case m.Region == "" && s.config.Divides:
		return nil, wrong("region", "is missing: regions report here")
	}
	if pop, known := s.holders.popOf(holderID(m.Holder)); known && pop != m.Pop {
		return nil, wrong("pop", "%.128q, but this holder states %.128q when it asks for leases", m.Pop, pop)
	}
	if s.config.Live == nil {
		return &wire.ReportResponse{Protocol: protocol}, nil
	}
	answer, err := s.config.Live.Take(from.source().text(), m)
	answer.Protocol = protocol
	var refused live.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, &refusal{err, connect.CodeInvalidArgument, true}
	case err != nil:
		return nil, &refusal{err, connect.CodeResourceExhausted, true}
	}
	return &answer, nil
}

// text is the name of a source where it is a text.
func (n sourceName) text() string {
	return fmt.Sprint(n.address, " ", hex.EncodeToString(n.certificate[:8]))
}

// Knows reports whether a rule is in force, here or at the holders.
func (s *Service) Knows(name string) bool { return s.rules.Load().names[name] }

// RuleNames are those of the rules that [Service.Knows] knows, in order.
func (s *Service) RuleNames() []string { return slices.Sorted(maps.Keys(s.rules.Load().names)) }

// PerSecond is how many units a second the limit of a rule lets pass, or that of an override with a name; 0: that is
// not known here, or not a matter of time.
func (s *Service) PerSecond(name, override string) float64 {
	e := s.rules.Load().rules[name]
	if e == nil || len(e.policies) == 0 {
		return 0
	}
	p := e.policies[0]
	for i := range e.policies {
		if of := e.overrides[e.policies[i].Override]; override != "" && of != nil && of.override == override {
			p, override = e.policies[i], ""
		}
	}
	spec := p.Limit.Spec()
	if override != "" || p.Unlimited || spec.Algorithm == limit.Concurrency || spec.Period <= 0 {
		return 0 // of an override by key the limit is not kept by name
	}
	return float64(spec.Count) * float64(limit.Second) / float64(spec.Period)
}
