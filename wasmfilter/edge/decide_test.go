package edge

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// Who waits for the same answer is served as if each had asked alone: a costly request
// that does not fit rejects no cheap one behind it.
func TestCostlyRequestsRejectNoCheapOnes(t *testing.T) {
	for _, more := range []string{"", `,"consistency":"exact"`} {
		w := newWorld(t, 1, `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"10/1h","algorithm":"fixed_window","cost":{"header":"x-cost","max":10}`+more+`}]}`)
		w.costly(0, 6)
		costs := []int64{1, 2, 4, 1} // the others wait for the answer to the first
		var requests []*Request
		for _, cost := range costs {
			requests = append(requests, w.costing(0, cost))
		}
		w.settle()
		for i, admitted := range []bool{true, true, false, true} {
			if (requests[i].Outcome == Admit) != admitted {
				t.Errorf("%s: with 4 left a request of %d: admitted %v", more, costs[i], !admitted)
			}
		}
	}
}

// A request that one window rejects costs nothing on the others: all of the minute that the
// window of a day left is there when that is raised.
func TestWindowsAreAllOrNone(t *testing.T) {
	for _, consistency := range []string{"leased", "exact"} {
		windows := func(day int) string {
			return fmt.Sprintf(`{"rules":[{"name":"login","key":[{"header":"x-user"}],"limits":["10/1m","%d/1d"],
				"algorithm":"fixed_window","consistency":"%s"}]}`, day, consistency)
		}
		w := newWorld(t, 1, windows(4))
		w.pass(21_000) // a minute begins
		flood := func() (admitted int) {
			for range 50 {
				w.pass(200)
				if w.admit(0, "/login", "ann") {
					admitted++
				}
			}
			return admitted
		}
		if n := flood(); n != 4 {
			t.Errorf("%s: %d admitted, the window of a day has 4", consistency, n)
		}
		w.region.use(mustRules(t, windows(1000)))
		w.now++
		w.admit(0, "/login", "bob") // its reply shows the version
		if n := flood(); n != 6 {
			t.Errorf("%s: %d admitted, the minute has 6 left", consistency, n)
		}
	}
}

// Of a flood beyond a small bucket every worker of a PoP serves its clients: the one that fetches
// what trickles in does not keep it.
func TestWorkersShareWhatTricklesIn(t *testing.T) {
	w := newWorld(t, 4, `{"rules":[{"name":"r","key":[],"limit":{"count":100,"per":"1s","burst":15},"algorithm":"token_bucket"}]}`)
	var asked [4][]*Request
	for at := range 6000 {
		w.millisecond(4)
		asked[at%4] = append(asked[at%4], w.request(at%4, "/", "ann"))
	}
	for i := range asked {
		if admitted := admittedOf(asked[i]); admitted < 50 {
			t.Errorf("worker %d admits %d of some 600", i, admitted)
		}
	}
}

