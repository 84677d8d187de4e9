package live_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/quotapb"
)

// whole is a report with everything in it.
func whole() *quotapb.ReportRequest {
	holder := []byte("0123456789abcdef")
	return &quotapb.ReportRequest{
		Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 7, Pop: "fra1", Region: "eu",
		Members: []*quotapb.Member{{
			Kind: 1, Region: "eu", Name: "fra1", Holder: holder, Worker: 7, Version: "0.1", RulesVersion: "9f86d081884c7d65", RulesRevision: 12,
			RulesAgeMs: 5000, AgeMs: 90_000, DegradedMs: 300, Keys: 12, Places: 512, Error: "no call can be made", ErrorAgeMs: 400,
			ReservePerMille: 250, Redis: "ok", SilentMs: 20, Workers: 8,
		}},
		Keys:      []*quotapb.KeyRate{{Rule: "login", Override: "gold", Key: []byte("ann"), Count: 8000, Over: 1000}},
		Denied:    []*quotapb.KeyRate{{Rule: "login", Override: "gold", Key: []byte("bob"), Count: 1000, Over: 500}},
		Rules:     []*quotapb.RuleUse{{Rule: "login", Matched: 10, NoKey: 1, Admitted: 7, Denied: 2, ShadowDenied: 1, AdmittedRate: 700, DeniedRate: 200}},
		Decisions: []*quotapb.Decision{{Rule: "login", Override: "gold", Key: []byte("ann"), Outcome: 2, Remaining: 3, RetryAfterMs: 1500, AgeMs: 20}},
	}
}

// What a report may have at most, as quota.proto has it.
func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	take := func(m *quotapb.ReportRequest) error {
		_, err := live.New(live.Config{}).Take("a", m)
		return err
	}
	for field, c := range map[string]struct{ most, more func(*quotapb.ReportRequest) }{
		"ReportRequest.pop": {
			func(m *quotapb.ReportRequest) { m.Pop = long(128) }, func(m *quotapb.ReportRequest) { m.Pop = long(129) }},
		"ReportRequest.decisions": {
			func(m *quotapb.ReportRequest) { m.Decisions = make([]*quotapb.Decision, 4096) }, func(m *quotapb.ReportRequest) { m.Decisions = make([]*quotapb.Decision, 4097) }},
		"Member.kind": {
			func(m *quotapb.ReportRequest) { m.Members[0].Kind = 0 }, func(m *quotapb.ReportRequest) { m.Members[0].Kind = 4 }},
		"Member.error": {
			func(m *quotapb.ReportRequest) { m.Members[0].Error = long(200) }, func(m *quotapb.ReportRequest) { m.Members[0].Error = long(201) }},
		"Member.reserve_per_mille": {
			func(m *quotapb.ReportRequest) { m.Members[0].ReservePerMille = 1000 }, func(m *quotapb.ReportRequest) { m.Members[0].ReservePerMille = 1001 }},
		"Member.error_age_ms": {
			func(m *quotapb.ReportRequest) { m.Members[0].RulesRevision = math.MaxUint64 }, func(m *quotapb.ReportRequest) { m.Members[0].ErrorAgeMs = 1 << 53 }},
		"KeyRate.key": {
			func(m *quotapb.ReportRequest) { m.Keys[0].Key = make([]byte, 128) }, func(m *quotapb.ReportRequest) { m.Denied[0].Key = make([]byte, 129) }},
		"RuleUse.rule": {
			func(m *quotapb.ReportRequest) { m.Rules[0].Rule = long(130) }, func(m *quotapb.ReportRequest) { m.Rules[0].Rule = long(131) }},
		"Decision.remaining": {
			func(m *quotapb.ReportRequest) { m.Decisions[0].Remaining = 1<<32 - 1 }, func(m *quotapb.ReportRequest) { m.Decisions[0].Remaining = 1 << 32 }},
		"report": {
			func(m *quotapb.ReportRequest) { m.ProtoReflect().SetUnknown(unknown(256<<10 - proto.Size(m))) },
			func(m *quotapb.ReportRequest) { m.ProtoReflect().SetUnknown(unknown(256<<10 - proto.Size(m) + 1)) }},
	} {
		m := whole()
		if c.most(m); take(m) != nil {
			t.Errorf("%s: the most is refused: %v", field, take(m))
		}
		m = whole()
		if c.more(m); take(m) == nil || !strings.Contains(take(m).Error(), field+": it ") {
			t.Errorf("%s: %v", field, take(m))
		}
	}
}

