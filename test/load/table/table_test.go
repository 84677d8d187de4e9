package table

import (
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
