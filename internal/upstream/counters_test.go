package upstream

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// The trickle of a bucket is counted in windows in which no more than its burst comes in, and of which a whole number are one
// window of the reserve.
func TestTrickleWindow(t *testing.T) {
	for _, s := range []limit.Spec{
		{Count: 60, Period: limit.Second, Burst: 120}, {Count: 60, Period: limit.Second, Burst: 60}, {Count: 100, Period: limit.Second, Burst: 15},
		{Count: 100, Period: limit.Second, Burst: 47}, {Count: 1, Period: limit.Minute, Burst: 10}, {Count: 7, Period: 3 * limit.Second, Burst: 6},
	} {
		w := reserve.WindowOf(s)
		part := trickleWindow(s, w)
		if in := float64(s.Count) * float64(part.Period) / float64(s.Period); in > float64(s.Burst) || part.Period > w.Period || w.Period%part.Period != 0 {
			t.Errorf("%+v: windows of %d ms of %d, in which %v come in", s, part.Period/limit.Millisecond, w.Period/limit.Millisecond, in)
		}
	}
	fixed := limit.Spec{Algorithm: limit.FixedWindow, Count: 7, Period: limit.Second}
	if w := reserve.WindowOf(fixed); trickleWindow(fixed, w) != w {
		t.Error("the windows of a fixed window are divided")
	}
}