// unknown is so many bytes of a field that nobody knows.
func unknown(size int) []byte {
	const around = 5 // its tag and its length
	return protowire.AppendBytes(protowire.AppendTag(nil, 31, protowire.BytesType), make([]byte, size-around))
}

// Nothing of a report is without a bound: whatever is as large as it can be is refused, but for what any number may be.
func TestEverythingIsBounded(t *testing.T) {
	desk, fields := live.New(live.Config{}), 0
	var each func(m protoreflect.Message, report *quotapb.ReportRequest)
	each = func(m protoreflect.Message, report *quotapb.ReportRequest) {
		all := m.Descriptor().Fields()
		for i := range all.Len() {
			f := all.Get(i)
			if !m.Has(f) {
				t.Errorf("the whole report has no %s", f.FullName())
				continue
			}
			before := m.Get(f)
			switch f.Kind() {
			case protoreflect.MessageKind:
				each(before.List().Get(0).Message(), report)
				continue
			case protoreflect.StringKind:
				m.Set(f, protoreflect.ValueOfString(strings.Repeat("x", 201)))
			case protoreflect.BytesKind:
				m.Set(f, protoreflect.ValueOfBytes(make([]byte, 201)))
			case protoreflect.EnumKind:
				m.Set(f, protoreflect.ValueOfEnum(-1))
			case protoreflect.Uint64Kind:
				m.Set(f, protoreflect.ValueOfUint64(math.MaxUint64))
			default:
				m.Set(f, protoreflect.ValueOfUint32(math.MaxUint32))
			}
			_, err := desk.Take("a", report)
			free := f.Name() == "worker" || f.Name() == "rules_revision" || f.Kind() == protoreflect.Uint32Kind && err == nil
			if fields++; (err == nil) != free {
				t.Errorf("%s: %v", f.FullName(), err)
			}
			m.Set(f, before)
		}
	}
	m := whole()
	each(m.ProtoReflect(), m)
	if fields < 40 {
		t.Errorf("%d fields", fields)
	}
}

// FuzzReport: whatever arrives, as a report or as a note of another replica, neither stops a desk nor makes what it
// shows illegal.
func FuzzReport(f *testing.F) {
	for _, m := range []*quotapb.ReportRequest{whole(), report("fra1", 1), {}, {Keys: []*quotapb.KeyRate{{Over: math.MaxUint64}, {Count: math.MaxUint64}, {Over: 5, Count: 1}}}} {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, regions := range []bool{false, true} {
			board := new(live.Memory)
			d := live.New(live.Config{Reports: board, Watches: new(live.Memory), Regions: regions})
			d.Begin(t.Context(), nil)
			if m := new(quotapb.ReportRequest); proto.Unmarshal(b, m) == nil {
				_, _ = d.Take("192.0.2.1", m)
			}
			if err := board.Put(t.Context(), []live.Note{{ID: "p", Text: b, For: time.Minute}, {ID: "r", Text: b, For: time.Minute}}); err != nil {
				t.Fatal(err)
			}
			v := see(t, d)
			for _, r := range append(v.ByPoP(false), v.ByPoP(true)...) {
				if r.Over > r.Count || r.Count >= 1<<53 {
					t.Errorf("%+v", r)
				}
			}
			if found, _ := v.Decisions(&quotapb.Tap{PerSecond: 5}, nil); len(found) > 5 {
				t.Errorf("%d decisions", len(found))
			}
		}
	})
}
