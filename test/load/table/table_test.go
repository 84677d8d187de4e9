package table

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/measure"
)

func TestJudge(t *testing.T) {
	bare := measure.Sample{18, 20, 22} // min 18, median 20
	refusing := measure.Sample{16, 17, 18}
	for _, tc := range []struct {
		name   string
		row    Row
		figure float64
		text   string
	}{
		{"within a difference",
			Row{Unit: "µs", Value: measure.Sample{25, 27, 29}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			7, "reached"},
		{"exactly at the bound",
			Row{Unit: "µs", Value: measure.Sample{26, 28, 30}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			8, "reached"},
		{"over a difference",
			Row{Unit: "µs", Value: measure.Sample{27, 29.5, 31}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			9.5, "short by 1.50 µs"},
		{"only the minima are within",
			Row{Unit: "µs", Value: measure.Sample{25, 29, 31}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			9, "short by 1 µs (minima: reached)"},
		{"only the medians are within",
			Row{Unit: "µs", Value: measure.Sample{27, 27.5, 31}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			7.5, "reached (minima: short by 1 µs)"},
		{"a ratio to bare",
			Row{Value: measure.Sample{36, 40, 44}, Peer: bare, Target: Target{Kind: Times, Bound: 1.6}},
			2, "short by 0.40 x"},
		{"a ratio to another row",
			Row{Value: measure.Sample{17, 18.7, 20}, Peer: bare,
				Target: Target{Kind: Times, Bound: 1.15, Base: refusing, BaseName: "native refusing"}},
			1.1, "reached"},
		{"nothing to compare with",
			Row{Value: measure.Sample{17}, Target: Target{Kind: Times, Bound: 1.15}},
			math.NaN(), "not measured"},
		{"not measured", Row{Target: Target{Kind: AtMost, Bound: 100}}, math.NaN(), "not measured"},
		{"at most", Row{Unit: "MB", Value: measure.Sample{101}, Target: Target{Kind: AtMost, Bound: 100}}, 101, "short by 1 MB"},
		{"at least", Row{Value: measure.Sample{12e6}, Target: Target{Kind: AtLeast, Bound: 10e6}}, 12e6, "reached"},
		{"not at least", Row{Unit: "/s", Value: measure.Sample{9e6}, Target: Target{Kind: AtLeast, Bound: 10e6}}, 9e6, "short by 1 M /s"},
		{"no target", Row{Value: measure.Sample{1}, Peer: bare}, 0, ""},
	} {
		v := tc.row.Judge()
		same := math.Abs(v.Figure-tc.figure) < 1e-9 || math.IsNaN(v.Figure) && math.IsNaN(tc.figure)
		if text := v.text(tc.row.Target, tc.row.Unit); !same || text != tc.text {
			t.Errorf("%s: figure %v, %q; want %v, %q", tc.name, v.Figure, text, tc.figure, tc.text)
		}
	}
}

func sections() []Section {
	bare := measure.Sample{18, 20, 22}
	return []Section{
		{Title: "Closed loop", Rows: []Row{
			{Name: "bare", Unit: "µs/req", Value: bare, Peer: bare},
			{Name: "Weir", Unit: "µs/req", Value: measure.Sample{30, 30, 30}, Peer: bare,
				Target: Target{Kind: Over, Bound: 8}, Note: "3 failed"},
		}},
		{Title: "Memory", Rows: []Row{
			{Name: "Weir", Unit: "MB", Target: Target{Kind: AtMost, Bound: 100}},
		}},
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, "bare", sections()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"| | unit | min | median | x bare | over bare | target | | note |",
		"",
		"| **Closed loop** | | | | | | | | |",
		"| bare | µs/req | 18 | 20 | 1.00 / 1.00 | 0.0 / 0.0 | | | |",
		"| Weir | µs/req | 30 | 30 | 1.67 / 1.50 | 12.0 / 10.0 | <= bare + 8 µs/req | short by 2 µs/req | 3 failed |",
		"| **Memory** | | | | | | | | |",
		"| Weir | MB | - | - | | | <= 100 MB | not measured | |",
		"",
	}
	got := strings.Split(out.String(), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), out.String())
	}
	for i, line := range want {
		if i != 1 && squeeze(got[i]) != line { // 1 is the ruler
			t.Errorf("line %d:\n got %s\nwant %s", i, squeeze(got[i]), line)
		}
	}
	for i, line := range got[:len(got)-1] {
		if len([]rune(line)) != len([]rune(got[0])) {
			t.Errorf("line %d is not as long as the first: %q", i, line)
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// A row that was not measured has not reached its target.
func TestMissed(t *testing.T) {
	if got := Missed(sections()); got != 2 {
		t.Errorf("Missed = %d, want 2", got)
	}
}

func TestWriteJSON(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJSON(&out, "bare", sections()); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Section, Name, Verdict string
		Rounds                 []float64
		Reached                *bool
	}
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || rows[0].Reached != nil || rows[1].Reached == nil || *rows[1].Reached {
		t.Fatalf("rows = %+v", rows)
	}
	if rows[1].Section != "Closed loop" || rows[1].Verdict != "short by 2 µs/req" || len(rows[1].Rounds) != 3 {
		t.Errorf("row 1 = %+v", rows[1])
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 8: "8", 1.5: "1.50", 0.012: "0.012", 18.64: "18.6", 123.4: "123", 10e6: "10 M", 12.34e6: "12.3 M",
		math.NaN(): "-", math.Inf(1): "-",
	} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %q, want %q", x, got, want)
		}
	}
}
