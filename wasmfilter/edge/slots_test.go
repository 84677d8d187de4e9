package edge

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
)

const fewSlots = `{"rules":[{"name":"streams","key":[{"header":"x-user"}],"limit":%d,"algorithm":"concurrency","scope":%q%s}]}`

// fewSlotsRules limits streams to so many; scope: region denies where the region
// does not answer.
func fewSlotsRules(limit int, scope string) string {
	more := ""
	if scope == "region" {
		more = `,"on_failure":"deny","timeout":"1s","lease":{"ttl":"10s"}`
	}
	return fmt.Sprintf(fewSlots, limit, scope, more)
}

// Of two streams at a time under a limit of 1, one is admitted and one is refused,
// whichever workers they come to, whatever the region receives late, and whether units
// are asked for with the slot.
func TestSlotsAreFreeEverywhere(t *testing.T) {
	for _, scope := range []string{"region", "pop"} {
		for _, workers := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprint(scope, " ", workers), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					rules := fewSlotsRules(1, scope)
					if rapid.Bool().Draw(t, "units") {
						rules = strings.TrimSuffix(rules, "]}") + `,{"name":"calls","key":[],"limit":"100000/1m","timeout":"1s"}]}`
					}
					w := newWorld(t, workers, rules)
					for range rapid.IntRange(1, 40).Draw(t, "pairs") {
						w.oneOfTwo(t)
						w.stay(t)
					}
				})
			})
		}
	}
}

// oneOfTwo begins two streams, and ends the one that is admitted.
func (w *world) oneOfTwo(t *rapid.T) {
	workers := rapid.SliceOfN(rapid.IntRange(0, len(w.workers)-1), 2, 2).Draw(t, "workers")
	pair := [2]*Request{w.request(workers[0], "/", "ann"), w.request(workers[1], "/", "ann")}
	for pair[0].Outcome == Wait || pair[1].Outcome == Wait {
		w.passLate(t)
	}
	if pair[0].Outcome == pair[1].Outcome || pair[0].Degraded || pair[1].Degraded {
		t.Fatalf("%d and %d, degraded: %v and %v, want one admitted and one refused", pair[0].Outcome, pair[1].Outcome, pair[0].Degraded, pair[1].Degraded)
	}
	w.stay(t)
	for i, r := range pair {
		w.workers[workers[i]].End(w.now, r)
	}
}

// A request waits for a slot that another worker gives back, for as long as the region may
// not have heard of that, and asks again no more than a few times in each tick. Where the
// slot does not come back in time and the region answers no more, what it said last holds.
func TestSlotOnItsWayBack(t *testing.T) {
	for lost, want := range map[bool]Outcome{false: Admit, true: Deny} {
		w := newWorld(t, 2, fmt.Sprintf(fewSlots, 1, "region", `,"timeout":"1s"`))
		first := w.request(0, "/", "ann")
		w.settle()
		w.workers[0].End(w.now, first)
		w.pass(100)
		returns := w.take(0)
		next, before := w.request(1, "/", "ann"), w.region.calls
		for range 8 {
			w.settle()
			if next.Outcome != Wait {
				t.Fatalf("outcome %d while the slot is on its way back", next.Outcome)
			}
			w.pass(100)
		}
		w.settle()
		if asked := w.region.calls - before; asked < 9 || asked > 9*(1+maxRepeats) {
			t.Errorf("asked %d times in 9 ticks", asked)
		}
		if !lost {
			returns.worker.Reply(w.now, returns.call.ID, w.region.serve(w.now, returns.call))
			w.collect()
		}
		for range 2 {
			w.pass(100)
			if !lost {
				w.settle()
			}
		}
		if next.Outcome != want || next.Degraded {
			t.Errorf("the slot is lost: %v, outcome %d, degraded: %v, want %d", lost, next.Outcome, next.Degraded, want)
		}
	}
}

// stay lets up to a second pass.
func (w *world) stay(t *rapid.T) {
	for range rapid.SampledFrom([]int{0, 0, 1, 2, 10}).Draw(t, "ticks") {
		w.passLate(t)
	}
}

// passLate lets up to a tick pass, after which calls are answered in any order, each within
// 300 ms.
func (w *world) passLate(t *rapid.T) {
	w.pass(lease.Millis(rapid.IntRange(1, 99).Draw(t, "ms")))
	for i := 0; i < len(w.calls); {
		if w.now-w.calls[i].at >= 200 || rapid.Bool().Draw(t, "answered") {
			w.answer(i)
		} else {
			i++
		}
	}
}

// stream is an open stream of a worker.
type stream struct {
	worker  int
	request *Request
}

