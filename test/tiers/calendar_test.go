package tiers

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// A day of the calendar is that of its zone by the clock of Redis, not that of UTC: a denial states its end to the
// second, and a request after it is admitted.
func TestDayOfAZone(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	redis := redistest.StartWith(t, clock.Option())
	r := replicaOf(t, region.Config{Name: "eu", Rules: `
rules:
  - { name: day, key: [ { header: x-key } ], limit: { count: 3, per: day, zone: Asia/Kathmandu }, consistency: exact, timeout: 1s }
`}, []string{redis.Addr})
	r.Start()
	h := r.newHolder()
	ask := func(key string) *quotapb.Grant {
		t.Helper()
		h.seq++
		resp, err := h.client.Acquire(t.Context(), connect.NewRequest(&quotapb.AcquireRequest{
			Protocol: 1, Holder: h.id, Seq: h.seq, Wants: []*quotapb.Want{{Rule: "day", Key: []byte(key), Need: 1, Waiting: 1, Want: 1}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Msg.GetGrants()[0]
	}
	kathmandu, err := time.LoadLocation("Asia/Kathmandu")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(kathmandu)
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, kathmandu)
	tomorrow := today.AddDate(0, 0, 1)
	isOf := func(g *quotapb.Grant, day time.Time) bool { return uint32(g.GetLease()) == uint32(day.UnixMilli()) }
	stated := func(ms uint64, until time.Duration) bool {
		d := time.Duration(ms) * time.Millisecond
		return d <= until && d > until-10*time.Second // the test is slow
	}

	ahead := time.Until(tomorrow) - time.Minute
	clock.Set(ahead)
	for range 3 {
		if g := ask("k"); g.GetGranted() != 1 || !isOf(g, today) || !stated(g.GetResetMs(), time.Minute) {
			t.Fatalf("%v, want a unit of the day that ends in a minute", g)
		}
	}
	if g := ask("k"); g.GetStatus() != quotapb.Status_STATUS_DENIED || !stated(g.GetRetryAfterMs(), time.Minute) {
		t.Fatalf("%v, want a denial until the end of the day", g)
	}
	clock.Set(ahead + time.Minute)
	proc.Eventually(t, 10*time.Second, "the next day's units", func() bool {
		g := ask("k")
		return g.GetGranted() == 1 && isOf(g, tomorrow) && stated(g.GetResetMs(), 24*time.Hour)
	})

	clock.Set(ahead + 5*24*time.Hour)
	if g := ask("other"); g.GetStatus() != quotapb.Status_STATUS_UNAVAILABLE {
		t.Errorf("days away from the clock of Redis: %v", g)
	}
	proc.Eventually(t, 10*time.Second, "the log names the clocks", func() bool {
		return strings.Contains(r.Log(), "apart by more than a window of the calendar")
	})
}
