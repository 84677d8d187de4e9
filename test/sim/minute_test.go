package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestWhatAMinuteAdmits has the figures of docs/rules.md: what 60/1m admits of 20 requests per second that begin 8.5 s into a
// minute of the clock and go on until the fourth ends, at one PoP with leases.
func TestWhatAMinuteAdmits(t *testing.T) {
	const begins, every, lasts = 8500 * limit.Millisecond, limit.Second / 20, 4 * limit.Minute
	for _, c := range []struct {
		algorithm limit.Algorithm
		minutes   string // admitted in each minute of the clock
		trailing  int64  // admitted in the 60 s with the most
	}{
		{limit.SlidingWindow, "[60 59 59 59]", 68},
		{limit.FixedWindow, "[60 60 60 60]", 120},
		{limit.TokenBucket, "[111 60 60 60]", 119},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			r := newRule(t, "r", limit.Spec{Algorithm: c.algorithm, Count: 60, Period: limit.Minute}, lease.Leased)
			w := New(Config{Seed: 1, Steady: true, Start: 20_000*limit.Day + begins, Net: Net{Delay: limit.Millisecond}}, r)
			defer w.Close()
			parts := Key(r, "k", 1)()
			var sent []*request
			for at := limit.Micros(0); at < lasts-begins; at += every {
				q := new(request)
				sent = append(sent, q)
				w.after(at, func() { w.pops[0].take(q, parts) })
			}
			fatal.If(t, w.Run(lasts-begins))
			minutes := make([]int, lasts/limit.Minute)
			var spent []outlay
			for i, q := range sent {
				if at := begins + limit.Micros(i)*every; q.admitted {
					minutes[at/limit.Minute]++
					spent = append(spent, outlay{at: at, units: 1})
				}
			}
			trailing := worstTrailing(spent, limit.Minute)
			if got := fmt.Sprint(minutes); got != c.minutes || trailing != c.trailing {
				t.Errorf("%s by minute and %d in 60 s, want %s and %d", got, trailing, c.minutes, c.trailing)
			}
		})
	}
}

// TestVariantsApart: half of the keys are limited by a sliding window and half by a fixed one. Each sends 20
// requests per second for four minutes, and begins 5 s after a minute does. What is admitted is
// known apart, exactly.
func TestVariantsApart(t *testing.T) {
	const perMinute, perSecond = 60, 20
	spec := limit.Spec{Algorithm: limit.SlidingWindow, Count: perMinute, Period: limit.Minute}
	a := newRule(t, "api@a", spec, lease.Leased)
	spec.Algorithm = limit.FixedWindow
	b := newRule(t, "api@b", spec, lease.Leased)
	a.Percent, b.Percent = rule.Percent{To: 50}, rule.Percent{From: 50, To: 100}
	w := New(Config{Seed: 1, Alone: true, Steady: true, Start: 20_000*limit.Day + 5*limit.Second}, a, b)
	defer w.Close()
	for user := range 20 {
		key := "user" + itoa(user)
		of := a
		if i, _ := w.rules.set.Find(b.Name); w.rules.set.Counts(i, []byte(key), 0) {
			of = b
		}
		for n := range 240 * perSecond {
			w.after(limit.Micros(n)*limit.Second/perSecond, func() { w.pops[0].take(new(request), []Part{{of, key, 1}}) })
		}
	}
	fatal.If(t, w.Run(5*limit.Minute))
	for r, want := range map[*Rule]struct{ worst, admitted int64 }{a: {64, 242}, b: {120, 300}} {
		keys := 0
		for _, account := range w.ref.list {
			if account.rule != r {
				continue
			}
			keys++
			if worst := worstTrailing(account.alone.spent, limit.Minute); worst != want.worst || account.Admitted != want.admitted {
				t.Errorf("%s: %d of %d admitted, %d in the worst trailing minute; want %d and %d", account.key, account.Admitted, account.Offered, worst, want.admitted, want.worst)
			}
		}
		if keys < 5 {
			t.Errorf("%s has %d of 20 keys, want about half", r.Name, keys)
		}
	}
}

// worstTrailing is the most that was admitted in any time of one period.
func worstTrailing(spent []outlay, period limit.Micros) (worst int64) {
	spent = slices.SortedFunc(slices.Values(spent), func(x, y outlay) int { return int(x.at - y.at) })
	first, sum := 0, int64(0)
	for _, o := range spent {
		for sum += o.units; spent[first].at <= o.at-period; first++ {
			sum -= spent[first].units
		}
		worst = max(worst, sum)
	}
	return worst
}
