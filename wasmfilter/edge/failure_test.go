package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

const failRule = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"10/1h","algorithm":"fixed_window","on_failure":%s}]}`

// With the region away, new keys go by on_failure. A share is that of the region if all regions share the rule, once the region
// has told it. A region that lacks the rule is not away: this PoP's share of the rule holds, whatever on_failure is.
func TestOnFailure(t *testing.T) {
	const window, slots = `"limit":"20/1h","algorithm":"fixed_window"`, `"limit":5,"algorithm":"concurrency"`
	for _, c := range []struct {
		fields   string
		fails    lease.Status // what the region answers; 0: it does not
		share    uint32
		admitted int // of 30
		decision rulebook.Decision
		status   int // of those rejected
	}{
		{window + `,"on_failure":"allow"`, 0, 0, 30, rulebook.FailedOpen, 0},
		{window + `,"on_failure":"deny"`, 0, 0, 0, rulebook.FailedClosed, 503},
		{window + `,"hash":true,"on_failure":"allow"`, 0, 0, 30, rulebook.FailedOpen, 0}, // there is no secret
		{window + `,"on_failure":{"action":"deny","status":429}`, 0, 0, 0, rulebook.FailedClosed, 429},
		{window + `,"on_failure":{"action":"local","expected_pops":3}`, 0, 0, 7, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"local"`, 0, 250, 20, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"local","scope":"global"`, 0, 0, 20, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"local","scope":"global"`, 0, 250, 5, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"local","scope":"global"`, 0, 1, 0, rulebook.LocalAllowed, 429},
		{slots + `,"on_failure":"allow"`, 0, 0, 30, rulebook.FailedOpen, 0},
		{slots + `,"on_failure":"deny"`, 0, 0, 0, rulebook.FailedClosed, 503},
		{slots + `,"on_failure":"local"`, 0, 0, 5, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"allow"`, lease.UnknownRule, 0, 20, rulebook.LocalAllowed, 429}, // the next replica may have the rule
		{window + `,"on_failure":"deny"`, lease.UnknownRule, 0, 20, rulebook.LocalAllowed, 429},
		{window + `,"on_failure":"deny"`, lease.Unavailable, 0, 0, rulebook.FailedClosed, 503},
		{slots + `,"on_failure":"allow"`, lease.UnknownRule, 0, 5, rulebook.LocalAllowed, 429},
	} {
		w := newWorld(t, 1, `{"regions":{"eu":1,"us":3},"rules":[{"name":"r","match":{"path":"/r"},"key":[{"header":"x-user"}],`+c.fields+`},
			{"name":"other","match":{"path":"/other"},"key":[],"limit":"20/1h"}]}`)
		if w.region.share = c.share; c.share > 0 {
			w.admit(0, "/other", "ann")
		}
		w.region.fails = c.fails
		admitted := 0
		for range 30 {
			r := w.request(0, "/r", "ann")
			if c.fails == 0 {
				w.cut(false)
			}
			w.settle()
			if r.Outcome == Admit && r.Degraded {
				admitted++
			} else if r.Outcome != Deny || r.Status != c.status {
				t.Errorf("%s: outcome %v, status %d, degraded %v", c.fields, r.Outcome, r.Status, r.Degraded)
			}
		}
		counted := w.workers[0].rules.CountsOf("r").Decided[c.decision]
		if admitted != c.admitted || admitted > 0 && counted != uint64(admitted) {
			t.Errorf("%s, a share of %d: admitted %d of 30, want %d, counted %d", c.fields, c.share, admitted, c.admitted, counted)
		}
	}
}

