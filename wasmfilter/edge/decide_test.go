package edge

import (
	"testing"
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
