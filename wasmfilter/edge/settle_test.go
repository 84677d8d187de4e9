package edge

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// failuresRule counts failed responses; more is the rest of the rule.
func failuresRule(limit int, more string) string {
	return fmt.Sprintf(`{"rules":[{"name":"failures","key":[{"header":"x-user"}],"limit":"%d/1h","count":{"status":[401,"5xx"]},"on_failure":"deny"%s}]}`, limit, more)
}

// responds ends a request with a response of the upstream.
func (w *world) responds(worker int, r *Request, status int) {
	w.workers[worker].Settle(w.now, r, settle.Response{Upstream: true, Status: status, GRPCStatus: settle.NoGRPCStatus})
	w.ends(worker, r)
}

func (w *world) ends(worker int, r *Request) {
	w.workers[worker].End(w.now, r)
	w.collect()
}

// TestBlocked: five failures block a key, whatever its window does, and each rejection states the rest of the block, also one
// that the PoP remembers.
func TestBlocked(t *testing.T) {
	const block = 3 * 3_600_000 // ms
	for _, where := range []string{`"scope":"pop"`, `"consistency":"exact"`, `"consistency":"exact","algorithm":"token_bucket"`} {
		t.Run(where, func(t *testing.T) {
			w := newWorld(t, 1, failuresRule(5, `,"on_limit":{"block":"3h"},`+where))
			for range 5 {
				w.now += 50
				r := w.answered(0, "/", "ann")
				w.responds(0, r, 401)
			}
			w.now += 1100
			began := w.now
			for _, at := range []lease.Millis{0, 20, 1000, block / 2, block - 1000} {
				w.now = began + at
				if r := w.answered(0, "/", "ann"); r.Outcome != Deny || !r.Blocked || r.RetryAfter < block-at-10 || r.RetryAfter > block-at+10 {
					t.Errorf("after %d ms: outcome %d, blocked %v, retry after %d ms", at, r.Outcome, r.Blocked, r.RetryAfter)
				}
			}
			if n := w.workers[0].rules.CountsOf("failures").Decided[rulebook.Blocked]; n != 5 {
				t.Errorf("%d rejections by a block are counted", n)
			}
			w.now = began + block + 1000
			if r := w.answered(0, "/", "ann"); r.Outcome != Admit {
				t.Errorf("after the block: outcome %d", r.Outcome)
			}
		})
	}
}

// TestBlockAfterAnOutage: what on_failure admits counts when its response does, although the region is back before that. What
// the region has charged besides, and whose answers were lost, blocks nobody.
func TestBlockAfterAnOutage(t *testing.T) {
	for _, by := range []string{"allow", "local", "allow, answers lost"} {
		by, _, charged := strings.Cut(by, ",")
		for status, want := range map[int]Outcome{200: Admit, 401: Deny} {
			rules := failuresRule(5, `,"on_limit":{"block":"3h"},"consistency":"exact"`)
			w := newWorld(t, 1, strings.Replace(rules, "deny", by, 1))
			var streams []*Request
			for range 5 {
				streams = append(streams, w.request(0, "/", "ann"))
				w.cut(charged)
			}
			if n := admittedOf(streams); n != 5 {
				t.Fatalf("%s: %d are admitted, want 5", by, n)
			}
			w.passes(20_000) // the table is looked through in 10 s
			for _, r := range streams {
				w.responds(0, r, status)
			}
			w.passes(20_000)
			if r := w.answered(0, "/", "ann"); !charged && r.Outcome != want || r.Blocked != (want == Deny && !charged) {
				t.Errorf("%s, charged %v, after five responses with %d: outcome %d, blocked %v", by, charged, status, r.Outcome, r.Blocked)
			}
		}
	}
}