// Of the wants of one request, the one that was denied decides: the others are
// answered OK with nothing granted, and must not be taken for the reason.
func TestDeniedMemberDecidesItsGroup(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[
		{"name":"user","key":[{"header":"x-user"}],"limit":"100/1h","algorithm":"fixed_window"},
		{"name":"all","key":[],"limit":"1/1h","algorithm":"fixed_window","consistency":"exact"}]}`)
	if !w.admit(0, "/", "ann") {
		t.Fatal("the first request was rejected")
	}
	if q := w.region.last.Wants; len(q) != 2 || q[0].Group == 0 || q[0].Group != q[1].Group {
		t.Errorf("the wants of one request are no group: %+v", q)
	}
	r := w.answered(0, "/", "bob")
	if r.Outcome != Deny || r.hits[r.denier].policy.Rule.Name != "all" {
		t.Errorf("outcome %v by %s, want it denied by all", r.Outcome, r.hits[r.denier].policy.Rule.Name)
	}
	r.Quotas(func(q *Quota) {
		if key := string(r.KeyOf(q)); key != map[string]string{"user": "bob"}[q.Name] {
			t.Errorf("%s is asked for %q", q.Name, key)
		}
	})
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
			if r.Outcome != Deny || r.Blocked || wait <= 0 || over < 0 || over > wait*lease.Millis(percent)/100 {
				t.Fatalf("wait %d ms, %d percent: come back after %d ms", wait, percent, r.RetryAfter)
			}
			least, most = min(least, over*100/wait), max(most, over*100/wait)
		}
		if wide := percent > 10 && count > 0 && hours < 600; wide && (least > lease.Millis(percent)/4 || most < lease.Millis(percent)*3/4) {
			t.Errorf("of 0 to %d percent, %d to %d are added", percent, least, most)
		}
	})
}

// A stream that ends while it waits is not decided, and what comes for it is kept for others: a grant is written however often
// other workers are faster.
func TestGrantOutlastsRaces(t *testing.T) {
	w := newWorld(t, 1, fmtRule("100/1h"))
	again := w.request(0, "/", "ann")
	w.workers[0].End(w.now, again)
	w.send(0, again, "/", "bob")
	left := w.race(100)
	if w.answer(0); again.Outcome != Wait {
		t.Errorf("outcome %v by the answer to a request that ended", again.Outcome)
	}
	w.workers[0].End(w.now, again)
	w.settle()
	decided := len(w.decided)
	if r := w.request(0, "/", "ann"); r.Outcome != Admit || *left > 0 || decided > 0 {
		t.Errorf("outcome %v, %d races are left, %d requests that ended were decided", r.Outcome, *left, decided)
	}
}

// race lets another worker be faster so many times.
func (w *world) race(times int) (left *int) {
	w.store.Between = func() {
		for _, v := range w.store.Values {
			if times > 0 {
				w.store.Version++
				v.Version = w.store.Version
			}
		}
		times--
	}
	return &times
}

// A request that an answer does not admit is asked for again if it may fit in what the region or the account has left by then, unless
// its rejection was charged.
func TestAnswerThatIsNotAll(t *testing.T) {
	for _, c := range []struct {
		charged, brought bool // rejections are charged; another worker's grant is in the account
		status           lease.Status
		granted, left    int64
		want             Outcome
	}{
		{false, false, lease.OK, 6, 2, Admit}, {true, false, lease.OK, 6, 2, Admit}, {false, false, lease.OK, 5, 2, Deny},
		{false, true, lease.Denied, 0, 0, Admit}, {true, true, lease.Denied, 0, 0, Deny}, {false, false, lease.Denied, 0, 9, Deny},
	} {
		w := newWorld(t, 2, fmt.Sprintf(`{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"100/1h","algorithm":"fixed_window",
			"consistency":"leased","charge_rejected":%v,"cost":{"header":"x-cost","max":10}}]}`, c.charged))
		w.costing(0, 1)
		w.costing(0, 5)
		next := w.costing(0, 3)
		w.answer(0)
		if c.brought {
			w.workers[1].End(w.now, w.costing(1, 8)) // what comes for it is kept
			w.answer(1)
		}
		w.answerAs(0, func(m *wire.Response) {
			g := &m.Grants[0]
			g.Status, g.Granted, g.Remaining = c.status, c.granted, c.left
		})
		if w.settle(); next.Outcome != c.want {
			t.Errorf("%+v: outcome %d", c, next.Outcome)
		}
	}
}

// Of a busy key next to no request waits, also where a window begins; units that are taken ahead state when the window ends.
func TestBusyKey(t *testing.T) {
	w := newWorld(t, 1, fmtRule("10000/10s"))
	ahead := false
	for range 20_000 {
		r := w.request(0, "/", "ann")
		ahead = ahead || holdsAhead(w.workers[0])
		if reset := r.Governing(rule.AnyHeaders).Reset; reset > 10_000-lease.Millis(w.wall()/limit.Millisecond)%10_000 {
			t.Fatalf("a window of 10 s ends in %d ms", reset)
		}
		for range 10 {
			w.millisecond(1)
		}
	}
	if n := w.workers[0].rules.CountsOf("r").Waited; n > 40 || !ahead {
		t.Errorf("%d of 20,000 requests waited, units are taken ahead %v", n, ahead)
	}
	if fill := w.workers[0].Fill(); fill != (Fill{Keys: 1, Places: 512}) {
		t.Errorf("the table is counted as %+v", fill)
	}
}

// A request whose rules the region decides in calls of their own asks for the one that rejected it lately first. In one call
// they are a group.
func TestSuspectComesFirst(t *testing.T) {
	const shared = `{"name":"b","key":[],"limit":"5/1h","algorithm":"fixed_window","consistency":"exact","timeout":"500ms"}`
	const window, slots = `"limit":"1/1h","algorithm":"fixed_window","consistency":"exact"`, `"limit":0,"algorithm":"concurrency"`
	for _, c := range []struct {
		limit, timeout string // of a, which rejects the user greedy
		order          string
		wants          int
	}{{window, "900ms", "%s,%s", 1}, {window, "900ms", "%[2]s,%[1]s", 1}, {slots, "900ms", "%[2]s,%[1]s", 1}, {window, "500ms", "%s,%s", 2}, {window, "500ms", "%[2]s,%[1]s", 2}} {
		rejects := fmt.Sprintf(`{"name":"a","match":{"header":{"x-user":"greedy"}},"key":[{"header":"x-user"}],%s,"timeout":%q}`, c.limit, c.timeout)
		w := newWorld(t, 1, `{"rules":[`+fmt.Sprintf(c.order, rejects, shared)+`]}`)
		w.admit(0, "/", "greedy")
		w.admit(0, "/", "greedy")
		w.now += 2000
		w.request(0, "/", "greedy")
		w.answer(0)
		if wants := w.region.last.Wants; len(w.calls) > 0 || len(wants) != c.wants || c.wants == 1 && wants[0].Rule != "a" {
			t.Errorf("%+v: it asks for %+v", c, wants)
		}
	}
}

// After the answer for the rule that rejected it lately such a request asks for the others, whatever else that answer has brought.
func TestOthersComeAfterTheSuspect(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"100/1h","timeout":"900ms","cost":{"header":"x-cost","max":10}},
		{"name":"b","match":{"header":{"x-cost":"1"}},"key":[],"limit":"5/1h","consistency":"exact","timeout":"500ms"}]}`)
	w.region.fails = lease.Denied
	w.costly(0, 3)
	w.region.fails = 0
	w.now += 2000
	dear := w.costing(0, 3)
	next := w.costing(0, 1)
	w.workers[0].End(w.now, dear)
	w.settle()
	if n := w.charged("b"); next.Outcome != Admit || n != 1 {
		t.Errorf("outcome %d, %d units of b are charged", next.Outcome, n)
	}
}

