package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// watch is a ReportResponse, which the generated code alone writes.
type watch struct{ wire.ReportResponse }

func (w *watch) Append(dst []byte) []byte {
	return appendGenerated(dst, generatedWatch(&w.ReportResponse))
}

func generatedWatch(m *wire.ReportResponse) *quotav1.ReportResponse {
	pb := &quotav1.ReportResponse{Protocol: m.Protocol, WatchMs: m.WatchMs}
	if t := m.Tap; t != nil {
		pb.Tap = &quotav1.Tap{Rule: t.Rule, Key: t.Key, Outcome: quotav1.Outcome(t.Outcome), PerSecond: t.PerSecond}
	}
	return pb
}

func generatedReport(m *wire.ReportRequest) *quotav1.ReportRequest {
	x := &m.Member
	pb := &quotav1.ReportRequest{
		Protocol: m.Protocol, ProtocolMax: m.ProtocolMax, Holder: m.Holder, Worker: m.Worker, Pop: m.Pop, Region: m.Region, KeysMs: m.KeysMs,
		Keys: generatedRates(m.Keys), Denied: generatedRates(m.Denied),
		Members: []*quotav1.Member{{
			Version: x.Version, RulesVersion: x.RulesVersion, RulesRevision: x.RulesRevision, RulesAgeMs: x.RulesAgeMs, AgeMs: x.AgeMs,
			DegradedMs: x.DegradedMs, Keys: x.Keys, Places: x.Places, Error: x.Error, ErrorAgeMs: x.ErrorAgeMs, ReservePerMille: x.ReservePerMille,
		}},
	}
	for _, u := range m.Rules {
		pb.Rules = append(pb.Rules, &quotav1.RuleUse{
			Rule: u.Rule, Matched: u.Matched, NoKey: u.NoKey, Admitted: u.Admitted, Denied: u.Denied, ShadowDenied: u.ShadowDenied,
			AdmittedRate: u.AdmittedRate, DeniedRate: u.DeniedRate, Fallback: u.Fallback, Shed: u.Shed, ShadowAdmitted: u.ShadowAdmitted,
		})
	}
	for _, k := range m.Trials {
		pb.Trials = append(pb.Trials, &quotav1.TrialKeys{Rule: k.Rule, Registers: k.Registers})
	}
	for _, d := range m.Decisions {
		pb.Decisions = append(pb.Decisions, &quotav1.Decision{
			Rule: d.Rule, Override: d.Override, Key: d.Key, Outcome: quotav1.Outcome(d.Outcome),
			Remaining: d.Remaining, RetryAfterMs: d.RetryAfterMs, AgeMs: d.AgeMs,
		})
	}
	return pb
}

func generatedRates(rates []wire.KeyRate) (pb []*quotav1.KeyRate) {
	for _, k := range rates {
		pb = append(pb, &quotav1.KeyRate{Rule: k.Rule, Override: k.Override, Key: k.Key, Count: k.Count, Over: k.Over})
	}
	return pb
}

// What a PoP writes is what the generated code reads, in the shortest form.
func TestReportAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.Make[wire.ReportRequest]().Draw(t, "report")
		encoded, want, got := sent.Encode(), generatedReport(&sent), new(quotav1.ReportRequest)
		if err := proto.Unmarshal(encoded, got); err != nil {
			t.Fatalf("the generated code rejected what wire wrote: %v", err)
		}
		if !proto.Equal(got, want) || len(encoded) != proto.Size(want) {
			t.Fatalf("the generated code read\n%v\nof\n%v", got, want)
		}
	})
}

// Of lists a report has as much as fits, the first items, and no more of one than a list may have.
func TestReportFits(t *testing.T) {
	long := strings.Repeat("l", 100)
	m := wire.ReportRequest{Pop: "fra1", Keys: make([]wire.KeyRate, wire.MaxListed+1), Decisions: make([]wire.Decision, 100)}
	for range 4000 {
		m.Rules = append(m.Rules, wire.RuleUse{Rule: long, Matched: 7})
	}
	encoded, got := m.Encode(), new(quotav1.ReportRequest)
	fatal.If(t, proto.Unmarshal(encoded, got))
	if n := len(encoded); n > wire.MaxReport || n < wire.MaxReport-200 {
		t.Errorf("%d bytes", n)
	}
	if n := len(got.Rules); len(got.Keys) != wire.MaxListed || n < 2300 || n > 2400 || got.Rules[n-1].Rule != long || got.Rules[n-1].Matched != 7 || len(got.Decisions) == 0 || len(got.Decisions) == 100 {
		t.Errorf("%d keys, %d rules, %d decisions", len(got.Keys), n, len(got.Decisions))
	}
}