// TestReservationsInFlight: requests in flight use the limit until their responses settle them. Then their units are there at
// once for requests of the same worker, and at the next tick for those of other PoPs.
func TestReservationsInFlight(t *testing.T) {
	for _, more := range []string{`,"consistency":"exact"`, `,"consistency":"leased"`, `,"scope":"pop"`} {
		w := newWorld(t, 1, failuresRule(5, more))
		var streams []*Request
		for range 7 {
			streams = append(streams, w.answered(0, "/", "ann"))
		}
		if n := admittedOf(streams); n != 5 {
			t.Fatalf("%s: %d in flight, want 5", more, n)
		}
		w.ends(0, w.request(0, "/", "bob")) // whose key is as long
		for i := range 3 {
			w.responds(0, streams[i], 200)
		}
		var next []*Request
		for range 5 {
			w.now += 5
			next = append(next, w.answered(0, "/", "ann"))
		}
		if n, left := admittedOf(next), next[0].Governing(rule.AnyHeaders).Remaining; n != 3 || left != 2 {
			t.Errorf("%s: %d of three that were given back; the first states %d left", more, n, left)
		}
		if more == `,"scope":"pop"` {
			continue
		}
		for _, r := range append(streams, next...) {
			w.ends(0, r)
		}
		w.passes(12_000) // what idles in leases comes back
		if spent := w.charged("failures"); spent != 0 {
			t.Errorf("%s: %d are charged when all have ended", more, spent)
		}
	}
}

// TestResponsesUnderOtherRules: streams that began under other rules settle by those that they began with. Where the rule still counts
// on the same counter it gets its units back, or is charged what responses have cost, otherwise nobody is.
func TestResponsesUnderOtherRules(t *testing.T) {
	const leased, plain = `,"consistency":"leased"`, `{"rules":[{"name":%q,"key":[{"header":"x-user"}],"limit":"%d/1d","on_failure":"deny"}]}`
	failures, tokens := failuresRule(1000, leased), tokensRule(50_000, leased)
	const cost = 167*20 + 167*140 + 166*60
	for name, c := range map[string]struct {
		before, after string
		least, most   int64 // that are charged; 0: not looked at
	}{
		"failures, kept":        {failures, failuresRule(900, leased), 250, 250},
		"failures, counts more": {failures, strings.Replace(fmt.Sprintf(plain, "failures", 1000), "1d", "1h", 1), 250, 250},
		"tokens, kept":          {tokens, tokensRule(40_000, leased), cost, cost},
		"tokens, other max":     {tokens, strings.ReplaceAll(tokens, `"max":320`, `"max":100`), cost, cost},
		"tokens, known cost":    {tokens, fmt.Sprintf(plain, "tokens", 50_000), cost - 167*80, cost}, // the region takes no debts of responses then
		"failures, gone":        {failures, `{"rules":[]}`, 0, 0},
		"tokens, anew":          {tokens, tokensRule(50_000, `,"algorithm":"fixed_window"`), 0, 0},
		"tokens, at the PoP":    {tokens, tokensRule(50_000, `,"scope":"pop"`), 0, 0},
	} {
		w := newWorld(t, 2, c.before)
		var streams []*Request
		for i := range 500 {
			streams = append(streams, w.costly(i%2, 60))
		}
		if n := admittedOf(streams); n != 500 {
			t.Fatalf("%s: %d streams, want 500", name, n)
		}
		w.change(c.after, 2)
		for i := range 2 {
			w.costs(i, w.request(i, "/", "bob"), "0") // whose key is as long
		}
		rule, _, _ := strings.Cut(name, ",")
		for i, r := range streams {
			if rule == "failures" {
				w.responds(i%2, r, []int{200, 401}[i%4/2])
			} else {
				w.costs(i%2, r, []string{"20", "140", "none"}[i%3])
			}
		}
		w.passes(15_000) // what idles in leases comes back
		if c.most == 0 {
			continue
		}
		if n := w.charged(rule); n < c.least || n > c.most {
			t.Errorf("%s: %d are charged, want %d to %d", name, n, c.least, c.most)
		}
	}
}

