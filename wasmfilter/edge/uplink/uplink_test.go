package uplink

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// way is an uplink of one lane, of 100 ms.
type way struct {
	*Uplink
	t      *testing.T
	policy *rulebook.Policy
	lane   *Lane
	now    lease.Millis
}

func newWay(t *testing.T) *way {
	set := fatal.Get(read.JSON([]byte(`{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"5/1m","timeout":"100ms"}]}`)))(t)
	w := &way{t: t, now: 1000}
	cfg := &rulebook.Config{RulesEvery: 5000, Rules: set}
	p := pop.Join(tabletest.New(), [6]uint64{1, 2, 3, 4, 5, 6})
	rules := rulebook.New(cfg, p, pop.NewLeader(p, 1), func(p *rulebook.Policy) {
		p.Lane = w.LaneFor(p.Terms.Timeout, p.Shadow)
		w.policy = p
	}, func() {})
	w.Uplink = New(cfg, &Port{}, p, rules)
	rules.Start(w.now)
	w.lane = w.Lane(w.policy)
	w.Flush(w.now)
	return w
}

// ask is an ask for a key, of requests that wait until then.
type ask struct {
	key      string
	deadline lease.Millis
}

func (a ask) Length() int            { return len(a.key) }
func (a ask) Deadline() lease.Millis { return a.deadline }
func (a ask) Leave(lease.Millis, *Flight) wire.Want {
	return wire.Want{Rule: "r", Key: []byte(a.key), Want: lease.Want{Want: 1}}
}

// asks gathers asks for which requests wait for so long; lease.Never: none does.
func (w *way) asks(n int, key string, d lease.Millis) {
	for range n {
		if w.lane.Gather(w.now, ask{key, min(lease.Never, w.now+d)}); d < lease.Never {
			w.lane.MarkUrgent()
		}
	}
}

// at flushes at a time, and returns the calls that this makes, as how many wants each has and its timeout.
func (w *way) at(now lease.Millis) string {
	w.now = now
	w.Flush(now)
	return w.made()
}

func (w *way) made() (all string) {
	for _, c := range w.port.Calls {
		var q wire.Request
		fatal.If(w.t, q.Decode(c.Body))
		all += fmt.Sprintf("%d in %d ms ", len(q.Wants), c.Timeout)
	}
	w.port.Calls = nil
	return strings.TrimSpace(all)
}

// expect reports calls that are others than these.
func (w *way) expect(when, calls, want string) {
	w.t.Helper()
	if calls != want {
		w.t.Errorf("%s: calls %q, want %q", when, calls, want)
	}
}

// answer answers the call that has been made after so many others.
func (w *way) answer(call uint64) {
	f := w.flights[call]
	w.End(w.now, call, CallAnswered, (&wire.Response{Protocol: wire.Protocol, Seq: f.seq, Grants: make([]wire.Grant, len(f.Asks)+len(f.Reports))}).Append(nil))
}

// Asks that nobody waits for travel together, 10 ms after the first of them or when there are 64, and at once when the worker was
// quiet for that long. A request that waits takes all that has gathered along at once.
func TestGathers(t *testing.T) {
	w := newWay(t)
	for _, c := range []struct {
		now   lease.Millis
		asks  int
		waits lease.Millis
		calls string
	}{
		{1001, 1, lease.Never, ""}, {1005, 1, lease.Never, ""}, {1010, 0, 0, ""}, {1011, 0, 0, "2 in 100 ms"},
		{1012, 1, lease.Never, ""}, {1013, 1, 100, "2 in 100 ms"}, {1014, 63, lease.Never, ""}, {1015, 1, lease.Never, "64 in 100 ms"},
		{1024, 1, lease.Never, ""}, {1034, 0, 0, "1 in 100 ms"}, {1044, 0, 0, ""},
	} {
		w.now = c.now
		w.asks(c.asks, "k", c.waits)
		w.expect(fmt.Sprint("at ", c.now), w.at(c.now), c.calls)
	}
}

// What has little time left does not travel with what has all of it. That it was not answered in that time is no failure of the
// region; anything else is.
func TestLateAsksTravelApart(t *testing.T) {
	w := newWay(t)
	w.asks(1, "a", 88)
	w.asks(2, "b", 87)
	w.asks(1, "c", 100)
	w.expect("asks with little time left", w.at(1000), "2 in 88 ms 2 in 87 ms")
	for call := uint64(3); call <= 5; call++ {
		w.asks(1, "k", 50)
		w.at(1001)
		w.End(w.now, call, CallTimedOut, nil)
	}
	if w.lane.Open {
		t.Error("late calls that time out open the breaker")
	}
	for call := uint64(6); call <= 8; call++ {
		w.asks(1, "k", 50)
		w.at(1001)
		w.End(w.now, call, CallFailed, nil)
	}
	if !w.lane.Open || w.Degraded(1001) != 1 || w.Degraded(1501) != 500 || w.port.Ended[CallTimedOut] != 3 || w.port.Ended[CallFailed] != 3 {
		t.Errorf("late calls that fail: open %v, degraded %d, ended %v", w.lane.Open, w.Degraded(1501), w.port.Ended)
	}
	if w.asks(1, "k", 50); len(w.lane.Drop()) != 1 || w.at(1002) != "" {
		t.Error("what was dropped travels")
	}
}

