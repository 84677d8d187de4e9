package wire_test

import (
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// codec is what the four messages of package wire have in common.
type codec interface {
	Append(dst []byte) []byte
	Decode(b []byte) error
}

// pair is one message in both codecs.
type pair struct {
	name      string
	wire      func() codec
	generated func() proto.Message
}

var pairs = []pair{
	{"AcquireRequest", func() codec { return new(wire.Request) }, func() proto.Message { return new(quotapb.AcquireRequest) }},
	{"AcquireResponse", func() codec { return new(wire.Response) }, func() proto.Message { return new(quotapb.AcquireResponse) }},
	{"RulesRequest", func() codec { return new(wire.RulesRequest) }, func() proto.Message { return new(quotapb.RulesRequest) }},
	{"RulesResponse", func() codec { return new(wire.RulesResponse) }, func() proto.Message { return new(quotapb.RulesResponse) }},
}

// generated is m as the generated type, field by field. It is written out by hand
// so that two fields swapped in both Append and Decode do not cancel out.
func generated(m codec) proto.Message {
	switch m := m.(type) {
	case *wire.Request:
		return generatedRequest(m)
	case *wire.Response:
		return generatedResponse(m)
	case *wire.RulesRequest:
		return &quotapb.RulesRequest{Protocol: m.Protocol, HaveVersion: m.HaveVersion, Pop: m.Pop, ProtocolMax: m.ProtocolMax}
	case *wire.RulesResponse:
		return &quotapb.RulesResponse{Protocol: m.Protocol, RulesVersion: m.RulesVersion, Rules: m.Rules, RulesRevision: m.RulesRevision}
	}
	panic("a message without a generated one")
}

func generatedRequest(m *wire.Request) *quotapb.AcquireRequest {
	pb := &quotapb.AcquireRequest{
		Protocol: m.Protocol, Holder: m.Holder, Epoch: m.Epoch, Seq: m.Seq, Ack: m.Ack,
		RulesVersion: m.RulesVersion, Pop: m.Pop, TraceParent: m.TraceParent,
		Worker: m.Worker, ProtocolMax: m.ProtocolMax, RulesRevision: m.RulesRevision, Region: m.Region,
		RegionStore: m.RegionStore,
	}
	for _, w := range m.Wants {
		pb.Wants = append(pb.Wants, &quotapb.Want{
			Rule: w.Rule, Variant: w.Variant, Key: w.Key, Group: w.Group,
			Need: w.Need, Waiting: w.Waiting, Want: w.Want,
			Unused: w.Unused, Lease: w.Lease, Overdrawn: w.Overdrawn, Denied: w.Denied,
			Fresh: w.Fresh, Next: w.Next, Holding: w.Holding, Debt: w.Debt, Left: w.Left, ResetMs: w.ResetMs, Override: w.Override,
			Returned: generatedReturned(w.Returned), Soon: w.Soon,
		})
	}
	return pb
}

func generatedReturned(rs []wire.Returned) (pb []*quotapb.Returned) {
	for _, r := range rs {
		pb = append(pb, &quotapb.Returned{Name: r.Name, Units: r.Units})
	}
	return pb
}

func generatedResponse(m *wire.Response) *quotapb.AcquireResponse {
	pb := &quotapb.AcquireResponse{
		Protocol: m.Protocol, Epoch: m.Epoch, RulesVersion: m.RulesVersion, Holders: m.Holders, Seq: m.Seq,
		RulesRevision: m.RulesRevision, RegionDoubled: m.RegionDoubled, Dropped: m.Dropped,
	}
	for _, g := range m.Grants {
		pb.Grants = append(pb.Grants, &quotapb.Grant{
			Status: quotapb.Status(g.Status), Granted: g.Granted, Lease: g.Lease,
			StartsInMs: g.StartsInMs, TtlMs: g.TTLMs, RetryAfterMs: g.RetryAfterMs, AskAfterMs: g.AskAfterMs,
			Limit: g.Limit, Remaining: g.Remaining, ResetMs: g.ResetMs, StillOwed: g.StillOwed,
		})
	}
	return pb
}
