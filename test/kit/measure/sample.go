// Package measure is how a benchmark condenses what it reads: counters of Envoy and of Weir,
// medians.
package measure

import "slices"

// Sample is the same quantity measured in several rounds, in the order of the
// rounds. The zero value has no rounds.
type Sample []float64

// Min is the smallest value: what the code costs when nothing disturbs it. It is
// 0 for an empty sample.
func (s Sample) Min() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Min(s)
}

// Max is the largest value; 0 for an empty sample.
func (s Sample) Max() float64 {
	if len(s) == 0 {
		return 0
	}
	return slices.Max(s)
}

// Median is the middle value, or the mean of the two in the middle; 0 for an
// empty sample.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
