package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"pgregory.net/rapid"
)

// Whatever several workers do, in whatever order, interleaved between any read and any write, with answers lost on their way: no
// more than the limit is admitted. If no answer is lost, as much is charged above in the end as was admitted, also if one of two
// rules rejects, and if workers take units of a busy account ahead.
func TestNeverOverAdmits(t *testing.T) {
	ahead := false
	for _, c := range []struct {
		rules    string
		limits   map[string]int64
		most     int // requests of a burst, of which there are 40
		lossless bool
	}{
		{`{"name":"r","key":[{"header":"x-user"}],"limit":"20/24h","algorithm":%[1]q}`, map[string]int64{"r": 20}, 0, false},
		{`{"name":"r","key":[{"header":"x-user"}],"limit":"20/24h","algorithm":%[1]q,"consistency":"exact"}`, map[string]int64{"r": 20}, 0, false},
		{`{"name":"r","key":[{"header":"x-user"}],"limit":"12/24h","algorithm":%[1]q},{"name":"s","key":[],"limit":"9/24h","algorithm":%[1]q}`,
			map[string]int64{"r": 12, "s": 9}, 0, true},
		{`{"name":"r","key":[{"header":"x-user"}],"limit":"600/24h","algorithm":%[1]q}`, map[string]int64{"r": 600}, 40, true},
	} {
		rapid.Check(t, func(t *rapid.T) {
			algorithms := []string{"fixed_window", "sliding_window", "token_bucket"}
			if c.lossless { // a bucket refills
				algorithms = algorithms[:2]
			}
			rules := fmt.Sprintf(c.rules, rapid.SampledFrom(algorithms).Draw(t, "algorithm"))
			w := newRapidWorld(t, 3, `{"rules":[`+strings.ReplaceAll(rules, `"limit"`, `"on_failure":"deny","limit"`)+`]}`)
			w.lossless = c.lossless
			w.run(60)
			for range min(c.most, 40) {
				w.now += lease.Millis(rapid.IntRange(0, 40).Draw(t, "time"))
				worker := rapid.IntRange(0, 2).Draw(t, "worker")
				for range rapid.IntRange(0, c.most).Draw(t, "burst") {
					w.ask(worker)
				}
				ahead = ahead || holdsAhead(w.workers[worker])
				w.run(rapid.IntRange(0, 3).Draw(t, "steps"))
			}
			w.drain()
			for rule, limit := range c.limits {
				if n, charged := w.units[rule], w.charged(rule); n > limit || c.lossless && charged != n {
					t.Fatalf("%s: admitted %d of a limit of %d, and %d are charged above", rule, n, limit, charged)
				}
			}
		})
	}
	if !ahead {
		t.Error("no worker ever took units ahead")
	}
}

// rapidWorld is a world that rapid drives.
type rapidWorld struct {
	*world
	rt       *rapid.T
	lossless bool
	units    map[string]int64
	open     map[*Request]int64 // those that are neither counted nor ended
	busy     map[*Worker]bool   // those whose one thread is at work
}

func newRapidWorld(t *rapid.T, workers int, rules string) *rapidWorld {
	w := &rapidWorld{world: newWorld(t, workers, rules), rt: t, units: map[string]int64{}, open: map[*Request]int64{}, busy: map[*Worker]bool{}}
	w.store.Between = func() {
		if rapid.IntRange(0, 3).Draw(t, "interleave") == 0 {
			w.ask(rapid.IntRange(0, len(w.workers)-1).Draw(t, "other"))
		}
	}
	return w
}

// ask sends a request to a worker, unless its thread is at work.
func (w *rapidWorld) ask(worker int) {
	x := w.workers[worker]
	if w.busy[x] {
		return
	}
	w.busy[x] = true
	defer delete(w.busy, x)
	r := &Request{}
	w.open[r] = 1
	w.send(worker, r, "/", "ann")
	w.count(r)
}

// count adds up what was admitted.
func (w *rapidWorld) count(rs ...*Request) {
	for _, r := range rs {
		if r.Outcome == Wait {
			continue
		}
		if r.Outcome == Admit && w.open[r] > 0 {
			r.Quotas(func(report *Quota) { w.units[report.Rule.Name]++ })
		}
		delete(w.open, r)
	}
}

func (w *rapidWorld) run(steps int) {
	for range steps {
		w.step(rapid.IntRange(0, 9).Draw(w.rt, "step"))
		w.count(w.decided...)
		w.decided = nil
	}
}

