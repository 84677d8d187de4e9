package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"pgregory.net/rapid"
)

// Of the wants of one request, the one that was denied decides: the others are
// answered OK with nothing granted, and must not be taken for the reason.
func TestDeniedMemberDecidesItsGroup(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[
		{"name":"user","key":[{"header":"x-user"}],"limit":"100/1h","algorithm":"fixed_window"},
		{"name":"all","key":[],"limit":"1/1h","algorithm":"fixed_window","consistency":"exact"}]}`)
	if !w.admit(0, "/", "ann") {
		t.Fatal("the first request was refused")
	}
	r := w.request(0, "/", "bob")
	w.settle()
	if r.Outcome != Deny || r.hits[r.denier].policy.Rule.Name != "all" {
		t.Errorf("outcome %v by %s, want it denied by all", r.Outcome, r.hits[r.denier].policy.Rule.Name)
	}
	if n := w.workers[0].rules.CountsOf("user").Decided[rulebook.Denied]; n != 0 {
		t.Errorf("rule user counts %d denials, want none", n)
	}
}

// Retry-After is the wait and up to retry_jitter percent more, never less; where waiting does not help there is none.
// Whatever the wait is, both ends of the range are met.
func TestRetryJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.Int64Range(0, 100).Draw(t, "retry_jitter")
		count, hours := rapid.IntRange(0, 1).Draw(t, "count"), rapid.IntRange(1, 8000).Draw(t, "hours")
		w := newWorld(t, 1, fmt.Sprintf(`{"rules":[{"name":"a","key":[],"limit":"%d/%dh","algorithm":"fixed_window","scope":"pop","retry_jitter":%d}]}`, count, hours, percent))
		w.admit(0, "/", "ann")
		least, most := lease.Millis(1<<62), lease.Millis(0)
		for range 200 {
			r := w.request(0, "/", "ann")
			wait := r.Governing(rule.AnyHeaders).Reset
			if count == 0 {
				if r.RetryAfter != 0 {
					t.Fatalf("a limit of 0: come back after %d ms", r.RetryAfter)
				}
				continue
			}
			over := r.RetryAfter - wait
			if r.Outcome != Deny || wait <= 0 || over < 0 || over > wait*lease.Millis(percent)/100 {
				t.Fatalf("wait %d ms, %d percent: come back after %d ms", wait, percent, r.RetryAfter)
			}
			least, most = min(least, over*100/wait), max(most, over*100/wait)
		}
		if wide := percent > 10 && count > 0 && hours < 600; wide && (least > lease.Millis(percent)/4 || most < lease.Millis(percent)*3/4) {
			t.Errorf("of 0 to %d percent, %d to %d are added", percent, least, most)
		}
	})
}
