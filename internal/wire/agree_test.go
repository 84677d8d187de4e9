package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
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
			if err := m.Decode(marshal(t, sent)); err != nil {
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
	statuses := map[lease.Status]string{
		0: "STATUS_UNSPECIFIED", lease.OK: "STATUS_OK", lease.Denied: "STATUS_DENIED", lease.Unavailable: "STATUS_UNAVAILABLE", lease.UnknownRule: "STATUS_UNKNOWN_RULE",
	}
	for number, name := range statuses {
		if quotav1.Status_name[int32(number)] != name || len(statuses) != len(quotav1.Status_name) {
			t.Errorf("%s is %d here; quota.proto has %v", name, number, quotav1.Status_name)
		}
	}
	for number, name := range []string{wire.OutcomeAdmitted: "OUTCOME_ADMITTED", wire.OutcomeDenied: "OUTCOME_DENIED", wire.OutcomeUnavailable: "OUTCOME_UNAVAILABLE", wire.OutcomeWouldDeny: "OUTCOME_WOULD_DENY"} {
		if name != "" && quotav1.Outcome_name[int32(number)] != name {
			t.Errorf("%s is %d here", name, number)
		}
	}
}

func marshal(t *rapid.T, m proto.Message) []byte {
	b := fatal.Get(proto.Marshal(m))(t)
	return b
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