// Two PoPs of three workers share 4 slots, and never use five, whatever the order in
// which streams begin and end and calls are answered or lost; and when no stream is
// open any more all 4 can be had in either PoP.
func TestSlotsOfTwoPoPs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pops := twoPoPs(t, 3, fewSlotsRules(4, "region"))
		var open [2][]stream
		silent := lease.Millis(0)
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "pop")
			w := pops[i]
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 3:
				worker := rapid.IntRange(0, 2).Draw(t, "worker")
				open[i] = append(open[i], stream{worker, w.request(worker, "/", "ann")})
			case step < 5 && len(open[i]) > 0:
				n := rapid.IntRange(0, len(open[i])-1).Draw(t, "stream")
				w.workers[open[i][n].worker].End(w.now, open[i][n].request)
				open[i] = append(open[i][:n], open[i][n+1:]...)
			case step < 8 && len(w.calls) > 0:
				w.answer(rapid.IntRange(0, len(w.calls)-1).Draw(t, "call"))
			case step == 8 && len(w.calls) > 0:
				w.lose(0, rapid.Bool().Draw(t, "applied"))
			default: // the region answers once in 3 s at least
				pops.pass(lease.Millis(rapid.SampledFrom([]int{1, 10, 100, 3000, 12_000}).Draw(t, "ms")), &silent)
			}
			if n := openOf(open[0]) + openOf(open[1]); n > 4 {
				t.Fatalf("%d streams are open, the limit is 4", n)
			}
		}
		for i := range open {
			for _, s := range open[i] {
				pops[i].workers[s.worker].End(pops[i].now, s.request)
			}
		}
		for range 300 {
			pops.pass(100, &silent)
			pops.settle()
		}
		for i, w := range pops {
			for n := range 4 {
				r := w.request(n%3, "/", "ann")
				w.settle()
				if r.Outcome != Admit {
					t.Fatalf("PoP %d: slot %d of 4 cannot be had although no stream is open", i, n+1)
				}
				defer w.workers[n%3].End(w.now, r)
			}
			for _, x := range w.workers {
				for hash := range x.slots.holdings {
					x.slots.holdings[hash].inUse = 0 // all its streams end at once
					x.slots.publish(w.now, x.slots.holdings[hash])
				}
			}
			for range 20 {
				pops.pass(100, &silent)
				pops.settle()
			}
		}
	})
}

// pops are PoPs of one region.
type pops [2]*world

func twoPoPs(t tester, workers int, rules string) (p pops) {
	for i := range p {
		w := newWorld(t, 0, rules)
		if i > 0 {
			w.region = p[0].region
		}
		w.started = uint64(100 * i)
		for range workers {
			w.start()
		}
		w.collect()
		w.calls = nil // of the rules
		p[i] = w
	}
	return p
}

// pass lets time pass. Calls are answered when silent, the time since all were, comes
// to 3 s.
func (p pops) pass(d lease.Millis, silent *lease.Millis) {
	for d > 0 {
		part := min(d, 100)
		for _, w := range p {
			w.pass(part)
		}
		d -= part
		if *silent += part; *silent >= 3000 {
			p.settle()
			*silent = 0
		}
	}
}

func (p pops) settle() {
	for _, w := range p {
		w.settle()
	}
}

func openOf(open []stream) (n int) {
	for _, s := range open {
		if s.request.Outcome == Admit {
			n++
		}
	}
	return n
}

// A slot that is freed in one PoP can be had in another within two lease intervals:
// one until it is given back, one until a PoP that was denied asks again.
func TestSlotGoesToTheOtherPoP(t *testing.T) {
	p := twoPoPs(t, 2, fewSlotsRules(1, "region"))
	r := p[0].request(0, "/", "ann")
	p.settle()
	for range 20 {
		p.pass(100, new(lease.Millis))
		p.settle()
		if p[1].admit(1, "/", "ann") {
			t.Fatal("two streams of a limit of 1")
		}
	}
	p[0].workers[0].End(p[0].now, r)
	for n := range 3 {
		if p[1].admit(1, "/", "ann") {
			return
		}
		if n == 2 {
			t.Fatal("the slot cannot be had in the other PoP after 200 ms")
		}
		p.pass(100, new(lease.Millis))
		p.settle()
	}
}

// A worker that crashes leaves its streams and what it held behind. The streams of
// others that use what it held go on, no other stream begins in their place, and when
// all is over every slot can be had again.
func TestSlotsOfACrashedWorker(t *testing.T) {
	for _, scope := range []string{"region", "pop"} {
		t.Run(scope, func(t *testing.T) {
			w := newWorld(t, 4, fewSlotsRules(3, scope))
			for range 3 { // worker 0 holds all slots, and uses one
				if !w.admit(0, "/", "ann") {
					t.Fatal("refused")
				}
			}
			first := w.decided[:0:0]
			for _, x := range w.workers[:1] {
				for _, hd := range x.slots.holdings {
					hd.inUse = 1
					x.slots.publish(w.now, hd)
				}
			}
			for n := range 2 { // others use the rest
				r := w.request(1+n, "/", "ann")
				w.settle()
				if r.Outcome != Admit {
					t.Fatalf("worker %d: a slot that worker 0 holds cannot be had", 1+n)
				}
				first = append(first, r)
			}
			w.workers = w.workers[1:]
			admitted := 0
			for range 600 {
				w.pass(100)
				w.settle()
				if r := w.request(2, "/", "ann"); r.Outcome == Admit {
					admitted++
				} else if w.settle(); r.Outcome == Admit {
					admitted++
				}
			}
			if admitted != 1 {
				t.Fatalf("%d streams began beside two of a limit of 3, want 1: in place of that of the crashed worker", admitted)
			}
			for n, r := range first {
				w.workers[n].End(w.now, r)
			}
			for n := range 2 {
				if !w.admit(n, "/", "ann") {
					t.Fatalf("slot %d of 2 that are free cannot be had", n+1)
				}
			}
			if w.admit(0, "/", "ann") {
				t.Fatal("a fourth stream of a limit of 3")
			}
		})
	}
}

// While the region is away, streams count all the same.
func TestSlotsOnFailure(t *testing.T) {
	for action, want := range map[string]int{"allow": 20, "deny": 0, "local": 5} {
		w := newWorld(t, 1, fmt.Sprintf(fewSlots, 5, "region", fmt.Sprintf(`,"on_failure":%q`, action)))
		admitted := 0
		for range 20 {
			r := w.request(0, "/", "ann")
			w.cut()
			if r.Outcome == Admit {
				admitted++
			}
		}
		if admitted != want {
			t.Errorf("on_failure %s: %d of 20 streams admitted, want %d", action, admitted, want)
		}
	}
}
