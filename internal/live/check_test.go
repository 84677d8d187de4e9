package live_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// whole is a report with everything in it.
func whole() *quotav1.ReportRequest {
	holder := []byte("0123456789abcdef")
	return &quotav1.ReportRequest{
		Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 7, Pop: "fra1", Region: "eu",
		Members: []*quotav1.Member{{
			Kind: 1, Region: "eu", Name: "fra1", Holder: holder, Worker: 7, Version: "0.1", RulesVersion: "9f86d081884c7d65", RulesRevision: 12,
			RulesAgeMs: 5000, AgeMs: 90_000, DegradedMs: 300, Keys: 12, Places: 512, Error: "no call can be made", ErrorAgeMs: 400,
			ReservePerMille: 250, Redis: "ok", LastReportMs: 20, Workers: 8,
		}},
		Keys:      []*quotav1.KeyRate{{Rule: "login", Override: "gold", Key: []byte("ann"), Count: 8000, Over: 1000}},
		Denied:    []*quotav1.KeyRate{{Rule: "login", Override: "gold", Key: []byte("bob"), Count: 1000, Over: 500}},
		Rules:     []*quotav1.RuleUse{{Rule: "login", Matched: 10, NoKey: 1, Admitted: 7, Denied: 2, ShadowDenied: 1, AdmittedRate: 700, DeniedRate: 200}},
		Decisions: []*quotav1.Decision{{Rule: "login", Override: "gold", Key: []byte("ann"), Outcome: 2, Remaining: 3, RetryAfterMs: 1500, AgeMs: 20}},
		Trials:    []*quotav1.TrialKeys{{Rule: "login", Registers: make([]byte, distinct.Registers)}},
	}
}

// A report may have 256 KiB.
func TestLargestReport(t *testing.T) {
	for size, want := range map[int]string{256 << 10: "", 256<<10 + 1: "it has 262145 bytes"} {
		m := whole()
		const around = 5 // bytes of the tag and the length of a field that nobody knows
		m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 31, protowire.BytesType), make([]byte, size-proto.Size(m)-around)))
		if _, err := live.New(live.Config{}).Take("a", m); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// No text of a report is without a bound, and a number that stands for something does.
func TestBounds(t *testing.T) {
	collector, texts := live.New(live.Config{}), 0
	var each func(m protoreflect.Message, report *quotav1.ReportRequest)
	each = func(m protoreflect.Message, report *quotav1.ReportRequest) {
		all := m.Descriptor().Fields()
		for i := range all.Len() {
			f := all.Get(i)
			if f.Kind() == protoreflect.MessageKind {
				each(m.Get(f).List().Get(0).Message(), report)
			}
			if f.Kind() == protoreflect.EnumKind {
				before := m.Get(f)
				m.Set(f, protoreflect.ValueOfEnum(99))
				if _, err := collector.Take("a", report); err == nil || !strings.Contains(err.Error(), string(f.FullName())) {
					t.Errorf("%s: %v", f.FullName(), err)
				}
				m.Set(f, before)
			}
			if f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind {
				continue
			}
			before := m.Get(f)
			for size, want := range map[int]string{200: "", 201: string(f.FullName()) + ": out of the bounds in quota.proto"} {
				text := protoreflect.ValueOfString(strings.Repeat("x", size))
				if f.Kind() == protoreflect.BytesKind {
					text = protoreflect.ValueOfBytes(make([]byte, size))
				}
				m.Set(f, text)
				if _, err := collector.Take("a", report); (err == nil) != (want == "") || err != nil && err.Error() != want {
					t.Errorf("%s with %d bytes: %v", f.FullName(), size, err)
				}
			}
			m.Set(f, before)
			texts++
		}
	}
	m := whole()
	each(m.ProtoReflect(), m)
	if texts < 15 {
		t.Errorf("%d texts", texts)
	}
}

// FuzzReport: whatever arrives, as a report or as a note of another replica, neither stops a collector nor makes what it
// shows illegal.
func FuzzReport(f *testing.F) {
	for _, m := range []*quotav1.ReportRequest{whole(), report("fra1", 1), {}, {Keys: []*quotav1.KeyRate{{Over: math.MaxUint64}, {Count: math.MaxUint64}, {Over: 5, Count: 1}}}} {
		text := fatal.Get(proto.Marshal(m))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, regions := range []bool{false, true} {
			notes := new(live.Memory)
			d := live.New(live.Config{Reports: notes, Watches: new(live.Memory), Regions: regions})
			d.Begin(t.Context(), nil)
			if m := new(quotav1.ReportRequest); proto.Unmarshal(b, m) == nil {
				_, _ = d.Take("192.0.2.1", m)
			}
			fatal.If(t, notes.Put(t.Context(), []live.Note{{ID: "p", Text: b, For: time.Minute}, {ID: "r", Text: b, For: time.Minute}}))
			v := see(t, d)
			for _, r := range append(v.ByPoP(false), v.ByPoP(true)...) {
				if r.Over > r.Count || r.Count >= 1<<53 {
					t.Errorf("%+v", r)
				}
			}
			if found, _ := v.Decisions(&quotav1.Tap{PerSecond: 5}, nil); len(found) > 5 {
				t.Errorf("%d decisions", len(found))
			}
		}
	})
}
