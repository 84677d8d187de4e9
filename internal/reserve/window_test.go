package reserve

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
)

// A span has the windows that begin after its first time, and at its last. A limit that looks back also counts in the
// window before.
func TestSpanOfWindows(t *testing.T) {
	span := Span{10 * limit.Second, 30 * limit.Second}
	for at, want := range map[limit.Micros]bool{10: false, 11: true, 30: true, 31: false} {
		if span.Has(at*limit.Second) != want {
			t.Errorf("%v has %d s: want %v", span, at, want)
		}
	}
	for _, looks := range []bool{false, true} {
		w := Window{Period: 10 * limit.Second, LooksBack: looks}
		if begin, counts := w.before(20 * limit.Second); begin != 10*limit.Second || counts != looks {
			t.Errorf("before the window at 20 s is one at %v, counts: %v", begin, counts)
		}
		// A window of the span ends at 40 s, and one that looks back counts for 10 s more.
		last := 40*limit.Second + Ahead
		if looks {
			last += w.Period
		}
		if !w.runs(span, last-1) || w.runs(span, last) || w.runs(Span{30 * limit.Second, 30 * limit.Second}, 35*limit.Second) {
			t.Errorf("a span until 30 s does not matter until %v, or an empty one does", last)
		}
	}
}
