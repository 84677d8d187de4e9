package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// limitCase is a limit per second that two PoPs share.
type limitCase struct {
	consistency string
	count       int64
	cost        int64 // of each request; makes large limits reachable on small machines
}

var limitCases = []limitCase{
	{"exact", 500, 1},
	{"leased", 500, 1},
	{"leased", 100_000, 100},
}

func (c limitCase) name() string { return fmt.Sprintf("%s-%d", c.consistency, c.count) }

// rule never admits without a unit: an answer that a busy machine brings too late counts as a rejection.
func (c limitCase) rule() string {
	return fmt.Sprintf(`
  - { name: %[1]s, match: { path: /%[1]s }, key: [], limit: %[2]d/1s, algorithm: fixed_window,
      consistency: %[3]s, cost: %[4]d, timeout: 1s, on_failure: { action: deny, status: 429 } }
`, c.name(), c.count, c.consistency, c.cost)
}

// bucketRules are two token buckets of 100 per second with room for 300.
const bucketRules = `
  - { name: bucket-exact, match: { path: /bucket-exact }, timeout: 1s, key: [ { header: x-user } ],
      limit: { count: 100, per: 1s, burst: 300 }, algorithm: token_bucket, consistency: exact, on_failure: { action: deny, status: 429 } }
  - { name: bucket-leased, match: { path: /bucket-leased }, timeout: 1s, key: [ { header: x-user } ],
      limit: { count: 100, per: 1s, burst: 300 }, algorithm: token_bucket, on_failure: { action: deny, status: 429 } }
`

func limitRules() string {
	rules := bucketRules
	for _, c := range limitCases {
		rules += c.rule()
	}
	return rules
}

// Two PoPs of two workers each share each limit through one region, and both are flooded. Over both, a window admits no unit more than
// the limit, and at least 98 % of what one exact limiter would have admitted.
//
// Units count in the window that they were charged to: that in which the request was sent or, if it waited across a flip, the next one.
// So as long as the last answer comes before the last window ends, all that was sent in K windows was charged to these K windows, and
// may be K limits, to the unit.
//
// All limits are flooded at once: no request counts for two of them.
func limitsHoldExactly(t *testing.T, s *stack.Stack) {
	for _, c := range limitCases {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			holds(t, s, c)
		})
	}
	for _, rule := range []string{"bucket-exact", "bucket-leased"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			thrice(t, func(user string) bool { return bucketHolds(t, s, rule, user) })
		})
	}
}

// holds looks at four windows. A machine that stands still for most of a second wastes units too, so what was not used is looked at
// again, up to twice: waste repeats. What was admitted beyond the limit fails at once.
func holds(t *testing.T, s *stack.Stack, c limitCase) {
	thrice(t, func(string) bool { return check(t, fourWindows(t, s, c)) })
}

func fourWindows(t *testing.T, s *stack.Stack, c limitCase) result {
	t.Helper()
	const windows = 4
	first := proc.AwaitWindow(time.Second, 900*time.Millisecond).Add(-time.Second)
	last := first.Add(windows * time.Second)
	load := drive.Load{Addrs: s.Addrs(), Request: drive.Get("/" + c.name()), Until: last.Add(-200 * time.Millisecond)}
	r := result{Result: offer(t, load), most: windows * c.count}
	if time.Now().After(last) {
		r.most += c.count // the last requests may have been charged to one window more
	}
	for at := first.Unix(); at < last.Unix(); at++ {
		r.exact += min(c.count, r.Seconds[at].Sent*c.cost)
		r.admitted += r.Seconds[at].OK * c.cost
	}
	return r
}

// result is what a load on a limit came to, in units.
type result struct {
	*drive.Result
	admitted int64
	most     int64 // what may be admitted
	exact    int64 // what one exact limiter would have admitted
}

// check fails the test if too much was admitted, and reports whether enough was: 98 % of what one exact limiter would have admitted.
func check(t *testing.T, r result) bool {
	t.Helper()
	t.Logf("%d requests, %.0f per second; admitted %d units, at most %d; one exact limiter %d (%.1f %%)",
		r.Sent(), r.PerSecond(), r.admitted, r.most, r.exact, 100*float64(r.admitted)/float64(r.exact))
	if r.admitted > r.most {
		t.Errorf("admitted %d units, %d more than the limit", r.admitted, r.admitted-r.most)
	}
	return 100*r.admitted >= 98*r.exact
}

// A token bucket admits in any interval at most its burst and what refills in it, plus what was out on lease when the interval began:
// nothing, for a new key. What refilled in the last half second may be on its way to the PoPs, who ask every 100 ms on a machine that
// keeps up; nothing else is missing. Where the machine stood still at the end of the interval, more is on its way: what was only late
// comes in the next second, what was wasted does not come at all. Then bucketHolds is false.
func bucketHolds(t *testing.T, s *stack.Stack, rule, user string) bool {
	const rate, burst = 100, 300
	begin := time.Now()
	until := begin.Add(4 * time.Second)
	var admitted, sent int64
	for range 7 {
		tally := offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/"+rule, "x-user", user), Until: until})
		admitted, sent = admitted+tally.OK(), sent+tally.Sent()
		most := burst + int64(rate*time.Since(begin).Seconds()) + 1
		exact := min(sent, burst+int64(rate*until.Sub(begin).Seconds())-rate/2)
		if check(t, result{tally, admitted, most, exact}) || t.Failed() {
			return true
		}
		until = time.Now().Add(time.Second)
	}
	return false
}