// There is a lane for each timeout, for enforced and for shadow rules.
func TestLanes(t *testing.T) {
	w := newWay(t)
	for range 2 {
		for want, c := range []Lane{{timeout: 100}, {timeout: 100, shadow: true}, {timeout: 200}, {timeout: 200, shadow: true}} {
			if got := w.LaneFor(c.timeout, c.shadow); got != want {
				t.Errorf("%d ms, shadow %v: lane %d, want %d", c.timeout, c.shadow, got, want)
			}
		}
	}
}

// Few calls are in flight at once. Those that take longer than ten milliseconds, or four times as long as the last ones, leave room
// for others, within a bound.
func TestRoom(t *testing.T) {
	for took, late := range map[lease.Millis]lease.Millis{0: 10, 5: 20} {
		w := newWay(t)
		if took > 0 {
			w.asks(1, "k", 100)
			w.at(w.now)
			w.now += took
			w.answer(1)
		}
		begin := w.now
		count := func(now lease.Millis) int {
			for range 20 {
				w.asks(1, "k", 100)
				w.at(now)
			}
			return w.lane.flying
		}
		for i, want := range []int{4, 4, 8, 8, 12, 16, 16} {
			now := begin + []lease.Millis{0, late - 1, late, 2*late - 1, 2 * late, 3 * late, 9 * late}[i]
			if n := count(now); n != want {
				t.Errorf("answers took %d ms: %d calls in flight after %d ms, want %d", took, n, now-begin, want)
			}
		}
	}
}

// A call has as many wants as its receiver reads, what comes back first and asks last, and is no longer than that.
func TestCallsAreBounded(t *testing.T) {
	w := newWay(t)
	for range 600 {
		w.GiveBack(w.policy, table.Key{Text: []byte("k")}, holder.Part{Units: 1})
		w.Report(Report{Policy: w.policy, Key: table.Key{Text: []byte("k")}, Account: true})
	}
	w.GiveBack(w.policy, table.Key{}, holder.Part{})
	w.asks(600, "k", lease.Never)
	w.expect("600 asks and 1200 reports", w.at(w.now+10), "1024 in 100 ms 776 in 100 ms")
	f := w.flights[1]
	if len(f.Asks) != 512 || len(f.Reports) != wire.MaxWants-512 || f.Reports[0].Account || !f.Reports[1].Account {
		t.Errorf("%d asks and %d reports in the first call", len(f.Asks), len(f.Reports))
	}
	if f = w.flights[2]; len(f.Asks) != 88 || len(w.lane.gathered)+len(w.lane.reports) > 0 {
		t.Errorf("%d asks in the second call, %d are left", len(f.Asks), len(w.lane.gathered))
	}
	w = newWay(t)
	w.asks(512, strings.Repeat("k", 5000), 100)
	if w.now += 10; w.at(w.now) == "" || len(w.port.Calls) > 0 {
		t.Error("no call")
	}
	for _, f := range w.flights {
		if n := len(f.Asks) * (5000 + numbersSize); n > wire.MaxMessage-envelopeSize {
			t.Errorf("a call with %d asks of 5000 bytes", len(f.Asks))
		}
	}
}

// Units of requests that were rejected go back at the latest when calls in flight are answered, others with the next tick; neither
// while the breaker is open, when one empty call in about 100 ms sees whether the region answers.
func TestGivesBack(t *testing.T) {
	w := newWay(t)
	part := holder.Part{Units: 3}
	w.asks(1, "k", 100)
	w.at(1001)
	w.ReturnSoon(w.policy, table.Key{Text: []byte("k")}, part)
	w.expect("beside a call in flight", w.at(1002), "")
	w.answer(1)
	w.expect("after its answer", w.at(1002), "1 in 100 ms")
	w.answer(2)
	w.GiveBack(w.policy, table.Key{Text: []byte("k")}, part)
	w.expect("what can wait", w.at(1003), "")
	w.Tick(1100)
	w.expect("what can wait, with a tick", w.made(), "1 in 100 ms")
	for call := uint64(3); call <= 5; call++ {
		w.End(1100, call, CallTimedOut, nil)
		w.asks(1, "k", 100)
		w.at(1100)
	}
	w.End(1100, 6, CallTimedOut, nil)
	w.ReturnSoon(w.policy, table.Key{}, part)
	probes := 0
	for now := lease.Millis(1110); now <= 2100; now += 10 {
		if w.Tick(now); w.at(now) != "" || w.lane.flying > 0 {
			probes++
			w.End(now, w.port.lastCall, CallTimedOut, nil)
		}
	}
	if probes < 8 || probes > 12 {
		t.Errorf("%d probes in a second", probes)
	}
}

