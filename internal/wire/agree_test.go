package wire_test

import (
	"maps"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestAgrees sends random messages through both codecs: what the generated code
// wrote is what wire reads, and what wire writes is what the generated code reads.
// The messages are made from quota.proto itself, so a field that wire lacks fails.
func TestAgrees(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, rapid.MakeCheck(func(t *rapid.T) {
			sent := p.generated()
			randomMessage(t, sent.ProtoReflect())
			m := p.wire()
			if err := m.Decode(fatal.Get(proto.Marshal(sent))(t)); err != nil {
				t.Fatalf("wire rejected what the generated code wrote: %v", err)
			}
			if got := generated(m); !proto.Equal(got, plain(sent)) {
				t.Fatalf("wire read\n%v\nof\n%v", got, sent)
			}
			encoded := m.Append(nil)
			back := p.generated()
			if err := proto.Unmarshal(encoded, back); err != nil {
				t.Fatalf("the generated code rejected what wire wrote: %v", err)
			}
			if !proto.Equal(back, sent) {
				t.Fatalf("the generated code read\n%v\nof\n%v", back, sent)
			}
			if len(encoded) != proto.Size(sent) {
				t.Fatalf("wire wrote %d bytes, the shortest encoding has %d", len(encoded), proto.Size(sent))
			}
		}))
	}
}

// TestAppendsToDst checks that Append leaves alone what dst holds, also where a
// nested message is moved to make room for its length.
func TestAppendsToDst(t *testing.T) {
	for _, size := range []int{0, 1, 100, 126, 127, 128, 129, 16_383, 16_384, 16_500, 70_000} {
		request := &wire.Request{Protocol: wire.Protocol, Wants: []wire.Want{
			{Rule: "first", Key: make([]byte, size), Want: lease.Want{Need: 1, Waiting: 2, Want: 3}},
			{Rule: "second"},
		}}
		for _, spare := range []int{0, 1, 3, 200_000} {
			dst := append(make([]byte, 0, 6+spare), "before"...)
			got := request.Append(dst)
			if string(got[:6]) != "before" {
				t.Fatalf("key of %d bytes: dst became %q", size, got[:6])
			}
			var back quotav1.AcquireRequest
			if err := proto.Unmarshal(got[6:], &back); err != nil {
				t.Fatalf("key of %d bytes: %v", size, err)
			}
			if !proto.Equal(&back, generated(request)) {
				t.Fatalf("key of %d bytes: read back as %v", size, &back)
			}
		}
	}
}

// The numbers of statuses and outcomes are those of quota.proto.
func TestNumbersMatch(t *testing.T) {
	statuses := map[int32]string{
		0: "STATUS_UNSPECIFIED", int32(lease.OK): "STATUS_OK", int32(lease.Denied): "STATUS_DENIED",
		int32(lease.Unavailable): "STATUS_UNAVAILABLE", int32(lease.UnknownRule): "STATUS_UNKNOWN_RULE",
	}
	outcomes := map[int32]string{
		0: "OUTCOME_UNSPECIFIED", int32(wire.OutcomeAdmitted): "OUTCOME_ADMITTED", int32(wire.OutcomeDenied): "OUTCOME_DENIED",
		int32(wire.OutcomeUnavailable): "OUTCOME_UNAVAILABLE", int32(wire.OutcomeWouldDeny): "OUTCOME_WOULD_DENY",
	}
	if !maps.Equal(statuses, quotav1.Status_name) || !maps.Equal(outcomes, quotav1.Outcome_name) {
		t.Errorf("%v and %v here, %v and %v in quota.proto", statuses, outcomes, quotav1.Status_name, quotav1.Outcome_name)
	}
}

// randomMessage sets each field of m, or not, to a random value.
func randomMessage(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !rapid.Bool().Draw(t, string(f.Name())+" set") {
			continue
		}
		if !f.IsList() {
			if f.Kind() == protoreflect.MessageKind {
				randomMessage(t, m.Mutable(f).Message())
			} else {
				m.Set(f, randomValue(t, f))
			}
			continue
		}
		list := m.Mutable(f).List()
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			if f.Kind() == protoreflect.MessageKind {
				randomMessage(t, list.AppendMutable().Message())
			} else {
				list.Append(randomValue(t, f))
			}
		}
	}
}

func randomValue(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	name := string(f.Name())
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, name))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, name))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(-1, 6).Draw(t, name)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, name))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, name))
	default:
		panic("quota.proto has a field of a kind that this test has no value for: " + name)
	}
}

func TestAnswerIsThatOfTheCall(t *testing.T) {
	whole := wire.Response{Protocol: wire.Protocol, Seq: 7, Grants: make([]wire.Grant, 2)}
	for name, c := range map[string]struct {
		change func(*wire.Response)
		want   string
	}{
		"whole":            {func(*wire.Response) {}, ""},
		"other version":    {func(m *wire.Response) { m.Protocol++ }, "version 2 of the quota protocol, supported is 1"},
		"a grant too few":  {func(m *wire.Response) { m.Grants = m.Grants[1:] }, "1 grants for 2 wants"},
		"of another call":  {func(m *wire.Response) { m.Seq++ }, "another call"},
		"without a number": {func(m *wire.Response) { m.Seq = 0 }, "another call"},
	} {
		sent, got := whole, wire.Response{}
		c.change(&sent)
		err := got.DecodeAnswer(sent.Append(nil), 7, 2)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := new(wire.Response).DecodeAnswer([]byte{0xff}, 7, 2); err == nil {
		t.Error("bytes that are no message are an answer")
	}
}

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
