package wire_test

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/wire"
)

func generatedReport(m *wire.ReportRequest) *quotapb.ReportRequest {
	pb := &quotapb.ReportRequest{
		Protocol: m.Protocol, ProtocolMax: m.ProtocolMax, Holder: m.Holder, Worker: m.Worker, Pop: m.Pop, Region: m.Region, IntervalMs: m.IntervalMs,
		Keys: generatedRates(m.Keys), Denied: generatedRates(m.Denied),
	}
	for _, x := range m.Members {
		pb.Members = append(pb.Members, &quotapb.Member{
			Kind: quotapb.MemberKind(x.Kind), Region: x.Region, Name: x.Name, Holder: x.Holder, Worker: x.Worker, Version: x.Version,
			RulesVersion: x.RulesVersion, RulesRevision: x.RulesRevision, RulesAgeMs: x.RulesAgeMs, AgeMs: x.AgeMs, DegradedMs: x.DegradedMs,
			Keys: x.Keys, Places: x.Places, Error: x.Error, ErrorAgeMs: x.ErrorAgeMs, ReservePerMille: x.ReservePerMille, Redis: x.Redis, SilentMs: x.SilentMs, Workers: x.Workers,
		})
	}
	for _, u := range m.Rules {
		pb.Rules = append(pb.Rules, &quotapb.RuleUse{Rule: u.Rule, Matched: u.Matched, NoKey: u.NoKey, Admitted: u.Admitted, Denied: u.Denied, ShadowDenied: u.ShadowDenied})
	}
	for _, d := range m.Decisions {
		pb.Decisions = append(pb.Decisions, &quotapb.Decision{
			Rule: d.Rule, Override: d.Override, Key: d.Key, Outcome: quotapb.Outcome(d.Outcome),
			Remaining: d.Remaining, RetryAfterMs: d.RetryAfterMs, AgeMs: d.AgeMs,
		})
	}
	return pb
}

func generatedRates(rates []wire.KeyRate) (pb []*quotapb.KeyRate) {
	for _, k := range rates {
		pb = append(pb, &quotapb.KeyRate{Rule: k.Rule, Override: k.Override, Key: k.Key, Count: k.Count, Over: k.Over})
	}
	return pb
}

func generatedWatch(m *wire.ReportResponse) *quotapb.ReportResponse {
	pb := &quotapb.ReportResponse{Protocol: m.Protocol, WatchMs: m.WatchMs, Keys: m.Keys}
	if t := m.Tap; t != nil {
		pb.Tap = &quotapb.Tap{Rule: t.Rule, Key: t.Key, Outcome: quotapb.Outcome(t.Outcome), PerSecond: t.PerSecond}
	}
	return pb
}

// plainReport makes each kind and outcome that is unknown none.
func plainReport(m proto.Message) {
	outcome := func(o *quotapb.Outcome) {
		if _, known := quotapb.Outcome_name[int32(*o)]; !known {
			*o = 0
		}
	}
	switch m := m.(type) {
	case *quotapb.ReportRequest:
		for _, x := range m.Members {
			if _, known := quotapb.MemberKind_name[int32(x.Kind)]; !known {
				x.Kind = 0
			}
		}
		for _, d := range m.Decisions {
			outcome(&d.Outcome)
		}
	case *quotapb.ReportResponse:
		if m.Tap != nil {
			outcome(&m.Tap.Outcome)
		}
	}
}

// sampleReport is what a worker shows, with everything in it.
func sampleReport() *wire.ReportRequest {
	holder := []byte("0123456789abcdef")
	return &wire.ReportRequest{
		Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 7, Pop: "fra1", Region: "eu", IntervalMs: 8000,
		Members: []wire.Member{{
			Kind: wire.MemberPop, Region: "eu", Name: "fra1", Holder: holder, Worker: 7, Version: "0.1", RulesVersion: "9f86d081884c7d65", RulesRevision: 12,
			RulesAgeMs: 5000, AgeMs: 90_000, DegradedMs: 300, Keys: 12, Places: 512, Error: "no call can be made", ErrorAgeMs: 400, ReservePerMille: 250, Redis: "ok", SilentMs: 20, Workers: 8,
		}},
		Keys:      []wire.KeyRate{{Rule: "login", Override: "gold", Key: []byte("ann"), Count: 8000, Over: 1000}},
		Denied:    []wire.KeyRate{{Rule: "login", Override: "gold", Key: []byte("bob"), Count: 1000, Over: 500}},
		Rules:     []wire.RuleUse{{Rule: "login", Matched: 10, NoKey: 1, Admitted: 7, Denied: 2, ShadowDenied: 1}},
		Decisions: []wire.Decision{{Rule: "login", Override: "gold", Key: []byte("ann"), Outcome: wire.OutcomeDenied, Remaining: 3, RetryAfterMs: 1500, AgeMs: 20}},
	}
}