// A key without a limit has no quota to state.
func TestUnlimitedKey(t *testing.T) {
	w := newWorld(t, 2, fmtRule("100/1h"))
	for i := range 9 { // the first by the region, the last from a lease or a sublease, by two workers
		r := w.request(i%2, "/", "ann")
		for len(w.calls) > 0 {
			w.answerAs(0, func(m *wire.Response) { m.Grants[0].Limit = lease.Unlimited })
		}
		r.Quotas(func(q *Quota) { t.Errorf("request %d states %+v", i, q) })
		if r.Outcome != Admit || r.Governing(rule.AnyHeaders) != nil {
			t.Errorf("request %d: outcome %d, %+v governs", i, r.Outcome, r.Governing(rule.AnyHeaders))
		}
	}
}

func fmtRule(limit string) string {
	return `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"` + limit + `","algorithm":"fixed_window"}]}`
}

// Before there are rules, before_rules decides; with the region away it goes on so.
func TestBeforeRules(t *testing.T) {
	for _, deny := range []bool{false, true} {
		w := &world{t: t, now: 1000, store: tabletest.New(), region: newRegion(t, mustRules(t, fmtRule("100/1h")))}
		w.config = rulebook.Config{DenyBeforeRules: deny, RegionCluster: "region", PagesLog2: 4, Hash: 1}
		x := w.start()
		w.collect()
		var r Request
		x.Match(&rule.Request{})
		x.Decide(w.now, &r)
		if (r.Outcome == Deny) != deny || deny && r.Status != 503 || x.Exempt() != "" || x.BeforeAny != 1 || r.Governing(rule.AnyHeaders) != nil {
			t.Errorf("deny %v: outcome %v, status %d", deny, r.Outcome, r.Status)
		}
		w.settle()
		if x.rules.Version == "" || x.Exempt() != "" {
			t.Errorf("the rules that are fetched are %q; a request is exempt by %q", x.rules.Version, x.Exempt())
		}
	}
}

