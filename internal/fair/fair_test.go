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

func limited(t *testing.T, spec limit.Spec) (*limit.Limit, lease.Terms) {
	l := fatal.Get(limit.New(spec))(t)
	return l, lease.NewTerms(l, lease.Leased, 0, 0, 0)
}

var (
	bucket = limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second}
	window = limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second}
	first  = limit.Spec{Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second, Align: limit.AlignFirstRequest}
)

// A flood that begins in one region takes nothing from regions that demand less than an equal part, and little where these
// are 300 ms from the aggregator and back. What a region that has gone quiet does not use is for the others, soon. One that
// once reported far more than is possible gets no more for it half a minute later.
func TestFloodElsewhere(t *testing.T) {
	from := func(second lease.Millis, before, after float64) func(lease.Millis) float64 {
		return func(now lease.Millis) float64 {
			if now < (begins+second)*1000 {
				return before
			}
			return after
		}
	}
	flood, calm, ends := from(0, 20, 2000), from(20, 20, 2000), from(10, 800, 0)
	for _, c := range []struct {
		name  string
		spec  limit.Spec
		equal bool
		delay lease.Millis
		other func(lease.Millis) float64 // requests per second of the first region
		rates []float64                  // of the others
		least []int                      // that is admitted a second, of all
	}{
		{"bucket", bucket, true, 50, flood, []float64{100, 60}, []int{297, 98, 58}},
		{"window", window, true, 50, calm, []float64{100, 60}, []int{297, 97, 58}},
		{"window of the first request", first, true, 50, flood, []float64{100, 60}, []int{297, 98, 58}},
		{"far bucket", bucket, true, 150, calm, []float64{100, 60}, []int{297, 98, 58}},
		{"far window", window, true, 150, flood, []float64{100, 60}, []int{297, 85, 51}},
		{"far window of the first request", first, true, 150, calm, []float64{100, 60}, []int{297, 95, 57}},
		{"quiet bucket", bucket, false, 50, ends, []float64{1000}, []int{0, 490}},
		{"quiet bucket in equal parts", bucket, true, 50, ends, []float64{1000}, []int{0, 490}},
		{"quiet window", window, false, 50, ends, []float64{1000}, []int{0, 490}},
		{"quiet window in equal parts", window, true, 50, ends, []float64{1000}, []int{0, 490}},
		{"a lie", bucket, false, 50, nil, []float64{400}, []int{0, 245}},
	} {
		rates := []func(lease.Millis) float64{c.other}
		if c.other == nil {
			rates[0] = steady(400)
		}
		for _, r := range c.rates {
			rates = append(rates, steady(r))
		}
		m := newModel(c.spec, c.equal, c.delay, rates...)
		m.run(5_000)
		if c.other == nil {
			m.decide(m.regions[0], lease.Want{Denied: limit.MaxCount})
		}
		m.run(65_000)
		admitted := m.between(30, 70)
		for i, n := range admitted {
			if n < 40*c.least[i] {
				t.Errorf("%s: region %d had %d in 40 s, want at least %d", c.name, i, n, 40*c.least[i])
			}
		}
	}
}

// A flood that has ended does not keep a window from the regions that ask, whatever it reported.
func TestFloodHasEnded(t *testing.T) {
	hour := limit.Spec{Algorithm: limit.FixedWindow, Count: 36_000, Period: limit.Hour}
	l, terms := limited(t, hour)
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
