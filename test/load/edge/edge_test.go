//go:build linux

package edge

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// tiny is a plan for finding out whether the benchmark works, not for figures.
var tiny = plan{
	keys:   100,
	rounds: 1, round: 200 * time.Millisecond, warm: 300 * time.Millisecond,
	fixedRounds: 1, fixedRound: 200 * time.Millisecond,
	settle: 500 * time.Millisecond, chunk: 300 * time.Millisecond, chunks: 1,
	liveKeys: 2_000,
}

// Every row of the table is measured, and no request fails. What the figures are
// is not for a test to judge.
func TestEdgeMeasuresEveryRow(t *testing.T) {
	sections, err := run(t.Context(), Options{}, tiny, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := table.Print(&out, "bare", sections); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &out)
	for _, s := range sections {
		if len(s.Rows) == 0 {
			t.Errorf("%s: no rows", s.Title)
		}
		for _, r := range s.Rows {
			if len(r.Value) == 0 {
				t.Errorf("%s: %s: not measured", s.Title, r.Name)
			}
			if strings.Contains(r.Note, "failed") || strings.Contains(r.Note, "status 5") ||
				strings.Contains(r.Note, "COUNTED NO DECISION") {
				t.Errorf("%s: %s: %s", s.Title, r.Name, r.Note)
			}
		}
	}
}

func TestNoteOfDecisionsThatNobodyCounted(t *testing.T) {
	m := &mode{Mode: round.Mode{Status: answered}, rules: []string{"one"}}
	m.Seen.Done, m.Seen.Elapsed = 1, time.Second
	if got := m.note(0); !strings.Contains(got, "COUNTED NO DECISION") {
		t.Errorf("note = %q, though the filter counted nothing", got)
	}
	m.traffic = traffic{decisions: 200, waits: 3, wants: 10}
	if got := m.note(0); !strings.Contains(got, "waited 1.50 %, 0.050 wants/decision") {
		t.Errorf("note = %q, want 1.5 %% waited and 0.05 wants", got)
	}
	if rows := pathRows(&mode{Mode: round.Mode{Parts: make([]measure.Sample, 2)}}, m, []traffic{{}}, table.Target{Kind: table.AtMost, Bound: 5}); rows[3].Judge().Reached() {
		t.Error("a share of nothing has reached its target")
	}
}

func TestFamilies(t *testing.T) {
	all := families([]*measure.GoBench{
		{Package: "x/internal/limit", Name: "Decision/a", Nanos: measure.Sample{50}, Allocs: measure.Sample{1}},
		{Package: "x/internal/limit", Name: "Decision/b", Nanos: measure.Sample{60}, Allocs: measure.Sample{0}},
		{Package: "x/internal/limiter/front", Name: "Hit", Nanos: measure.Sample{50}},
		{Package: "x/elsewhere", Name: "Hit", Nanos: measure.Sample{500}},
	})
	var rows []table.Row
	for _, f := range all {
		rows = append(rows, f.rows()...)
	}
	want := []struct {
		name, unit string
		value      float64
		reached    bool
	}{
		{"limit Decision", "ns", 60, true},
		{"limit Decision", "allocs", 1, false},
		{"front Hit", "decisions/s", 20e6, true},
		{"elsewhere Hit", "ns", 500, true}, // nothing to reach
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d: %+v", len(rows), len(want), rows)
	}
	for i, w := range want {
		if r := rows[i]; r.Name != w.name || r.Unit != w.unit || r.Value.Median() != w.value || r.Judge().Reached() != w.reached {
			t.Errorf("row %d = %+v, want %+v", i, r, w)
		}
	}
}
