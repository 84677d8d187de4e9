package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/quotapb/wire"
)

const failRule = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"10/1h","algorithm":"fixed_window","on_failure":%s}]}`

// cut answers every call with a timeout.
func (w *world) cut() {
	for range 100 {
		if len(w.calls) == 0 {
			return
		}
		w.lose(0, false)
	}
	w.t.Fatal("the calls do not end")
}

// With the region away, new keys go by on_failure.
func TestOnFailure(t *testing.T) {
	cases := []struct {
		action             string
		admitted, decision int
		status             int
	}{
		{`"allow"`, 30, int(FailedOpen), 0},
		{`"deny"`, 0, int(FailedClosed), 503},
		{`{"action":"deny","status":429}`, 0, int(FailedClosed), 429},
		{`{"action":"local","expected_holders":3}`, 4, int(LocalAllowed), 429},
	}
	for _, c := range cases {
		w := newWorld(t, 1, fmt.Sprintf(failRule, c.action))
		admitted := 0
		for range 30 {
			r := w.request(0, "/", "ann")
			w.cut()
			switch {
			case r.Outcome == Admit && r.Degraded:
				admitted++
			case r.Outcome != Deny || r.Status != c.status:
				t.Errorf("%s: outcome %v, status %d, degraded %v", c.action, r.Outcome, r.Status, r.Degraded)
			}
		}
		if admitted != c.admitted {
			t.Errorf("%s: admitted %d of 30, want %d", c.action, admitted, c.admitted)
		}
		if n := w.workers[0].countsOf("r").Decided[c.decision]; c.admitted > 0 && n != uint64(admitted) {
			t.Errorf("%s: counted %d", c.action, n)
		}
	}
}

// What was admitted while the region was away is reported when it is back, once.
func TestOverdrawnIsReported(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"allow"`))
	for range 4 {
		w.request(0, "/", "ann")
		w.cut()
	}
	for range 100 { // heartbeats close the breaker, the scan reports
		w.pass(300)
		w.settle()
	}
	c := w.region.counters["r/0/ann"]
	if c == nil {
		t.Fatal("nothing was reported")
	}
	if d := w.region.set.Limit(0, 0).Peek(c.State, w.wall(), 0); d.Remaining != 6 {
		t.Errorf("the region has %d left of 10, want 6", d.Remaining)
	}
}

// Keys that were denied stay denied while the region is away; others do not.
func TestDeniedStaysDenied(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"allow"`))
	for range 20 {
		w.admit(0, "/", "ann")
		w.now += 50
	}
	for range 50 {
		w.pass(200)
		r := w.request(0, "/", "ann")
		w.cut()
		if r.Outcome != Deny || r.Degraded {
			t.Fatalf("a spent key: outcome %v, degraded %v", r.Outcome, r.Degraded)
		}
	}
	r := w.request(0, "/", "bob")
	w.cut()
	if r.Outcome != Admit {
		t.Errorf("another key: outcome %v", r.Outcome)
	}
}

// One call that nobody answers opens the breaker: nobody waits until a probe is
// answered, and there is one probe in 100 ms.
func TestBreaker(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"allow"`))
	first := w.request(0, "/", "ann")
	second := w.request(0, "/", "bob")
	w.now += 100
	w.lose(0, false)
	if first.Outcome != Admit || !first.Degraded {
		t.Errorf("the request that hung: outcome %v", first.Outcome)
	}
	w.lose(0, false)
	if second.Outcome != Admit {
		t.Errorf("the other one: outcome %v", second.Outcome)
	}
	for i := range 50 {
		if r := w.request(0, "/", fmt.Sprint("user", i)); r.Outcome != Admit || !r.Degraded {
			t.Fatalf("behind an open breaker: outcome %v", r.Outcome)
		}
	}
	if len(w.calls) != 0 {
		t.Fatalf("%d calls behind an open breaker", len(w.calls))
	}
	probes := 0
	for range 10 {
		w.pass(100)
		probes += len(w.calls)
		w.cut()
	}
	if probes < 8 || probes > 10 {
		t.Errorf("%d probes in a second, want one in 100 ms", probes)
	}
	w.pass(200)
	w.settle()
	if r := w.request(0, "/", "cid"); r.Outcome != Wait {
		t.Errorf("after an answered probe: outcome %v, want it to wait for an answer", r.Outcome)
	}
}

// Errors open the breaker after the third.
func TestBreakerErrors(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
	for i := range 3 {
		if r := w.request(0, "/", fmt.Sprint(i)); r.Outcome != Wait {
			t.Fatalf("request %d: outcome %v", i, r.Outcome)
		}
		f := w.take(0)
		f.worker.Failed(w.now, f.call.ID, CallFailed)
		w.collect()
	}
	if r := w.request(0, "/", "another"); r.Outcome != Deny {
		t.Errorf("after three errors: outcome %v", r.Outcome)
	}
}

// No request waits longer than its rule's timeout, answered or not.
func TestDeadline(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
	w.workers[0].cfg.CallsInFlight = 1
	w.request(0, "/", "ann")
	w.now += 60
	late := w.request(0, "/", "bob") // behind the call of ann
	w.now += 10
	w.answer(0)
	if len(w.calls) != 1 || w.calls[0].call.Timeout != 90 {
		t.Fatalf("the call may take %d ms, want 90: what is left to its request", w.calls[0].call.Timeout)
	}
	w.pass(200)
	if late.Outcome != Deny {
		t.Errorf("after its timeout: outcome %v", late.Outcome)
	}
}

// Replies that make no sense count as no reply, and change nothing.
func TestMalformedReplies(t *testing.T) {
	for name, edit := range map[string]func(*wire.Response){
		"no grants":      func(m *wire.Response) { m.Grants = nil },
		"too many":       func(m *wire.Response) { m.Grants = append(m.Grants, m.Grants...) },
		"other version":  func(m *wire.Response) { m.Protocol = 2 },
		"another call's": func(m *wire.Response) { m.Seq += 5 },
		"unknown status": func(m *wire.Response) { m.Grants[0].Status = 99 },
	} {
		w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
		r := w.request(0, "/", "ann")
		f := w.take(0)
		var m wire.Response
		if err := m.Decode(w.region.serve(w.now, f.call)); err != nil {
			t.Fatal(err)
		}
		edit(&m)
		f.worker.Reply(w.now, f.call.ID, m.Append(nil))
		w.collect()
		if r.Outcome != Deny || !r.Degraded {
			t.Errorf("%s: outcome %v, degraded %v; want on_failure", name, r.Outcome, r.Degraded)
		}
	}
}

// Whatever bytes come back: no panic, nobody is left waiting, and no more is
// admitted than was asked for.
func FuzzReply(f *testing.F) {
	m := wire.Response{Protocol: 1, Epoch: 1, Seq: 1, Grants: []wire.Grant{{Status: wire.StatusOK, Granted: 1 << 40, TTLMs: 1 << 60}}}
	f.Add(m.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
		r := w.request(0, "/", "ann")
		c := w.take(0)
		c.worker.Reply(w.now, c.call.ID, body)
		w.collect()
		if r.Outcome == Wait {
			t.Fatal("still waits")
		}
		w.cut()
		for range 5 {
			w.request(0, "/", "ann")
			w.cut()
		}
		w.pass(1000)
	})
}