// TestBlocksOfAKeyWithLeases: a rule that gets or loses scope: pop drops what entries have from before. There is no room for leases
// beside a lockout.
func TestBlocksOfAKeyWithLeases(t *testing.T) {
	before, after := failuresRule(1000, `,"consistency":"leased"`), failuresRule(5, `,"scope":"pop","on_limit":{"block":"3h"}`)
	w := newWorld(t, 1, before)
	user := strings.Repeat("a", rule.MaxKey)
	for round := range uint64(2) {
		w.admit(0, "/", user)
		p := &w.workers[0].rules.InForce.ByRule[0][0]
		key := p.Key(w.workers[0].pop.Seed, []byte(user))
		lots := [2]holder.Lease{{Units: 5, From: w.now + 50_000, Expiry: w.now + 90_000, Lease: 7}, {Units: 6, Expiry: w.now + 90_000, Lease: 8}}
		w.workers[0].accounts.change(w.now, p, key, func(e *table.Entry) {
			e.Leases = lots
			e.Phase, e.Ends, e.Least, e.Denied, e.Overdrawn = holder.PhaseDenied, w.now+50_000, 900, 3, 4
		})
		if e := w.workers[0].accounts.open(p, key); e.Leases != lots {
			t.Errorf("round %d: the entry has %+v", round, e.Leases)
		}
		w.change(after, 2*round+2)
		for range 5 {
			w.responds(0, w.request(0, "/", user), 401)
		}
		if r := w.request(0, "/", user); r.Outcome != Deny || !r.Blocked {
			t.Errorf("round %d: after five failures: outcome %d, blocked %v", round, r.Outcome, r.Blocked)
		}
		w.change(before, 2*round+3)
	}
}

// TestShadowsSettle: a rule on trial counts what it would count in force, also where the answer of the region comes after the
// response.
func TestShadowsSettle(t *testing.T) {
	for _, more := range []string{`,"scope":"pop"`, `,"consistency":"exact"`, `,"consistency":"leased"`} {
		for _, late := range []bool{false, true} {
			w, would := newWorld(t, 1, failuresRule(5, more+`,"mode":"shadow"`)), 0
			for i := range 40 {
				w.now += 250
				r := w.request(0, "/", "ann")
				if would += len(r.WouldDeny); r.Outcome != Admit || (!r.HasReservations() || !r.Holds()) && i < 20 {
					t.Fatalf("%s, late %v: request %d: outcome %d, reservations %v", more, late, i, r.Outcome, r.HasReservations())
				}
				if !late {
					w.settle()
				}
				status := 200
				if i%4 == 3 { // ten fail
					status = 401
				}
				w.responds(0, r, status)
				w.settle()
			}
			counts := w.workers[0].rules.CountsOf("failures").Decided
			if allowed, denied := counts[rulebook.ShadowAllowed], counts[rulebook.ShadowDenied]; allowed != 20 || denied != 20 || would > 20 || would < 10 {
				t.Errorf("%s, late %v: %d allowed and %d denied, want 20 until five have failed, and 20; %d say so", more, late, allowed, denied, would)
			}
		}
	}
}

// TestNeverMoreThanTheLimitCounts: whatever comes of requests, calls and workers, no more responses count than the limit.
func TestNeverMoreThanTheLimitCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tier := rapid.SampledFrom([]string{
			`"fixed_window","scope":"pop"`, `"fixed_window","consistency":"exact"`, `"sliding_window","consistency":"exact"`,
			`"fixed_window","consistency":"leased"`, `"sliding_window","consistency":"leased"`, `"fixed_window","scope":"global"`,
		}).Draw(t, "tier")
		w := newWorld(t, 2, failuresRule(7, `,"algorithm":`+tier))
		type stream struct {
			*Request
			worker int
		}
		var open []stream
		counted := 0
		for range rapid.IntRange(1, 150).Draw(t, "events") {
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0, 1, 2:
				n := rapid.IntRange(0, 1).Draw(t, "worker")
				open = append(open, stream{w.request(n, "/", "ann"), n})
			case 3, 4:
				if len(open) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "stream")
				s := open[i]
				open = append(open[:i], open[i+1:]...)
				status := rapid.SampledFrom([]int{200, 401, 0}).Draw(t, "status")
				if s.Outcome == Admit && status == 401 {
					counted++
				}
				if s.Outcome == Admit && status > 0 {
					w.responds(s.worker, s.Request, status)
				} else {
					w.ends(s.worker, s.Request)
				}
			case 5:
				if len(w.calls) > 0 {
					w.lose(rapid.IntRange(0, len(w.calls)-1).Draw(t, "call"), rapid.Bool().Draw(t, "applied"))
				}
			case 6:
				w.settle()
			case 7:
				w.pass(lease.Millis(rapid.IntRange(1, 5000).Draw(t, "ms")))
			}
		}
		if counted > 7 {
			t.Fatalf("%s: %d responses counted", tier, counted)
		}
	})
}
