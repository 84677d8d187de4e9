package table

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/measure"
)

func TestVerdict(t *testing.T) {
	bare := measure.Sample{18, 20, 22} // min 18, median 20
	rejecting := measure.Sample{16, 17, 18}
	for _, tc := range []struct {
		name string
		row  Row
		text string
	}{
		{"within a difference",
			Row{Unit: "µs", Value: measure.Sample{25, 27, 29}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			"reached"},
		{"exactly at the bound",
			Row{Unit: "µs", Value: measure.Sample{26, 28, 30}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			"reached"},
		{"over a difference",
			Row{Unit: "µs", Value: measure.Sample{27, 29.5, 31}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			"short by 1.50 µs"},
		{"the medians decide",
			Row{Unit: "µs", Value: measure.Sample{25, 29, 31}, Peer: bare, Target: Target{Kind: Over, Bound: 8}},
			"short by 1 µs"},
		{"a ratio to bare",
			Row{Value: measure.Sample{36, 40, 44}, Peer: bare, Target: Target{Kind: Times, Bound: 1.6}},
			"short by 0.40 x"},
		{"a ratio to another row",
			Row{Value: measure.Sample{17, 18.7, 20}, Peer: bare,
				Target: Target{Kind: Times, Bound: 1.15, Base: rejecting, BaseName: "native rejecting"}},
			"reached"},
		{"nothing to compare with",
			Row{Value: measure.Sample{17}, Target: Target{Kind: Times, Bound: 1.15}},
			"not measured"},
		{"not measured", Row{Target: Target{Kind: AtMost, Bound: 100}}, "not measured"},
		{"at most", Row{Unit: "MB", Value: measure.Sample{101}, Target: Target{Kind: AtMost, Bound: 100}}, "short by 1 MB"},
		{"at least", Row{Value: measure.Sample{12e6}, Target: Target{Kind: AtLeast, Bound: 10e6}}, "reached"},
		{"not at least", Row{Unit: "/s", Value: measure.Sample{9e6}, Target: Target{Kind: AtLeast, Bound: 10e6}}, "short by 1 M /s"},
		{"no target", Row{Value: measure.Sample{1}, Peer: bare}, ""},
	} {
		if text := tc.row.verdict(); text != tc.text {
			t.Errorf("%s: %q, want %q", tc.name, text, tc.text)
		}
	}
}

// A reader is told of a machine that moved by more than a tenth while something was measured.
func TestMoved(t *testing.T) {
	for _, tc := range []struct {
		name   string
		steady []measure.Sample
		moved  string
	}{
		{"nothing to see it by", nil, ""},
		{"steady", []measure.Sample{{10, 10.5, 10.2}, {10.4, 10.1, 10.3}}, ""},
		{"the last costs more than the first", []measure.Sample{{10, 10, 10}, {12, 12, 12}}, "from 10 to 12, 20 % more"},
		{"a round costs more than the others", []measure.Sample{{10, 10, 13}, {10, 10, 13}}, "from 10 to 13, 30 % more"},
		{"noise on one side of a round", []measure.Sample{{10, 9.3, 10}, {10, 10.7, 10}}, ""},
		{"one sample", []measure.Sample{{10, 10.8, 11.5}}, "from 10 to 11.5, 15 % more"},
	} {
		var out strings.Builder
		if err := Print(&out, "bare", []Section{{Title: "Closed", Steady: tc.steady}}); err != nil {
			t.Fatal(err)
		}
		if _, told, _ := strings.Cut(out.String(), "The machine moved"); (told != "") != (tc.moved != "") || !strings.Contains(told, tc.moved) {
			t.Errorf("%s: %q, want %q", tc.name, told, tc.moved)
		}
	}
}
