package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// tokensRule reserves what the client declares, and charges what the response states; more is the rest of the rule.
func tokensRule(limit int, more string) string {
	return fmt.Sprintf(`{"rules":[{"name":"tokens","key":[{"header":"x-user"}],"limit":"%d/1d","on_failure":"deny",
		"cost":{"estimate":{"header":"x-cost","default":50,"max":80},"actual":{"header":"x-used"},"max":320}%s}]}`, limit, more)
}

// tiers are the ways in which a rule counts.
var tiers = map[string]string{
	"pop": `,"scope":"pop"`, "exact": `,"consistency":"exact"`, "leased": `,"consistency":"leased"`, "fixed": `,"algorithm":"fixed_window"`,
	"bucket": `,"algorithm":"token_bucket"`, "global": `,"scope":"global"`,
}

// costs ends a request with a response that states a cost.
func (w *world) costs(worker int, r *Request, stated string) {
	w.workers[worker].Settle(w.now, r, settle.Response{
		Upstream: true, Status: 200, GRPCStatus: settle.NoGRPCStatus, Cost: func(*settle.Actual) (string, bool) { return stated, true },
	})
	w.ends(worker, r)
}

// TestActualCost: what a response states is what its request has cost, at most max, and whatever is no whole number leaves the
// estimate, in each tier.
func TestActualCost(t *testing.T) {
	for tier, more := range tiers {
		for stated, used := range map[string]int64{
			"30": 30, "0": 0, "80": 80, "200": 200, "320": 320, "99999999999999999999999": 320, "20,30, 10": 30, " 30 ": 30,
			"": 60, "-1": 60, "12.5": 60, "1e2": 60, "many": 60, "30,x": 60, // as reserved
		} {
			w := newWorld(t, 1, tokensRule(5000, more))
			r := w.costly(0, 60)
			before := r.Governing(rule.AnyHeaders).Remaining
			w.costs(0, r, stated)
			w.costs(0, r, "1") // settled already
			if missing := w.workers[0].rules.CountsOf("tokens").MissingCost; (missing == 1) != (used == 60) {
				t.Errorf("%s, %q: %d costs missing", tier, stated, missing)
			}
			if got := r.Governing(rule.AnyHeaders).Remaining; got != before+60-used {
				t.Errorf("%s, %q: %d remain, and %d before", tier, stated, got, before)
			}
			w.leaves(13_200, 5000-used, tier, stated)
		}
	}
}

// leaves expects that so much of the only rule and key is left a while later, when what idles in leases has come back.
func (w *world) leaves(after lease.Millis, want int64, of ...any) {
	w.t.Helper()
	w.passes(after)
	if got := w.costly(0, 1).Governing(rule.AnyHeaders).Remaining + 1; got != want {
		w.t.Errorf("%v: %d left, want %d", of, got, want)
	}
}

// TestStreamsEndAtOnce: streams that have reserved many times the burst of a bucket end together, and what they give back is
// credible.
func TestStreamsEndAtOnce(t *testing.T) {
	for _, more := range []string{"", `,"on_limit":{"block":"1h"}`} {
		w := newWorld(t, 1, `{"rules":[{"name":"tokens","key":[],"limit":"80/1s","algorithm":"token_bucket","consistency":"exact","on_failure":"deny",
			"cost":{"estimate":{"header":"x-cost","max":80},"actual":{"header":"x-used"},"max":80}`+more+`}]}`)
		var streams []*Request
		for range 10 {
			streams = append(streams, w.costly(0, 80))
			w.passes(1100)
		}
		if n := admittedOf(streams); n != 10 {
			t.Fatalf("%d streams, want 10", n)
		}
		for _, r := range streams {
			w.costs(0, r, "0")
		}
		w.leaves(1200, 80, more)
	}
}

// TestBodyPaths: the body of a response is read for the rules, those on trial too, that settle by it, until they have settled.
func TestBodyPaths(t *testing.T) {
	body := strings.Replace(tokensRule(500, ""), `{"header":"x-used"}`, `{"body":"usage.total"}`, 1)
	trial := strings.Replace(body, `"name"`, `"mode":"shadow","name"`, 1)
	trials := strings.TrimSuffix(trial, "]}") + "," + strings.Replace(strings.TrimPrefix(trial, `{"rules":[`), "tokens", "more", 1)
	for rules, want := range map[string]int{body: 1, trials: 2, tokensRule(500, ""): 0} {
		w := newWorld(t, 1, rules)
		r := w.costly(0, 5)
		if paths := r.BodyPaths(); len(paths) != want || want > 0 && paths[0] != "usage.total" {
			t.Errorf("%s: the body is read for %q", rules, paths)
		}
		if w.costs(0, r, "5"); len(r.BodyPaths()) > 0 {
			t.Errorf("%s: the body is read for %q when all is settled", rules, r.BodyPaths())
		}
	}
}

// TestMaxStream: a stream that lasts longer gets nothing back, and pays what it has cost beyond the estimate.
func TestMaxStream(t *testing.T) {
	for tier, more := range tiers {
		for lasts, cost := range map[lease.Millis][2]int64{600_000: {10, 10}, 600_001: {60, 10}, 700_000: {300, 300}} {
			w := newWorld(t, 1, tokensRule(5000, more))
			if tier == "bucket" {
				continue // it is full again
			}
			r := w.costly(0, 60)
			w.passes(lasts) // the key is not used meanwhile
			w.costs(0, r, fmt.Sprint(cost[1]))
			w.leaves(13_000, 5000-cost[0], tier, lasts)
		}
	}
}

// TestDebtOfResponses: what responses cost beyond their estimates is charged once, by any number of calls that are lost, and at
// most one limit of it.
func TestDebtOfResponses(t *testing.T) {
	for tier, more := range tiers {
		if tier == "pop" || tier == "bucket" {
			continue
		}
		for _, applied := range []bool{false, true} {
			w := newWorld(t, 2, tokensRule(5000, more))
			for i := range 4 {
				r := w.costly(i%2, 1)
				w.costs(i%2, r, "101")
			}
			for range 3 {
				w.pass(1200)
				w.cut(applied)
			}
			w.leaves(25_000, 5000-404, tier, applied)
		}
		w := newWorld(t, 1, tokensRule(320, more))
		var streams []*Request
		for range 20 {
			streams = append(streams, w.costly(0, 1))
		}
		for _, r := range streams {
			w.costs(0, r, "320")
		}
		w.passes(3000)
		if r := w.costly(0, 1); r.Outcome != Deny {
			t.Errorf("%s: admitted over its limit", tier)
		}
	}
}

// TestCountedCost: with count and cost.actual a response that does not count costs nothing, and another one what it states, which
// may be known only when the stream ends.
func TestCountedCost(t *testing.T) {
	for tier, more := range tiers {
		w := newWorld(t, 1, tokensRule(5000, more+`,"count":{"status":["2xx"]}`))
		for i, status := range []int{200, 500, 201, 404} {
			r := w.costly(0, 60)
			w.workers[0].Settle(w.now, r, settle.Response{Upstream: true, Status: status, GRPCStatus: settle.NoGRPCStatus})
			if r.HasReservations() != (i%2 == 0) {
				t.Errorf("%s: status %d leaves a reservation: %v", tier, status, r.HasReservations())
			}
			w.workers[0].Settle(w.now, r, settle.Response{Ends: true, Cost: func(*settle.Actual) (string, bool) { return "20", true }})
			w.ends(0, r)
		}
		w.leaves(13_000, 4960, tier)
	}
}