// No request waits longer than its rule's timeout, answered or not.
func TestDeadline(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
	w.request(0, "/", "zoe")
	w.now += 30 // the region is far: no call is late yet
	w.answer(0)
	for i := range 4 { // as many calls as may be in flight
		w.request(0, "/", fmt.Sprint("u", i))
	}
	w.now += 60
	late := w.request(0, "/", "bob") // behind these
	w.now += 10
	w.answer(0)
	if last := w.calls[len(w.calls)-1].call; len(w.calls) != 4 || last.Timeout != 90 {
		t.Fatalf("the last of %d calls may take %d ms, want 90: what is left to its request", len(w.calls), last.Timeout)
	}
	w.pass(200)
	if late.Outcome != Deny || late.Waited != 110 {
		t.Errorf("after its timeout: outcome %v, waited %d ms", late.Outcome, late.Waited)
	}
	last := w.request(0, "/", "cat")
	if w.workers[0].FallBack(w.now); last.Outcome != Deny || last.Status != 503 {
		t.Errorf("no answer will come: outcome %v, status %d", last.Outcome, last.Status)
	}
}

// A worker that was busy for long sees its tick late: its calls may not have left yet. That tick decides no
// request, so that the answer still can; the next tick decides it, late or not.
func TestLateTick(t *testing.T) {
	for _, c := range []struct {
		late     lease.Millis // of the first tick
		answered bool         // before the second one
		degraded bool
	}{{0, false, true}, {50, false, true}, {51, true, false}, {400, true, false}, {400, false, true}} {
		w := newWorld(t, 1, fmt.Sprintf(failRule, `"allow"`))
		w.passes(100)
		r := w.request(0, "/", "ann")
		w.now += 100 + c.late
		w.workers[0].Tick(w.now, w.wall())
		if waits := r.Outcome == Wait; waits != (c.late > 50) {
			t.Errorf("a tick that is %d ms late: the request still waits %v", c.late, waits)
		}
		if c.answered {
			w.answer(0)
		}
		w.now += 400
		w.workers[0].Tick(w.now, w.wall())
		if r.Outcome != Admit || r.Degraded != c.degraded {
			t.Errorf("%+v: outcome %v, degraded %v after the next tick", c, r.Outcome, r.Degraded)
		}
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
		w.answerAs(0, edit)
		if r.Outcome != Deny || !r.Degraded {
			t.Errorf("%s: outcome %v, degraded %v; want on_failure", name, r.Outcome, r.Degraded)
		}
	}
}

// A worker keeps track of so many keys that it asks for, and no more: others go by on_failure
// at once, and are asked for when there is room again.
func TestKeysAskedForAreBounded(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
	for i := range maxAsks {
		if r := w.request(0, "/", fmt.Sprint("u", i)); r.Outcome != Wait {
			t.Fatalf("request %d: outcome %v", i, r.Outcome)
		}
	}
	if r := w.request(0, "/", "u1"); r.Outcome != Wait {
		t.Errorf("one more for a key that is asked for: outcome %v", r.Outcome)
	}
	if r := w.request(0, "/", "ann"); r.Outcome != Deny || !r.Degraded || len(w.workers[0].asks.pending) != maxAsks {
		t.Errorf("one key more: outcome %v, degraded %v, %d asks; want on_failure", r.Outcome, r.Degraded, len(w.workers[0].asks.pending))
	}
	w.settle()
	if n := len(w.workers[0].asks.pending); n > 0 {
		t.Errorf("%d asks are left after all answers", n)
	}
	if !w.admit(0, "/", "ann") {
		t.Error("rejected when there is room again")
	}
}

// Whatever bytes come back: no panic, nobody is left waiting, and no more is
// admitted than was asked for.
func FuzzReply(f *testing.F) {
	m := wire.Response{Protocol: 1, Seq: 1, Grants: []wire.Grant{{Grant: lease.Grant{Status: lease.OK, Granted: 1 << 40, TTL: 1 << 60}}}}
	f.Add(m.Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
		r := w.request(0, "/", "ann")
		w.reply(w.take(0), append([]byte{}, body...))
		if r.Outcome == Wait {
			t.Fatal("still waits")
		}
		w.cut(false)
		for range 5 {
			w.request(0, "/", "ann")
			w.cut(false)
		}
		w.pass(1000)
	})
}

