package edge

import (
	"testing"

	"github.com/weirlimit/weir/internal/wire"
)

const userRule = `{"rules":[{"name":"user","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],
	"limit":"100/1h","algorithm":"fixed_window"}]}`

// The life of a key: the first request waits, later ones find a lease, and when the
// limit is spent requests are refused without a question.
func TestLifeOfAKey(t *testing.T) {
	w := newWorld(t, 1, userRule)
	r := w.request(0, "/v1/a", "ann")
	if r.Outcome != Wait || len(w.calls) != 1 {
		t.Fatalf("first request: outcome %v, %d calls; want it to wait for one", r.Outcome, len(w.calls))
	}
	w.settle()
	if r.Outcome != Admit || len(w.decided) != 1 {
		t.Fatalf("first request: outcome %v after the answer", r.Outcome)
	}
	admitted := 1
	for range 300 {
		w.now += 10
		if w.admit(0, "/v1/a", "ann") {
			admitted++
		}
	}
	if admitted != 100 {
		t.Errorf("admitted %d of a limit of 100", admitted)
	}
	calls := w.region.calls
	for range 10_000 {
		w.now++
		if w.admit(0, "/v1/a", "ann") {
			t.Fatal("a spent key was admitted")
		}
	}
	if n := w.region.calls - calls; n > 107 {
		t.Errorf("10 s of flood made %d calls, want at most 10/s and log2 of the limit", n)
	}
}

const twoRules = `{"rules":[
	{"name":"a","key":[{"header":"x-user"}],"limit":"10/1h","algorithm":"fixed_window"},
	{"name":"b","key":[],"limit":"3/1h","algorithm":"fixed_window"}]}`

// Misses while calls are in madeCall travel together in the next one.
func TestBatching(t *testing.T) {
	w := newWorld(t, 1, userRule)
	w.workers[0].cfg.CallsInFlight = 1
	var rs []*Request
	for _, user := range []string{"a", "b", "c", "c", "a"} {
		rs = append(rs, w.request(0, "/v1/", user))
	}
	if len(w.calls) != 1 {
		t.Fatalf("%d calls in madeCall, want 1", len(w.calls))
	}
	w.answer(0)
	if len(w.calls) != 1 || rs[0].Outcome != Admit || rs[1].Outcome != Wait {
		t.Fatalf("after the first answer: %d calls, outcomes %v %v", len(w.calls), rs[0].Outcome, rs[1].Outcome)
	}
	var q wire.Request
	if err := q.Decode(w.calls[0].call.Body); err != nil || len(q.Wants) != 3 {
		t.Fatalf("second call: %v, %d wants, want 3 (b, c, a again)", err, len(q.Wants))
	}
	w.settle()
	for i, r := range rs {
		if r.Outcome != Admit {
			t.Errorf("request %d: outcome %v", i, r.Outcome)
		}
	}
}

// A stream that ends while it waits is forgotten; what comes for it is kept for
// others.
func TestClientGone(t *testing.T) {
	w := newWorld(t, 1, userRule)
	r := w.request(0, "/v1/", "ann")
	w.workers[0].End(w.now, r)
	w.settle()
	if len(w.decided) != 0 {
		t.Error("a request that ended was decided")
	}
	if r := w.request(0, "/v1/", "ann"); r.Outcome != Admit {
		t.Errorf("the unit that came for it was lost: outcome %v", r.Outcome)
	}
}

// Exact rules ask for every request and keep nothing but denials.
func TestExact(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"login","key":[{"header":"x-user"}],"limit":"5/1h","algorithm":"sliding_window","consistency":"exact"}]}`)
	for i := range 5 {
		if !w.admit(0, "/login", "ann") {
			t.Fatalf("login %d refused", i)
		}
	}
	if w.region.calls != 5 {
		t.Errorf("%d calls for 5 requests", w.region.calls)
	}
	denied := 0
	for range 1000 {
		w.now++
		if !w.admit(0, "/login", "ann") {
			denied++
		}
	}
	if denied != 1000 || w.region.calls > 5+12 {
		t.Errorf("in one second of flood: %d of 1000 denied, %d calls; want all, at most 12", denied, w.region.calls-5)
	}
}
