package upstream

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// The trickle of a bucket comes in at the share of its rate, to a hundredth where the arithmetic allows it, and never at more.
func TestTrickleBucket(t *testing.T) {
	for _, s := range []limit.Spec{
		{Count: 60, Period: limit.Second, Burst: 120}, {Count: 3, Period: limit.Minute, Burst: 100}, {Count: 7, Period: limit.Day, Burst: 60},
		{Count: 1, Period: limit.MaxPeriod, Burst: 10}, {Count: limit.MaxCount, Period: limit.Second, Burst: limit.MaxCount},
		{Count: 100, Period: limit.Second, Burst: 3},
	} {
		l, err := limit.New(s)
		if err != nil {
			t.Fatalf("%+v: %v", s, err)
		}
		p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
		for _, share := range []reserve.PerMille{0, 1, 166, 333, 1000} {
			got := trickleBucket(p, 5, share).Limit.Spec()
			most := float64(s.Count) / float64(s.Period) * float64(share) / 1000
			if rate := float64(got.Count) / float64(got.Period); rate > most*1.000001 || got.Burst > share.Of(s.Burst) {
				t.Errorf("%+v, %d thousandths: %+v", s, share, got)
			}
			if s.Period == limit.Minute && share == 166 && got.Count < 100 {
				t.Errorf("%+v, %d thousandths: %+v, want a hundred or more in many minutes", s, share, got)
			}
		}
	}
}