// Of several rules the one nearest its limit governs, among those with these headers.
func TestGoverning(t *testing.T) {
	draft, unix := &rule.Rule{Headers: rule.Draft}, &rule.Rule{Headers: rule.XUnix}
	half, tenth := Quota{Rule: draft, Limit: 10, Remaining: 5}, Quota{Rule: draft, Limit: 100, Remaining: 10}
	for i, c := range []struct {
		quotas []Quota
		of     rule.Headers
		want   int // -1: none
	}{
		{[]Quota{half, tenth}, rule.Draft, 1}, {[]Quota{tenth, half}, rule.Draft, 0}, {[]Quota{half, half}, rule.Draft, 0},
		{[]Quota{half, {Rule: unix, Limit: 10, Remaining: 9}}, rule.XRateLimit, 1}, {[]Quota{half}, rule.XRateLimit, -1},
		{[]Quota{half, {Rule: draft, Limit: 10, unlimited: true}}, rule.AnyHeaders, 0},
	} {
		var r Request
		r.SetQuotas(c.quotas, 0)
		if got := r.Governing(c.of); (got == nil) != (c.want < 0) || got != nil && got != &r.hits[c.want].quota || r.Alone() != (len(c.quotas) == 1) {
			t.Errorf("row %d: %+v governs", i, got)
		}
	}
}

// Units that a worker takes ahead stay until the lease interval is over, the lot ends, or it is time to ask for the next window.
func TestSublet(t *testing.T) {
	p := &rulebook.Policy{Terms: lease.Terms{Interval: 100, Lead: 50}}
	for _, c := range []struct {
		units                int64
		expiry, reset, until lease.Millis
	}{{64, 5000, 9000, 1100}, {64, 1070, 9000, 1070}, {64, 5000, 1130, 1080}, {64, 5000, 1050, 1100}, {1, 5000, 9000, 0}} {
		e := &table.Entry{State: holder.State{Reset: c.reset, Leases: [2]holder.Lease{{Units: c.units, Expiry: c.expiry}}}}
		if part, until := (&accounts{}).sublet(1000, p, e); until != c.until || part.Units != c.units/4 {
			t.Errorf("%+v: %+v until %d", c, part, until)
		}
	}
}

// Units that a worker has of a key and that do not suffice for a request go back into the account, which may have enough then.
func TestSubleaseThatDoesNotSuffice(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"100/1h","algorithm":"fixed_window","cost":{"header":"x-cost","max":10}}]}`)
	w.costly(0, 1)
	a, p, key := &w.workers[0].accounts, &w.workers[0].rules.InForce.ByRule[0][0], annsKey(w.workers[0])
	part := holder.Part{Units: 3, Lease: 7, Expiry: w.now + 5000}
	a.change(w.now, p, key, func(e *table.Entry) { e.Leases[0] = holder.Lease{Units: 1, Lease: part.Lease, Expiry: part.Expiry} })
	a.subleases.Begin(a.subleases.At(key), a.open(p, key), part, w.now, w.now+100)
	left := a.open(p, key).Left
	for _, left := range []int64{left + 2, left} {
		if r := w.costing(0, 2); r.Outcome != Admit || r.Governing(rule.AnyHeaders).Remaining != left {
			t.Errorf("outcome %d, want %d left, %+v", r.Outcome, left, r.Governing(rule.AnyHeaders))
		}
	}
}