// What responses leave of a lease is one report. It waits up to a second for a call of others, unless there is much.
func TestWhatResponsesLeave(t *testing.T) {
	w := newWay(t)
	leave := func(now lease.Millis, key uint64, units int64, of uint32) {
		w.GiveBackLater(now, w.policy, table.Key{Hash: key}, holder.Part{Units: units, Lease: of})
	}
	leave(1000, 1, 0, 7)
	w.Settle(w.policy, table.Key{}, holder.Part{})
	if leave(1000, 1, 3, 7); w.lane.later != 2000 {
		t.Errorf("it waits until %d", w.lane.later)
	}
	leave(1500, 1, 4, 7)
	leave(1500, 1, 1, 8)
	leave(1500, 2, 1, 7)
	w.ReportLater(1500, Report{Policy: w.policy, Want: lease.Want{Overdrawn: 5}, Account: true})
	leave(1500, 0, 1, 0) // beside the debt
	if n := len(w.lane.reports); n != 5 || w.lane.reports[0].Want.Unused != 7 {
		t.Errorf("%d reports, the first of %d units", n, w.lane.reports[0].Want.Unused)
	}
	w.Tick(1999)
	w.expect("what can wait", w.made(), "")
	w.Tick(2000)
	w.expect("what has waited for a second", w.made(), "5 in 100 ms")
	w.answer(1)
	leave(2100, 1, 1, 7)
	if w.Settle(w.policy, table.Key{}, holder.Part{Units: 1}); w.lane.later != 0 {
		t.Error("what cannot wait waits")
	}
	w.Tick(2100)
	w.expect("what can wait, beside what cannot", w.made(), "2 in 100 ms")
	w.answer(2)
	for key := range uint64(maxReports + 1) {
		if leave(2200, key, 1, 7); key == maxWants/2-2 {
			w.Tick(2200)
			w.expect(fmt.Sprint(key+1, " reports"), w.made(), "")
		}
	}
	if w.Tick(2200); w.made() != "1024 in 100 ms" || len(w.lane.reports) != maxReports-1024 {
		t.Errorf("%d reports are left", len(w.lane.reports))
	}
}

// A call that arrives thousands of calls late is not taken for a repeated one: the worker goes on under another name. Its numbers
// never run backwards.
func TestLateCallsAreNew(t *testing.T) {
	s := sequence{caller: 5}
	flights := map[uint64]*Flight{1: {caller: 5, seq: s.next(nil)}}
	for n := uint64(2); n <= lease.CallWindow+2; n++ {
		before := s.caller
		if seq := s.next(flights); seq != n || (s.caller != before) != (n == lease.CallWindow+1) {
			t.Fatalf("call %d has the number %d, the worker is %x after %x", n, seq, s.caller, before)
		}
	}
}

// What an answer says beside its grants.
func TestAnswerStates(t *testing.T) {
	w := newWay(t)
	w.asks(1, "k", 100)
	w.at(3000)
	call := w.port.lastCall
	f := w.flights[call]
	body := func(seq uint64) []byte {
		return (&wire.Response{Protocol: wire.Protocol, Seq: seq, Holders: 3, SharePerMille: 250, WatchMs: 700, RulesVersion: "other", Grants: make([]wire.Grant, 1)}).Append(nil)
	}
	if w.End(3040, call+100, CallAnswered, body(f.seq)) != nil || w.port.Ended[CallAnswered] != 0 {
		t.Error("an answer to no call ended one")
	}
	if got := w.End(3040, call, CallAnswered, body(f.seq)); got != f || !f.Answered || len(f.Grants) != 1 || w.port.Ended[CallAnswered] != 1 {
		t.Errorf("flight %+v, ended %v", got, w.port.Ended)
	}
	if w.Holders != 3 || w.Share != 250 || w.Watch.Until != 3740 || w.lane.took != 40 || w.ack != f.seq || w.lane.flying != 0 {
		t.Errorf("%d holders, share %d, watched until %d, took %d, ack %d", w.Holders, w.Share, w.Watch.Until, w.lane.took, w.ack)
	}
	w.port.Calls = nil // that for the rules
	w.asks(1, "k", 100)
	w.at(3040)
	if w.answer(w.port.lastCall); w.lane.took != 35 {
		t.Errorf("after an answer at once calls take %d ms, want an eighth less than 40", w.lane.took)
	}
	if len(w.fetches) != 1 { // for the rules that the answer names
		t.Fatalf("%d fetches", len(w.fetches))
	}
	w.FetchRules(3041)
	if w.End(3050, w.fetches[1], CallTimedOut, nil) != nil || w.port.Ended[CallTimedOut] != 1 || len(w.fetches) != 1 || w.lane.Open {
		t.Errorf("ended %v, fetches %v", w.port.Ended, w.fetches)
	}
	if w.End(3060, w.fetches[0], CallAnswered, []byte{0xff}) != nil || w.port.Ended[CallMalformed] != 1 || len(w.fetches) != 0 {
		t.Errorf("ended %v, fetches %v", w.port.Ended, w.fetches)
	}
}

