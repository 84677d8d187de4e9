package e2e

import (
	"math/bits"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

// floodRules are a leased and an exact limit that a flood can meet.
const floodRules = `
  - { name: flood-window, match: { path: /flood-window }, timeout: 1s, key: [ { header: x-user } ], limit: 500/1m,
      algorithm: fixed_window }
  - { name: flood-exact, match: { path: /flood-exact }, key: [ { header: x-user } ], limit: 10/1m,
      algorithm: fixed_window, consistency: exact, timeout: 1s }
`

// However large a flood on one key, a PoP asks for it at most 10 times a second
// while it is refused. Spending the limit takes some asks more, whatever the rate:
// in each window log2(L) to double its want up to the limit, and then, because H
// holders get a 2H-th of what remains with every ask, 2 ln(L) = 1.4 log2(L) until
// nothing does; and one per worker that has not cached the denial yet. An exact rule
// asks for each request that it admits, and no more.
//
// What the PoP asks for on its own account (rules, reports) is measured first,
// without load, and taken off.
func floodMakesFewCalls(t *testing.T, s *stack.Stack) {
	const workers = 2
	idle, idleFor := callsIn(s, time.Second, func(time.Time) {})
	for _, c := range []struct {
		rule            string
		limit, admitted int64
	}{
		{"flood-window", 500, 0},
		{"flood-exact", 10, 10},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var tally *drive.Result
			calls, took := callsIn(s, 3*time.Second, func(until time.Time) {
				tally = offer(t, drive.Load{
					Addrs:   s.Addrs(),
					Request: drive.Get("/"+c.rule, "x-user", "one"),
					Until:   until,
				})
			})
			windows := int64(2) // the run may meet one flip of a minute
			spending := 12*int64(bits.Len64(uint64(c.limit)))/5 + c.admitted
			most := int64(10*took.Seconds()) + windows*(spending+workers)
			for i, p := range s.PoPs {
				own := int64(float64(idle[i]) * took.Seconds() / idleFor.Seconds())
				t.Logf("%s: %d calls (%d of its own) for %d requests, at most %d", p.Name, calls[i], own, tally.Sent(), most)
				if calls[i]-own > most {
					t.Errorf("%s: %d calls for the flood, at most %d allowed", p.Name, calls[i]-own, most)
				}
			}
			if tally.Status[429] < 500 {
				t.Errorf("only %d requests were refused: that is no flood", tally.Status[429])
			}
		})
	}
}

// callsIn counts the calls that each PoP makes to its region within d, while load
// runs until then. It returns how long it really looked: a busy machine takes longer.
func callsIn(s *stack.Stack, d time.Duration, load func(until time.Time)) (calls []int64, took time.Duration) {
	begin := time.Now()
	until := begin.Add(d)
	calls = make([]int64, len(s.PoPs))
	for i, p := range s.PoPs {
		calls[i] = -p.Calls()
	}
	load(until)
	time.Sleep(time.Until(until))
	for i, p := range s.PoPs {
		calls[i] += p.Calls()
	}
	return calls, time.Since(begin)
}
