package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
	"pgregory.net/rapid"
)

// A debt that the region cannot take, since it has no such rule, is not repeated for
// ever, nor forgotten before other replicas could have been asked.
func TestDebtOfUnknownRule(t *testing.T) {
	w := newWorld(t, 1, fmtRule("20/24h"))
	for range 5 {
		w.request(0, "/", "ann")
		w.cut(false)
	}
	w.region.use(mustRules(t, `{"rules":[{"name":"other","key":[],"limit":"1/1h"}]}`))
	for ms := 0; ms < 60_000; ms += 100 {
		w.pass(100)
		for len(w.calls) > 0 {
			if w.calls[0].call.Path == uplink.RulesPath {
				w.lose(0, false) // its rules do not arrive
			} else {
				w.answer(0)
			}
		}
		if ms == 15_000 && w.workers[0].Unreported > 0 {
			t.Errorf("forgotten after %d ms", ms)
		}
	}
	if n := w.workers[0].Unreported; n != 5 {
		t.Errorf("%d units were forgotten, want the 5 that were admitted", n)
	}
	w.empty()
}

// Rules that go and come back within some seconds find their counters; what they
// left behind is gone after that, and counted.
func TestRulesThatComeBack(t *testing.T) {
	const pop = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"3/24h","algorithm":"fixed_window","scope":"pop"}]}`
	for away, stays := range map[lease.Millis]bool{8_000: true, 40_000: false} {
		w := newWorld(t, 1, pop)
		for range 4 {
			w.admit(0, "/", "ann")
		}
		for _, rules := range []string{fmtRule("1/1h"), pop} {
			w.region.use(mustRules(t, rules))
			w.workers[0].uplink.FetchRules(w.now)
			w.collect()
			w.settle()
			if rules != pop {
				w.pass(away)
			}
			w.settle()
		}
		if got := w.admit(0, "/", "ann"); got == stays {
			t.Errorf("away for %d ms: admitted %v", away, got)
		}
	}
}

// rests expects that nothing is asked any more but the rules after a minute without traffic, and that the pages are empty.
func (w *world) rests() {
	w.t.Helper()
	w.passes(60_000)
	wants := w.region.wants
	w.passes(60_000)
	if n := w.region.wants - wants; n > 0 {
		w.t.Fatalf("an idle PoP sent %d wants in a minute", n)
	}
	w.empty()
}

// empty expects that the pages hold nothing but what stands for longer than the
// silence: denials of, and units spent on, limits that have not recovered.
func (w *world) empty() {
	w.t.Helper()
	x := w.workers[0]
	for _, t := range []*table.Table{x.accounts.enforced, x.accounts.shadow} {
		for page := range t.Pages() {
			t.Visit(w.now, page, func(e *table.Entry) bool {
				p := x.rules.InForce.ByID[e.Rule]
				switch {
				case p == nil:
					w.t.Fatalf("an entry of no rule in force: %+v", e)
				case p.Local && !p.Limit.Fresh(e.Counter, w.wall()):
				case (e.Rejected || e.Least > 0) && w.now < e.Reset && e.Overdrawn == 0 && e.Leases[0].Units == 0 && e.Leases[1].Units == 0:
				case e.Leases[0].Local && w.now < e.Leases[0].Expiry || e.Leases[1].Local && w.now < e.Leases[1].Expiry:
				default:
					w.t.Fatalf("an entry that states nothing: %+v", e)
				}
				return true
			})
		}
	}
	for k, v := range w.store.Values {
		if len(k) == 3 && k[0] == slotsTable && len(v.Data) > 2 {
			w.t.Fatalf("a page of slots still holds %d bytes", len(v.Data))
		}
	}
}

// Whatever happened, with keys of whatever length, through outages and any sequence
// of rules: a minute later the PoP holds nothing and is silent.
func TestTableComesBackToEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 2, drawRules(t))
		keys := rapid.SliceOfN(rapid.Custom(drawUser), 1, 8).Draw(t, "keys")
		open := map[*Request]int{} // to their worker
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			default:
				worker := rapid.IntRange(0, 1).Draw(t, "worker")
				path := rapid.SampledFrom([]string{"/", "/gold", "/silver"}).Draw(t, "path")
				for range rapid.IntRange(1, 12).Draw(t, "requests") {
					open[w.request(worker, path, rapid.SampledFrom(keys).Draw(t, "key"))] = worker
				}
			case 5, 6:
				w.settle()
			case 7:
				w.cut(false)
			case 8:
				w.pass(lease.Millis(rapid.SampledFrom([]int{1, 50, 300, 3000, 12_000}).Draw(t, "time")))
			case 9:
				w.region.use(mustRules(t, drawRules(t)))
				w.passes(6000)
			}
		}
		for r, worker := range open {
			w.workers[worker].End(w.now, r)
		}
		w.rests()
		for _, x := range w.workers {
			if len(x.slots.holdings)+len(x.asks.pending)+len(x.decider.waiting) > 0 {
				t.Fatalf("%d holdings, %d asks, %d waiting", len(x.slots.holdings), len(x.asks.pending), len(x.decider.waiting))
			}
		}
	})
}

// drawUser draws the value that requests are counted by.
func drawUser(t *rapid.T) string {
	length := rapid.SampledFrom([]int{0, 1, 20, 95, 96, 97, 150, 256, 257, 4096}).Draw(t, "length")
	return strings.Repeat("k", length) + fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "user"))
}

// drawRules draws rules of few names, so that they are renamed, reshaped, removed and
// have overrides that move. All recover within half a minute.
func drawRules(t *rapid.T) string {
	var rules []string
	for _, name := range []string{"a", "b", "c"} {
		if len(rules) > 0 && rapid.Bool().Draw(t, "without") {
			continue
		}
		fields := rapid.SampledFrom([]string{
			`"limit":"20/30s","algorithm":"fixed_window"`, `"limit":"20/20s","algorithm":"fixed_window"`,
			`"limit":"5/20s","algorithm":"sliding_window","consistency":"exact"`, `"limit":"20/20s"`,
			`"limit":"8/20s","consistency":"optimistic","overdraft":3`,
			`"limit":"5/20s","scope":"pop"`, `"limit":"5/10s","scope":"pop","algorithm":"fixed_window"`,
			`"limit":2,"algorithm":"concurrency"`, `"limit":2,"algorithm":"concurrency","scope":"pop"`,
			`"limit":"5/20s","algorithm":"fixed_window","overrides":[{"when":{"path":"/gold"},"limit":"9/20s"}]`,
			`"limit":"5/20s","algorithm":"fixed_window","overrides":[{"when":{"path":"/silver"},"limit":"7/20s"},{"when":{"path":"/gold"},"limit":"9/20s"}]`,
		}).Draw(t, "rule")
		key := rapid.SampledFrom([]string{`[]`, `[{"header":"x-user"}]`, `[{"header":"x-user"},"path"]`}).Draw(t, "parts")
		mode := rapid.SampledFrom([]string{"enforce", "enforce", "shadow", "off"}).Draw(t, "mode")
		failure := rapid.SampledFrom([]string{"allow", "allow", "local", "deny"}).Draw(t, "failure")
		rules = append(rules, fmt.Sprintf(`{"name":%q,"key":%s,"mode":%q,"on_failure":%q,%s}`, name, key, mode, failure, fields))
	}
	return `{"rules":[` + strings.Join(rules, ",") + `]}`
}
