package wire_test

import (
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
)

// codec is what the messages of package wire have in common.
type codec interface {
	Append(dst []byte) []byte
	Decode(b []byte) error
}

// asked and answered have what no program needs of the generated code.
type (
	asked    struct{ wire.RulesRequest }
	answered struct{ wire.RulesResponse }
)

func (m *asked) Decode(b []byte) error {
	var pb quotav1.RulesRequest
	err := proto.Unmarshal(b, &pb)
	m.RulesRequest = wire.RulesRequest{Protocol: pb.Protocol, HaveVersion: pb.HaveVersion, Pop: pb.Pop, ProtocolMax: pb.ProtocolMax, HaveSecret: pb.HaveSecret}
	return err
}

func (m *answered) Append(dst []byte) []byte { return appendGenerated(dst, generated(m)) }

func appendGenerated(dst []byte, m proto.Message) []byte {
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		panic(err)
	}
	return dst
}

// pair is one message in both codecs.
type pair struct {
	name      string
	wire      func() codec
	generated func() proto.Message
}

var pairs = []pair{
	{"AcquireRequest", func() codec { return new(wire.Request) }, func() proto.Message { return new(quotav1.AcquireRequest) }},
	{"AcquireResponse", func() codec { return new(wire.Response) }, func() proto.Message { return new(quotav1.AcquireResponse) }},
	{"RulesRequest", func() codec { return new(asked) }, func() proto.Message { return new(quotav1.RulesRequest) }},
	{"RulesResponse", func() codec { return new(answered) }, func() proto.Message { return new(quotav1.RulesResponse) }},
	{"ReportResponse", func() codec { return new(watch) }, func() proto.Message { return new(quotav1.ReportResponse) }},
}

// generated is m as the generated type, field by field. It is written out by hand
// so that two fields swapped in both Append and Decode do not cancel out.
func generated(m codec) proto.Message {
	switch m := m.(type) {
	case *wire.Request:
		return generatedRequest(m)
	case *wire.Response:
		return generatedResponse(m)
	case *asked:
		return &quotav1.RulesRequest{Protocol: m.Protocol, HaveVersion: m.HaveVersion, Pop: m.Pop, ProtocolMax: m.ProtocolMax, HaveSecret: m.HaveSecret}
	case *answered:
		return &quotav1.RulesResponse{Protocol: m.Protocol, RulesVersion: m.RulesVersion, Rules: m.Rules, RulesRevision: m.RulesRevision, Secret: m.Secret, WatchMs: m.WatchMs}
	case *watch:
		return generatedWatch(&m.ReportResponse)
	}
	panic("a message without a generated one")
}

func generatedRequest(m *wire.Request) *quotav1.AcquireRequest {
	pb := &quotav1.AcquireRequest{
		Protocol: m.Protocol, Holder: m.Holder, Seq: m.Seq, Ack: m.Ack,
		RulesVersion: m.RulesVersion, Pop: m.Pop, TraceParent: m.TraceParent,
		Worker: m.Worker, ProtocolMax: m.ProtocolMax, RulesRevision: m.RulesRevision, Region: m.Region,
	}
	if s := m.Reserve; s != nil {
		pb.Reserve = &quotav1.ReserveStatement{Id: s.ID, UntilUs: uint64(s.Until), Used: generatedSpans(s.Used), No: s.No, Part: uint32(s.Part)}
	}
	for _, w := range m.Wants {
		pb.Wants = append(pb.Wants, &quotav1.Want{
			Rule: w.Rule, Variant: w.Variant, Key: w.Key, Group: w.Group,
			Need: uint64(w.Need), Waiting: uint64(w.Waiting), Want: uint64(w.Want.Want),
			Unused: uint64(w.Unused), Lease: uint64(w.Shape)<<32 | uint64(w.Lease), Overdrawn: uint64(w.Overdrawn), Denied: uint64(w.Denied),
			Fresh: w.Fresh, Next: w.Next, Holding: uint64(w.Holding), Debt: w.Debt, Override: w.Override,
			Soon: uint64(w.Soon), Settled: uint64(w.Settled),
		})
	}
	return pb
}

func generatedSpans(spans []reserve.Span) (pb []*quotav1.ReserveSpan) {
	for _, s := range spans {
		pb = append(pb, &quotav1.ReserveSpan{AfterUs: uint64(s.After), UntilUs: uint64(s.Until)})
	}
	return pb
}

func generatedResponse(m *wire.Response) *quotav1.AcquireResponse {
	pb := &quotav1.AcquireResponse{
		Protocol: m.Protocol, RulesVersion: m.RulesVersion, Holders: m.Holders, Seq: m.Seq,
		RulesRevision: m.RulesRevision, Dropped: m.Dropped,
		SharePerMille: m.SharePerMille, Secret: m.Secret, WatchMs: m.WatchMs,
	}
	if p := m.Reserve; p != nil {
		pb.Reserve = &quotav1.ReserveReply{
			AtUs: uint64(p.At), ShareNo: p.Share.No, SharePart: uint32(p.Share.Part), ShareSinceUs: uint64(p.Share.Since),
			UntilUs: uint64(p.Until), Used: generatedSpans(p.Used),
		}
	}
	for _, g := range m.Grants {
		pb.Grants = append(pb.Grants, &quotav1.Grant{
			Status: quotav1.Status(g.Status), Granted: uint64(g.Granted), Lease: uint64(g.Shape)<<32 | uint64(g.Lease),
			StartsInMs: uint64(g.StartsIn), TtlMs: uint64(g.TTL), RetryAfterMs: generatedTime(g.RetryAfter), AskAfterMs: uint64(g.AskAfter),
			Limit: uint64(g.Limit), Remaining: uint64(g.Remaining), ResetMs: generatedTime(g.Reset), StillOwed: g.StillOwed, Override: g.Name, Block: quotav1.Block(g.Block),
		})
	}
	return pb
}

const neverMs = 1<<53 - 1 // as in quota.proto

func generatedTime(d lease.Millis) uint64 {
	if d == lease.Never {
		return neverMs
	}
	return uint64(d)
}

// plain is m as package wire reads it: a value of an enum that is unknown is none, and a time so long
// that it never comes has one value.
func plain(m proto.Message) proto.Message {
	if m, ok := m.(*quotav1.ReportResponse); ok && m.Tap != nil {
		if _, known := quotav1.Outcome_name[int32(m.Tap.Outcome)]; !known {
			m.Tap.Outcome = 0
		}
	}
	response, ok := m.(*quotav1.AcquireResponse)
	if !ok {
		return m
	}
	for _, g := range response.Grants {
		if _, known := quotav1.Status_name[int32(g.Status)]; !known {
			g.Status = 0
		}
		if _, known := quotav1.Block_name[int32(g.Block)]; !known {
			g.Block = 0
		}
		for _, ms := range []*uint64{&g.RetryAfterMs, &g.ResetMs} {
			if *ms >= uint64(lease.Never) {
				*ms = neverMs
			}
		}
	}
	return m
}
