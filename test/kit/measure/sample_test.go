package measure

import "testing"

func TestSample(t *testing.T) {
	for _, tc := range []struct {
		s           Sample
		min, median float64
	}{
		{nil, 0, 0},
		{Sample{3}, 3, 3},
		{Sample{4, 2}, 2, 3},
		{Sample{9, 1, 5}, 1, 5},
		{Sample{9, 1, 5, 6}, 1, 5.5},
	} {
		if got := tc.s.Min(); got != tc.min {
			t.Errorf("%v.Min() = %v, want %v", tc.s, got, tc.min)
		}
		if got := tc.s.Median(); got != tc.median {
			t.Errorf("%v.Median() = %v, want %v", tc.s, got, tc.median)
		}
	}
}

func TestMedianLeavesTheRoundsInOrder(t *testing.T) {
	s := Sample{3, 1, 2}
	s.Median()
	if s[0] != 3 || s[1] != 1 || s[2] != 2 {
		t.Errorf("Median reordered the sample: %v", s)
	}
}
