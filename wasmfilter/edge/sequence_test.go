package edge

import (
	"math/rand/v2"
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

// Workers number their calls apart: in whatever order those of 64 workers arrive, each
// is new.
func TestWorkersNumberApart(t *testing.T) {
	w := newWorld(t, 64, countRule)
	random := rand.New(rand.NewPCG(3, 4))
	admitted := 0
	for n := range 20_000 {
		r := w.request(random.IntN(64), "/", strconv.Itoa(n%200))
		if len(w.calls) > 250 { // 50 ms of 5,000 per second
			w.answer(random.IntN(len(w.calls)))
		}
		if r.Outcome == Deny {
			t.Fatalf("request %d was denied", n)
		}
	}
	for len(w.calls) > 0 {
		w.answer(random.IntN(len(w.calls)))
	}
	for _, x := range w.workers {
		admitted += int(x.rules.CountsOf("count").Decided[rulebook.Allowed])
	}
	if admitted != 20_000 {
		t.Errorf("admitted %d of 20,000 by the limit", admitted)
	}
	if n := len(w.region.callers); n != 64 {
		t.Errorf("64 workers went by %d names", n)
	}
}