// A report ends with its answer, which says who watches, and its failure changes nothing.
func TestReportEnds(t *testing.T) {
	w := newWay(t)
	report := func() uint64 {
		w.port.Calls = nil
		if w.SendReport(&wire.ReportRequest{}); !w.Reporting() || len(w.port.Calls) != 1 || w.port.Calls[0].Path != ReportPath {
			t.Fatalf("calls %+v", w.port.Calls)
		}
		return w.port.Calls[0].ID
	}
	answer := func(protocol uint32, watch uint32) []byte {
		raw, err := proto.Marshal(&quotav1.ReportResponse{Protocol: protocol, WatchMs: watch, Tap: &quotav1.Tap{Rule: "r", Key: []byte("k")}})
		fatal.If(t, err)
		return raw
	}
	if w.watched(1000, 1<<32-1); w.Watch.Until != 1000+wire.LongestWatch {
		t.Errorf("for ever is until %d", w.Watch.Until)
	}
	w.Watch.Until = 0
	w.watched(1000, 500)
	if w.watched(1000, 400); w.Watch.Until != 1500 {
		t.Errorf("watched until %d", w.Watch.Until)
	}
	if id := report(); w.End(1100, id, CallTimedOut, nil) != nil || w.Reporting() || w.Watch.Until != 1500 {
		t.Errorf("a failed report: watched until %d", w.Watch.Until)
	}
	if id := report(); w.End(1100, id, CallAnswered, answer(99, 5000)) != nil || w.Reporting() || w.Watch.Until != 1500 {
		t.Errorf("an answer of another protocol: watched until %d", w.Watch.Until)
	}
	raw := answer(wire.Protocol, 300)
	if id := report(); w.End(1100, id, CallAnswered, raw) != nil || w.Reporting() || w.Watch.Until != 1400 || w.Watch.Tap == nil {
		t.Fatalf("watched until %d, tap %v", w.Watch.Until, w.Watch.Tap)
	}
	clear(raw)
	if string(w.Watch.Tap.Key) != "k" {
		t.Errorf("the tap shares the memory of the answer: %q", w.Watch.Tap.Key)
	}
	if id := report(); w.End(1200, id, CallAnswered, answer(wire.Protocol, 0)) != nil || w.Watch.Until != 1200 {
		t.Errorf("nobody watches any more: until %d", w.Watch.Until)
	}
	if w.reported(1300, 0, nil) {
		t.Error("call 0 is a report")
	}
}

// A flight has as many traces as one call may carry, and none twice in a row. Only a sampled one of the right length and of no odd byte travels.
func TestTraces(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for header, travels := range map[string]bool{trace + "1": true, trace + "b": true, trace + "0": false, trace + "a": false, trace: false, trace + "11": false, "": false,
		trace[:9] + "\xff" + trace[10:] + "1": false, trace[:9] + " " + trace[10:] + "1": false} {
		if got := TraceParent(header); (got == header) != travels && header != "" || got != "" && got != header {
			t.Errorf("%q: %q travels", header, got)
		}
	}
	var f Flight
	for _, parent := range []string{"", "a", "a", "b", "a"} {
		f.Trace(parent)
	}
	if got := strings.Join(f.traces, ""); got != "aba" {
		t.Errorf("traces %q", got)
	}
	for i := range 2 * wire.MaxTraceParents {
		f.Trace(fmt.Sprint(i))
	}
	if len(f.traces) != wire.MaxTraceParents || f.NextGroup() != 1 || f.NextGroup() != 2 {
		t.Errorf("%d traces", len(f.traces))
	}
}
