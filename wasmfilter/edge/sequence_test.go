package edge

import (
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

const countRule = `{"rules":[{"name":"count","key":[{"header":"x-user"}],"limit":"1000000/1h","algorithm":"fixed_window","consistency":"exact"}]}`

// A call that arrives thousands of calls late is not taken for a repeated one. (The
// region of these tests fails if a call comes twice, by its number.)
func TestLateCallsAreNew(t *testing.T) {
	w := newWorld(t, 1, countRule)
	late := w.request(0, "/", "late")
	for n := range 5 * lease.CallWindow {
		r := w.request(0, "/", strconv.Itoa(n%100))
		w.answer(1)
		if r.Outcome != Admit {
			t.Fatalf("request %d: outcome %v", n, r.Outcome)
		}
	}
	w.answer(0)
	if n := w.workers[0].rules.CountsOf("count").Decided[rulebook.Allowed]; late.Outcome != Admit || n != 5*lease.CallWindow+1 {
		t.Errorf("the late one: outcome %v; %d admitted by the limit", late.Outcome, n)
	}
	if n := len(w.region.callers); n < 2 || n > 6 {
		t.Errorf("the worker went by %d names for %d calls, want about one for each %d", n, 5*lease.CallWindow, lease.CallWindow)
	}
}