// When the breaker opens, those who came for the keys of a group that has not left yet
// are decided like all others that wait.
func TestBreakerBehindAGroup(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[
		{"name":"a","match":{"header":{"x-user":"greedy"}},"key":[{"header":"x-user"}],"limit":"1/1h","algorithm":"fixed_window","consistency":"exact"},
		{"name":"b","match":{"path":"/"},"key":[],"limit":"5/1h","algorithm":"fixed_window","consistency":"exact"},
		{"name":"c","match":{"path":"/c"},"key":[{"header":"x-user"}],"limit":"5/1h","algorithm":"fixed_window","consistency":"exact"}]}`)
	if !w.admit(0, "/", "greedy") || w.admit(0, "/", "greedy") {
		t.Fatal("want one request of greedy admitted, and the next one denied")
	}
	w.passes(2000)
	for i := range 4 { // as many calls as may be in flight
		w.request(0, "/c", fmt.Sprint("u", i))
	}
	greedy, honest := w.request(0, "/", "greedy"), w.request(0, "/", "ann")
	if len(w.calls) != 4 || greedy.Outcome != Wait || honest.Outcome != Wait {
		t.Fatalf("%d calls, outcomes %v and %v, want that both wait for one of four calls", len(w.calls), greedy.Outcome, honest.Outcome)
	}
	lane := w.workers[0].uplink.Lane(&w.workers[0].rules.InForce.ByRule[0][0])
	for range 2 { // the next one opens the breaker
		lane.Failed(w.now, 1<<62, 0)
	}
	w.lose(0, false)
	if greedy.Outcome == Wait || honest.Outcome == Wait {
		t.Errorf("behind an open breaker: outcomes %v and %v", greedy.Outcome, honest.Outcome)
	}
}

// A request whose decision panics goes by on_failure of the first of its rules that does not admit it, whether it has begun or not,
// and by before_rules if no rule was matched.
func TestPanicked(t *testing.T) {
	for _, c := range []struct {
		failures [2]string
		deny     bool // before_rules
		status   [2]int
	}{
		{[2]string{`"allow"`, `"allow"`}, false, [2]int{0, 0}}, {[2]string{`"allow"`, `"deny"`}, true, [2]int{503, 503}},
		{[2]string{`{"action":"deny","status":429}`, `"deny"`}, false, [2]int{0, 429}}, {[2]string{`"local"`, `"allow"`}, false, [2]int{0, 503}},
		{[2]string{`"allow"`, `"deny","mode":"shadow"`}, false, [2]int{0, 0}},
	} {
		w := newWorld(t, 0, fmt.Sprintf(`{"rules":[{"name":"a","key":[],"limit":"9/1h","on_failure":%s},
			{"name":"b","key":[],"limit":"9/1h","on_failure":%s}]}`, c.failures[0], c.failures[1]))
		w.config.DenyBeforeRules = c.deny
		x := w.starts(1).workers[0]
		if r := w.request(0, "/", "ann"); x.Panicked(nil) != c.status[0] || x.Panicked(&Request{}) != c.status[1] || x.Panicked(r) != c.status[1] {
			t.Errorf("%+v: %d before a rule, %d before it begins, %d then", c, x.Panicked(nil), x.Panicked(&Request{}), x.Panicked(r))
		}
	}
}

// A panic while an answer is handed out loses that answer, and no more: the requests that waited fall back at their
// timeout, and their keys are asked for again.
func TestPanicInAnAnswer(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(failRule, `"deny"`))
	broken, behind := w.request(0, "/", "ann"), w.request(0, "/", "bob")
	broken.hits = nil
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there is no panic")
			}
		}()
		w.settle()
	}()
	w.workers[0].Abandon(w.now, broken)
	w.pass(2000)
	if behind.Outcome != Deny || behind.Status != 503 {
		t.Errorf("a request behind it: outcome %v, status %d", behind.Outcome, behind.Status)
	}
	w.settle()
	for _, user := range []string{"ann", "bob"} {
		if !w.admit(0, "/", user) {
			t.Errorf("%s is not admitted afterwards", user)
		}
	}
}
