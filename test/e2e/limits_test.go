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

// limitRules never admit without a unit: an answer that a busy machine brings too late counts as a rejection. The token
// buckets have 100 per second and room for 300.
func limitRules() (rules string) {
	const all = "timeout: 1s, on_failure: { action: deny, status: 429 }"
	for _, c := range limitCases {
		rules += fmt.Sprintf("  - { name: %[1]s, match: { path: /%[1]s }, key: [], limit: %d/1s, algorithm: fixed_window, "+
			"consistency: %s, cost: %d, %s }\n", c.name(), c.count, c.consistency, c.cost, all)
	}
	for _, consistency := range []string{"exact", "leased"} {
		rules += userRule("bucket-"+consistency, "limit: { count: 100, per: 1s, burst: 300 }, algorithm: token_bucket, "+
			"consistency: "+consistency+", "+all)
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
			thrice(t, func(string) bool { return windowsHold(t, s, c) })
		})
	}
	for _, rule := range []string{"bucket-exact", "bucket-leased"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			thrice(t, func(user string) bool { return bucketHolds(t, s, rule, user) })
		})
	}
}

// windowsHold floods a limit for four windows. A machine that stands still for most of a second wastes units too, so what
// was not used is looked at again, up to twice: waste repeats. What was admitted beyond the limit fails at once.
func windowsHold(t *testing.T, s *stack.Stack, c limitCase) bool {
	t.Helper()
	const windows = 4
	first := proc.AwaitWindow(time.Second, 900*time.Millisecond).Add(-time.Second)
	last := first.Add(windows * time.Second)
	until := last.Add(-200 * time.Millisecond)
	tally := offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/" + c.name()), Until: until})
	most := windows * c.count
	if time.Now().After(last) {
		most += c.count // the last requests may have been charged to one window more
	}
	var exact, admitted int64
	for at := first.Unix(); at < last.Unix(); at++ {
		exact += min(c.count, tally.Seconds[at].Sent*c.cost)
		admitted += tally.Seconds[at].OK * c.cost
	}
	return check(t, tally, admitted, most, exact)
}

// check fails the test if more than most units were admitted, and reports whether enough were: 98 % of what one exact
// limiter would have admitted.
func check(t *testing.T, tally *drive.Result, admitted, most, exact int64) bool {
	t.Helper()
	t.Logf("%d requests, %.0f per second; admitted %d units, at most %d; one exact limiter %d (%.1f %%)",
		tally.Sent(), tally.PerSecond(), admitted, most, exact, 100*float64(admitted)/float64(exact))
	if admitted > most {
		t.Errorf("admitted %d units, %d more than the limit", admitted, admitted-most)
	}
	return 100*admitted >= 98*exact
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
		if check(t, tally, admitted, most, exact) || t.Failed() {
			return true
		}
		until = time.Now().Add(time.Second)
	}
	return false
}