// What a report may have and what not. The whole one has every field, so that each bound is one of a field that is in use.
func TestReportBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		refused string // empty: it is taken
		change  func(*wire.ReportRequest)
	}{
		{"", func(m *wire.ReportRequest) {}},
		{"", func(m *wire.ReportRequest) { m.Members[0].Holder, m.Members[0].RulesRevision = nil, math.MaxUint64 }},
		{"", func(m *wire.ReportRequest) {
			m.Pop, m.Keys[0].Key, m.Members[0].Error = long(128), []byte(long(128)), long(200)
		}},
		{"holder", func(m *wire.ReportRequest) { m.Holder = m.Holder[1:] }},
		{"pop", func(m *wire.ReportRequest) { m.Pop = long(129) }},
		{"region", func(m *wire.ReportRequest) { m.Region = long(65) }},
		{"interval_ms", func(m *wire.ReportRequest) { m.IntervalMs = 60_001 }},
		{"members.kind", func(m *wire.ReportRequest) { m.Members[0].Kind = 0 }},
		{"members.region", func(m *wire.ReportRequest) { m.Members[0].Region = long(65) }},
		{"members.name", func(m *wire.ReportRequest) { m.Members[0].Name = long(129) }},
		{"members.holder", func(m *wire.ReportRequest) { m.Members[0].Holder = []byte("x") }},
		{"members.version", func(m *wire.ReportRequest) { m.Members[0].Version = long(65) }},
		{"members.rules_version", func(m *wire.ReportRequest) { m.Members[0].RulesVersion = long(65) }},
		{"members.error", func(m *wire.ReportRequest) { m.Members[0].Error = long(201) }},
		{"members.redis", func(m *wire.ReportRequest) { m.Members[0].Redis = long(201) }},
		{"members.reserve_per_mille", func(m *wire.ReportRequest) { m.Members[0].ReservePerMille = 1001 }},
		{"members", func(m *wire.ReportRequest) { m.Members[0].ErrorAgeMs = 1 << 53 }},
		{"keys.rule", func(m *wire.ReportRequest) { m.Keys[0].Rule = long(131) }},
		{"keys.override", func(m *wire.ReportRequest) { m.Keys[0].Override = long(65) }},
		{"keys.key", func(m *wire.ReportRequest) { m.Keys[0].Key = make([]byte, 129) }},
		{"keys.over", func(m *wire.ReportRequest) { m.Keys[0].Over = 8001 }},
		{"keys", func(m *wire.ReportRequest) { m.Keys[0].Count = 1 << 53 }},
		{"denied.over", func(m *wire.ReportRequest) { m.Denied[0].Over = 1001 }},
		{"rules.rule", func(m *wire.ReportRequest) { m.Rules[0].Rule = long(131) }},
		{"rules", func(m *wire.ReportRequest) { m.Rules[0].ShadowDenied = 1 << 53 }},
		{"decisions.rule", func(m *wire.ReportRequest) { m.Decisions[0].Rule = long(131) }},
		{"decisions.override", func(m *wire.ReportRequest) { m.Decisions[0].Override = long(65) }},
		{"decisions.key", func(m *wire.ReportRequest) { m.Decisions[0].Key = make([]byte, 129) }},
		{"decisions.outcome", func(m *wire.ReportRequest) { m.Decisions[0].Outcome = 0 }},
		{"decisions.outcome", func(m *wire.ReportRequest) { m.Decisions[0].Outcome = wire.OutcomeWouldDeny + 1 }},
		{"decisions.remaining", func(m *wire.ReportRequest) { m.Decisions[0].Remaining = 1 << 32 }},
		{"decisions", func(m *wire.ReportRequest) { m.Decisions[0].AgeMs = 1 << 53 }},
	} {
		m, got := sampleReport(), new(wire.ReportRequest)
		c.change(m)
		if err := got.Decode(m.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if field := got.Check(); field != c.refused {
			t.Errorf("%+v: %q, want %q", m, field, c.refused)
		}
	}
}

