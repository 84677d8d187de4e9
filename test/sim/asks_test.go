package sim

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

func newRule(t testing.TB, name string, s limit.Spec, c lease.Consistency) *Rule {
	t.Helper()
	l := fatal.Get(limit.New(s))(t)
	return &Rule{Name: name, Spec: s, Consistency: c, Limit: l}
}

// TestMain collects garbage less often: runs leave much of it, and little that lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// TestAsksAndWaits: while a limit is oversubscribed, PoPs ask rarely, and most requests find a lease. The bounds are those of a
// model of the rules for asks and grants, and a quarter more.
func TestAsksAndWaits(t *testing.T) {
	for _, c := range []struct {
		spec         limit.Spec
		pops         int
		offered      float64 // requests a second
		waited, asks float64 // share of the requests; a second and PoP
	}{
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Second}, 2, 30, 0.36, 11.3},
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 500, Period: limit.Second}, 1, 1500, 0.08, 30},
		{limit.Spec{Algorithm: limit.FixedWindow, Count: 500, Period: limit.Minute}, 2, 25, 0.16, 5.7},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 10, Period: limit.Second}, 2, 30, 0.17, 8.5},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second, Burst: 75}, 1, 1500, 0.05, 13.2},
		{limit.Spec{Algorithm: limit.TokenBucket, Count: 500, Period: limit.Minute}, 2, 25, 0.17, 6.8},
		{limit.Spec{Algorithm: limit.SlidingWindow, Count: 10, Period: limit.Second}, 2, 30, 0.52, 14.7},
		{limit.Spec{Algorithm: limit.SlidingWindow, Count: 500, Period: limit.Minute}, 100, 25, 1, 0.8},
	} {
		d := 30 * limit.Second
		if c.spec.Period == limit.Minute {
			d = 4 * limit.Minute
		}
		r := newRule(t, "r", c.spec, lease.Leased)
		fatal.If(t, Play(Config{Seed: 1, PoPs: c.pops, Net: Net{Delay: 2 * limit.Millisecond}}, func(w *World) error {
			for i := range c.pops {
				w.Offer(i+1, Load{Rate: c.offered / float64(c.pops), Parts: Key(r, "k", 1)}, d)
			}
			err := w.Run(d)
			n := w.Totals(r, "k")
			waited, asks := float64(n.Waited)/float64(n.Requests), float64(n.Asks)/seconds(d)/float64(c.pops)
			if float64(n.Admitted) < 0.86*float64(n.Exact) || waited > c.waited || asks > c.asks {
				t.Errorf("%+v, %d PoPs: %d of %d admitted, %.3f waited, %.1f asks", c.spec, c.pops, n.Admitted, n.Exact, waited, asks)
			}
			return err
		}, r))
	}
}

// TestIdleKey: a key that nobody asks for any more makes no calls, once what was left of its
// leases went back.
func TestIdleKey(t *testing.T) {
	const lasts, after = 5 * limit.Second, 25 * limit.Second
	for name, spec := range map[string]limit.Spec{
		"bucket":      {Algorithm: limit.TokenBucket, Count: 500, Period: limit.Second},
		"window":      {Algorithm: limit.FixedWindow, Count: 5000, Period: 10 * limit.Second},
		"long window": {Algorithm: limit.SlidingWindow, Count: 100_000, Period: limit.Hour},
	} {
		for _, scope := range []rule.Scope{rule.ScopeRegion, rule.ScopeGlobal} {
			t.Run(name+" "+scope.String(), func(t *testing.T) {
				r := newRule(t, "r", spec, lease.Leased)
				c := Config{
					Seed: 1, PoPs: 6, Relays: 6, Workers: 2, Net: Net{Delay: limit.Millisecond, Spread: limit.Millisecond},
				}
				if r.Scope = scope; scope == rule.ScopeGlobal {
					r.OnFailure, r.Timeout = lease.FailureDeny, 1000
					c.Regions, c.AggregatorNet = 3, Net{Delay: 50 * limit.Millisecond}
				}
				fatal.If(t, Play(c, func(w *World) error {
					for n := range w.PoPs {
						w.Offer(n+1, Load{Rate: []float64{300, 75, 25}[n%3], Parts: Key(r, "k", 1)}, lasts)
					}
					if err := w.Run(lasts + after); err != nil {
						return err
					}
					before := w.Calls
					err := w.Run(10 * limit.Second)
					if w.Calls != before {
						t.Errorf("%+v calls, %+v 10 s later", before, w.Calls)
					}
					return err
				}, r))
			})
		}
	}
}

// TestWhatAMinuteAdmits has the figures of docs/rules.md: what 60/1m admits of 20 requests per second that begin 8.5 s into a
// minute of the clock and go on until the fourth ends, at one PoP with leases.
func TestWhatAMinuteAdmits(t *testing.T) {
	const begins, every, lasts = 8500 * limit.Millisecond, limit.Second / 20, 4 * limit.Minute
	for _, c := range []struct {
		algorithm limit.Algorithm
		minutes   string // admitted in each minute of the clock
		trailing  int    // admitted in the 60 s with the most
	}{
		{limit.SlidingWindow, "[60 59 59 59]", 68},
		{limit.FixedWindow, "[60 60 60 60]", 120},
		{limit.TokenBucket, "[111 60 60 60]", 119},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			r := newRule(t, "r", limit.Spec{Algorithm: c.algorithm, Count: 60, Period: limit.Minute}, lease.Leased)
			var sent []*request
			fatal.If(t, Play(Config{Seed: 1, Steady: true, Start: 20_000*limit.Day + begins, Net: Net{Delay: limit.Millisecond}}, func(w *World) error {
				parts := Key(r, "k", 1)()
				for at := limit.Micros(0); at < lasts-begins; at += every {
					q := new(request)
					sent = append(sent, q)
					w.after(at, func() { w.pops[0].take(q, parts) })
				}
				return w.Run(lasts - begins)
			}, r))
			minutes := make([]int, lasts/limit.Minute)
			var admitted []limit.Micros
			for i, q := range sent {
				if at := begins + limit.Micros(i)*every; q.admitted {
					minutes[at/limit.Minute]++
					admitted = append(admitted, at)
				}
			}
			trailing, first := 0, 0
			for i, at := range admitted {
				for admitted[first] <= at-limit.Minute {
					first++
				}
				trailing = max(trailing, i+1-first)
			}
			if got := fmt.Sprint(minutes); got != c.minutes || trailing != c.trailing {
				t.Errorf("%s by minute and %d in 60 s, want %s and %d", got, trailing, c.minutes, c.trailing)
			}
		})
	}
}
