package sim

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

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
