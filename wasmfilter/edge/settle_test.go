package edge

import (
	"testing"

	"pgregory.net/rapid"
)

// The same for two rules of which either may refuse: each stays within its limit,
// and what the other one refused costs nothing once all is settled.
func TestAllOrNothingSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newRapidWorld(t, 2, `{"rules":[
			{"name":"r","key":[{"header":"x-user"}],"limit":"12/24h","algorithm":"fixed_window","on_failure":"deny"},
			{"name":"s","key":[],"limit":"9/24h","algorithm":"fixed_window","on_failure":"deny"}]}`)
		w.lossless = true
		w.run(60)
		w.drain()
		if w.units["r"] > 12 || w.units["s"] > 9 {
			t.Fatalf("admitted %v of limits of 12 and 9", w.units)
		}
		left := map[string]int64{}
		for key, c := range w.region.counters {
			i, _ := w.region.set.Find(key[:1])
			l := w.region.set.Limit(i, 0)
			left[key[:1]] += l.Spec().Count - l.Peek(c.State, w.wall(), 0).Remaining
		}
		if left["r"] != w.units["r"] || left["s"] != w.units["s"] {
			t.Fatalf("charged %v above for %v admitted", left, w.units)
		}
	})
}
