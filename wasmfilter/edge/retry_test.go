package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// What a rejected client gets is what one exact limiter that saw the same requests
// would state, from the first rejection on: whatever the algorithm, wherever the counter
// is, and however long a denial has been remembered.
func TestRetryAfterIsTheClients(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		for _, where := range []string{`"consistency":"leased"`, `"consistency":"exact"`, `"scope":"pop"`} {
			if algorithm == "sliding_log" && where == `"scope":"pop"` {
				continue // is rejected: the table keeps no logs
			}
			for _, l := range []string{"5/1h", "3/1m", "40/1m"} {
				retryAfter(t, algorithm, where, l, 1)
			}
			if algorithm == "token_bucket" || algorithm == "fixed_window" { // when costly ones fit follows from when cheap ones do
				retryAfter(t, algorithm, where, "5/1h", 3)
			}
		}
	}
}

func retryAfter(t *testing.T, algorithm, where, rate string, cost int64) {
	w := newWorld(t, 2, `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"`+rate+`","algorithm":"`+algorithm+`",`+
		`"cost":{"header":"x-cost","max":3},`+where+`}]}`)
	l := w.workers[0].rules.InForce.ByRule[0][0].Limit
	tolerance := int64(1)
	if s := l.Spec(); algorithm == "sliding_log" && s.Count > 32 { // an entry has the time at which the lease ends
		tolerance += int64(s.Period / 50 / limit.Second)
	}
	var twin limit.State
	rejections := 0
	for i, wait := range burst(l) {
		w.pass(wait)
		w.settle()
		r := w.costly(i%2, cost)
		peek := l.Peek(twin, w.wall(), cost)
		if r.Outcome == Admit {
			twin = l.Charge(twin, w.wall(), cost)
			continue
		}
		if peek.RetryAfter == 0 {
			continue // is about to come back
		}
		rejections++
		stated, want := seconds(r.RetryAfter), seconds(lease.CeilMillis(peek.RetryAfter))
		if g := r.Governing(rule.AnyHeaders); stated < want-1 || stated > want+tolerance || seconds(g.Reset) != stated {
			t.Fatalf("%s %s %s, cost %d: request %d, %d ms after the one before: retry after %d s, headers state %d ms, want %d s",
				algorithm, where, rate, cost, i, wait, stated, g.Reset, want)
		}
	}
	if rejections < 20 {
		t.Errorf("%s %s %s: %d rejections: this tests nothing", algorithm, where, rate, rejections)
	}
}

// Of several rules that a request is over, the one that waits longest states Retry-After, whatever their order.
func TestRetryAfterOfSeveralRules(t *testing.T) {
	for _, how := range []string{`"consistency":"leased"`, `"scope":"pop"`} {
		for _, limits := range [][2]string{{"1/1m", "1/1h"}, {"1/1h", "1/1m"}} {
			w := newWorld(t, 1, fmt.Sprintf(`{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":%q,"algorithm":"token_bucket",%s},`+
				`{"name":"b","key":[],"limit":%q,"algorithm":"token_bucket",%s}]}`, limits[0], how, limits[1], how))
			w.costly(0, 1)
			for range 3 {
				if r := w.costly(0, 1); r.Outcome != Deny || seconds(r.RetryAfter) != 3600 || r.hits[r.denier].quota.Name != "a" {
					t.Errorf("%s %v: retry after %d ms by %s", how, limits, r.RetryAfter, r.hits[r.denier].quota.Name)
				}
			}
		}
	}
}

func seconds(d lease.Millis) int64 { return int64(d+999) / 1000 }

// burst is the pauses of a client that uses up a limit, goes on for a while, and comes
// back at longer and longer intervals.
func burst(l *limit.Limit) (waits []lease.Millis) {
	for range l.Spec().Count + 10 {
		waits = append(waits, 7)
	}
	unit := lease.Millis(l.Spec().Period / limit.Millisecond / limit.Micros(l.Spec().Count))
	for _, d := range []lease.Millis{50, 100, 100, 300, 600, 1100, 1200, 2500, unit / 3, unit / 2, unit, unit / 5, 2 * unit, 10, 10, unit / 7} {
		waits = append(waits, d, 5, 30)
	}
	return waits
}

// costly sends a request that costs so much, and answers the calls that it leads to.
func (w *world) costly(worker int, cost int64) *Request {
	r := w.costing(worker, cost)
	w.settle()
	if r.Outcome == Wait {
		w.t.Fatal("it still waits")
	}
	return r
}

// costing sends a request that costs so much.
func (w *world) costing(worker int, cost int64) *Request {
	r := &Request{Stream: uint32(len(w.decided))}
	w.sends(worker, r, ":path", "/", ":method", "GET", "x-user", "ann", "x-cost", fmt.Sprint(cost))
	return r
}