func (w *rapidWorld) step(kind int) {
	w.now += lease.Millis(rapid.IntRange(0, 30).Draw(w.rt, "time"))
	switch {
	case kind < 5:
		w.ask(rapid.IntRange(0, len(w.workers)-1).Draw(w.rt, "worker"))
	case kind < 8 && len(w.calls) > 0:
		w.exclusively(func(i int) { w.answer(i) })
	case kind == 8 && len(w.calls) > 0 && !w.lossless:
		applied := rapid.Bool().Draw(w.rt, "applied")
		w.exclusively(func(i int) { w.lose(i, applied) })
	case kind == 9:
		w.tick()
	}
}

// exclusively handles a call; its worker is not to be interrupted by itself.
func (w *rapidWorld) exclusively(f func(i int)) {
	i := rapid.IntRange(0, len(w.calls)-1).Draw(w.rt, "call")
	x := w.calls[i].worker
	w.busy[x] = true
	f(i)
	delete(w.busy, x)
}

func (w *rapidWorld) tick() {
	for _, x := range w.workers {
		w.busy[x] = true
		x.Tick(w.now, w.wall())
		delete(w.busy, x)
	}
	w.collect()
}

// drain answers everything, lets all leases lapse, and has them given back.
func (w *rapidWorld) drain() {
	w.store.Between = nil
	for range 60 {
		w.settle()
		w.count(w.decided...)
		w.decided = nil
		w.pass(500)
	}
}

// A shadow rule changes no other decision: the same trace with and without it.
func TestShadowChangesNothing(t *testing.T) {
	const shadow = `,{"name":"s","mode":"shadow","key":[{"header":"x-user"}],"limit":"2/24h","algorithm":"fixed_window"},
		{"name":"c","mode":"shadow","key":[],"limit":1,"algorithm":"concurrency"}`
	const rules = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"12/24h","algorithm":"fixed_window"}%s]}`
	rapid.Check(t, func(t *rapid.T) {
		with, without := newWorld(t, 2, fmt.Sprintf(rules, shadow)), newWorld(t, 2, fmt.Sprintf(rules, ""))
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			worker, user := rapid.IntRange(0, 1).Draw(t, "worker"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "user")
			a, b := with.request(worker, "/", user), without.request(worker, "/", user)
			if rapid.Bool().Draw(t, "fail") {
				with.loseEnforced()
				without.loseEnforced()
			}
			with.settle()
			without.settle()
			if a.Outcome != b.Outcome || a.Degraded != b.Degraded || a.RetryAfter != b.RetryAfter {
				t.Fatalf("with a shadow rule: %v, without: %v", a.Outcome, b.Outcome)
			}
			d := lease.Millis(rapid.IntRange(0, 300).Draw(t, "time"))
			with.now += d
			without.now += d
		}
	})
}

// loseEnforced loses the calls in madeCall that enforced rules made.
func (w *world) loseEnforced() {
	for i := len(w.calls) - 1; i >= 0; i-- {
		var q wire.Request
		if err := q.Decode(w.calls[i].call.Body); err == nil && len(q.Wants) > 0 && q.Wants[0].Rule == "r" {
			w.lose(i, false)
		}
	}
}

// holdsAhead reports whether a worker has units of ann's that it took out of the account ahead.
func holdsAhead(x *Worker) bool { return x.Sublease(annsKey(x)).Units > 0 }

// annsKey is the key of ann under the first rule.
func annsKey(x *Worker) table.Key {
	return x.rules.InForce.ByRule[0][0].Key(x.pop.Seed, []byte("ann"))
}

// A request that is rejected at once is not decided in shadow: a candidate with a larger limit sees none of them.
func TestShadowSeesNoRejections(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"r","key":[],"limit":"2/24h","algorithm":"fixed_window","consistency":"leased"},
		{"name":"s","mode":"shadow","key":[],"limit":"100/24h","algorithm":"fixed_window"}]}`)
	admitted := 0
	for range 10 {
		if r := w.answered(0, "/", "a"); r.Outcome == Admit {
			admitted++
		}
		w.passes(200)
	}
	c := w.workers[0].rules.CountsOf("s")
	if seen := c.Decided[rulebook.ShadowAllowed] + c.Decided[rulebook.ShadowDenied]; admitted != 2 || seen < 2 || seen > 3 {
		t.Errorf("%d admitted, %d decided in shadow; want 2, and 2 or 3", admitted, seen)
	}
}
