package fair_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/fair"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// ask is the ask of a region that has a quarter of the limit, and how much is withheld from it.
func ask(s *fair.Shares, l *limit.Limit, t *lease.Terms, equal bool, now limit.Micros, id uint64, w *lease.Want) int64 {
	s.Ask(l, t, equal, now, id, t.Capacity/4, w)
	return w.Withheld
}

var (
	bucket = limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}
	window = limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	first  = limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second, Align: limit.AlignFirstRequest}
)

// A flood that begins in one region takes nothing from regions that demand less than an equal part. What a region that has gone
// quiet does not use is for the others, soon. One that once reported far more than is possible gets no more for it half a minute
// later. A region asks every 50 ms for all its requests, the one that floods first.
func TestFloodElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		spec   limit.Spec
		equal  bool
		rates  []int64 // requests per second
		before int64   // that of the first region for 10 s
		lie    int64   // units that the first region reports as denied after 5 s
		least  []int64 // that is admitted a second, later
	}{
		"bucket":                      {bucket, true, []int64{2000, 100, 60}, 20, 0, []int64{330, 100, 60}},
		"window":                      {window, true, []int64{2000, 100, 60}, 20, 0, []int64{330, 95, 57}},
		"window of the first request": {first, true, []int64{2000, 100, 60}, 20, 0, []int64{330, 100, 60}},
		"quiet bucket":                {bucket, false, []int64{0, 1000}, 800, 0, []int64{0, 499}},
		"quiet bucket in equal parts": {bucket, true, []int64{0, 1000}, 800, 0, []int64{0, 499}},
		"quiet window":                {window, false, []int64{0, 1000}, 800, 0, []int64{0, 499}},
		"quiet window in equal parts": {window, true, []int64{0, 1000}, 800, 0, []int64{0, 499}},
		"a lie":                       {bucket, false, []int64{400, 400}, 400, limit.MaxCount, []int64{0, 245}},
	} {
		a := newAccounted(t, c.spec, c.equal)
		admitted, denied := make([]int64, len(c.rates)), make([]int64, len(c.rates))
		for step := range int64(70 * 20) {
			for id, rate := range c.rates {
				if id == 0 && step < 10*20 {
					rate = c.before
				}
				if n := rate / 20; n > 0 {
					w := lease.Want{Need: 1, Waiting: n, Want: n, Denied: denied[id]}
					if id == 0 && step == 5*20 {
						w.Denied += c.lie
					}
					g, _ := a.ask(uint64(id), w)
					denied[id] = n - g.Granted
					if step >= 30*20 {
						admitted[id] += g.Granted
					}
				}
			}
			a.now += 50 * limit.Millisecond
		}
		for id, n := range admitted {
			if n < 40*c.least[id] {
				t.Errorf("%s: region %d had %d in 40 s, want at least %d", name, id, n, 40*c.least[id])
			}
		}
	}
}

// A flood that has ended does not keep a window from the regions that ask, whatever it reported.
func TestFloodHasEnded(t *testing.T) {
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 36_000, Period: limit.Hour}
	l := fatal.Get(limit.New(hour))(t)
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	var s fair.Shares
	flip := limit.Micros(1_700_000_000*limit.Second) / limit.Hour * limit.Hour
	ask(&s, l, &terms, true, flip-limit.Second, 0, &lease.Want{Waiting: 1, Want: 1, Denied: limit.MaxCount})
	left := int64(hour.Count)
	for now := flip + limit.Second; left > 400; now += limit.Second { // in the end the last hundredth is divided
		w := lease.Want{Waiting: 20, Want: 20}
		if withheld := ask(&s, l, &terms, true, now, 1, &w); withheld > left-20 {
			if now > flip+limit.Hour*7/10 { // 36,000 of 20 a second last for half an hour
				t.Fatalf("%v minutes after the window began %d units are withheld of %d", (now-flip)/limit.Minute, withheld, left)
			}
			continue
		}
		s.Granted(l, &terms, now, 1, &w, &lease.Grant{Status: lease.OK, Granted: 20, Lease: l.PeriodID(flip)})
		left -= 20
	}
}

// Whatever regions report, with clocks that step and more regions than are distinguished: what
// is withheld is a number from 0 to what the limit holds, a want is lowered to its waiting
// units at most, and memory is bounded.
func TestLies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]limit.Spec{
			bucket, window, first, {Algorithm: limit.TokenBucket, Count: 1, Period: limit.Day}, {Algorithm: limit.TokenBucket, Count: 0, Period: limit.Second, Burst: 5},
			{Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Minute}, {Algorithm: limit.FixedWindow, Count: 0, Period: limit.Minute},
		}).Draw(t, "limit")
		l, err := limit.New(spec)
		if err != nil {
			t.Skip(err)
		}
		terms := lease.NewTerms(l, lease.Consistency(rapid.IntRange(0, 2).Draw(t, "consistency")), 0, 0, 0)
		equal := rapid.Bool().Draw(t, "equal")
		units := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, limit.MaxCount))
		var s fair.Shares
		now := limit.Micros(1_700_000_000 * limit.Second)
		for range rapid.IntRange(1, 200).Draw(t, "asks") {
			now += limit.Micros(rapid.OneOf(rapid.Int64Range(0, int64(limit.Second)), rapid.Int64Range(-int64(limit.Hour), int64(limit.Day))).Draw(t, "after"))
			waiting := units.Draw(t, "waiting")
			w := lease.Want{Waiting: waiting, Want: waiting + units.Draw(t, "ahead"), Unused: units.Draw(t, "unused"), Denied: units.Draw(t, "denied"),
				Overdrawn: units.Draw(t, "overdrawn"), Lease: l.PeriodID(now), Next: rapid.Bool().Draw(t, "next")}
			w.Soon = rapid.Int64Range(0, w.Want-waiting).Draw(t, "soon")
			id, wanted := uint64(rapid.IntRange(0, 80).Draw(t, "region")), w.Want
			if n := ask(&s, l, &terms, equal, now, id, &w); n < 0 || n > terms.Capacity {
				t.Fatalf("withheld %d of %d", n, terms.Capacity)
			}
			if w.Want < w.Waiting+w.Soon || w.Want > wanted {
				t.Fatalf("want %d became %d, %d wait and %d more will soon", wanted, w.Want, w.Waiting, w.Soon)
			}
			g := lease.Grant{Status: lease.Status(rapid.IntRange(1, 4).Draw(t, "status")), Granted: units.Draw(t, "granted"), Lease: l.PeriodID(now), Reset: 1000, StartsIn: lease.Millis(rapid.IntRange(0, 1).Draw(t, "ahead"))}
			s.Granted(l, &terms, now, id, &w, &g)
		}
		if s.Bytes() > 128*64 {
			t.Fatalf("%d bytes", s.Bytes())
		}
		if !s.Idle(l, &terms, now+10*limit.Day) {
			t.Fatal("is not idle ten days later")
		}
	})
}