// checkReport fails if a report that was taken has anything beyond its bounds, or a message of more than its sender sent.
func checkReport(t *testing.T, m *wire.ReportRequest) {
	v := reflect.ValueOf(m).Elem()
	longest := map[string]int{"Rule": 130, "Override": 64, "Key": 128, "Pop": 128, "Name": 128, "Holder": 16, "Region": 64, "Version": 64, "RulesVersion": 64, "Error": 200, "Redis": 200}
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), v.Type().Field(i).Name)
			}
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				walk(v.Index(i), "")
			}
		case v.Kind() == reflect.Slice, v.Kind() == reflect.String:
			if most, ok := longest[name]; !ok || v.Len() > most {
				t.Fatalf("%s has %d bytes: %+v", name, v.Len(), m)
			}
		case name == "Protocol", name == "ProtocolMax", name == "Worker", name == "RulesRevision":
		case v.Uint() >= 1<<53 || (name == "Outcome" || name == "Kind") && v.Uint() == 0:
			t.Fatalf("%s is %d: %+v", name, v.Uint(), m)
		}
	}
	walk(v, "")
}

// The sample has no field at its zero value: a field that one side forgets would not show otherwise.
func TestReportSampleIsWhole(t *testing.T) {
	m := reflect.ValueOf(sampleReport()).Elem()
	for i := range m.NumField() {
		f := m.Field(i)
		if f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && f.Len() > 0 {
			for j := range f.Index(0).NumField() {
				if name := f.Type().Elem().Field(j).Name; f.Index(0).Field(j).IsZero() {
					t.Errorf("%s has no %s", m.Type().Field(i).Name, name)
				}
			}
		} else if f.IsZero() {
			t.Errorf("there is no %s", m.Type().Field(i).Name)
		}
	}
}

// The most that a report may have is read, and one more of anything is refused.
func TestReportLists(t *testing.T) {
	for number, most := range map[protowire.Number]int{8: wire.MaxMembers, 9: wire.MaxKeyRates, 10: wire.MaxKeyRates, 11: wire.MaxRuleUses, 12: wire.MaxDecisions} {
		if err := new(wire.ReportRequest).Decode(repeated(number, most)); err != nil {
			t.Error(err)
		}
		if err := new(wire.ReportRequest).Decode(repeated(number, most+1)); err == nil || !strings.Contains(err.Error(), "list is longer") {
			t.Errorf("%d of field %d: %v", most+1, number, err)
		}
	}
	longest := protowire.AppendBytes([]byte{3<<3 | 2}, make([]byte, wire.MaxReport-4))
	if err := new(wire.ReportRequest).Decode(longest); err != nil || len(longest) != wire.MaxReport {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	if err := new(wire.ReportRequest).Decode(append(longest, 0)); err == nil || err.Error() != "malformed ReportRequest at byte 262144: message is longer than its maximum" {
		t.Error(err)
	}
}

// Decoding into the same report again leaves nothing of the one before, and allocates next to nothing.
func TestReportIsReplaced(t *testing.T) {
	encoded := sampleReport().Append(nil)
	var m wire.ReportRequest
	mustDecode(t, &m, encoded)
	if n := testing.AllocsPerRun(100, func() { mustDecode(t, &m, encoded) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	mustDecode(t, &m, bytes.Join([][]byte{repeated(8, 1), repeated(9, 1), repeated(10, 1), repeated(11, 1), repeated(12, 1)}, nil))
	if got := generated(&m); !proto.Equal(got, &quotapb.ReportRequest{
		Members: []*quotapb.Member{{}}, Keys: []*quotapb.KeyRate{{}}, Denied: []*quotapb.KeyRate{{}}, Rules: []*quotapb.RuleUse{{}}, Decisions: []*quotapb.Decision{{}},
	}) {
		t.Errorf("read %v", got)
	}
}
