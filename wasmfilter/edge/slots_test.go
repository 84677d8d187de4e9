package edge

import (
	"fmt"
	"slices"
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
			returns.worker.Reply(w.now, returns.call.ID, w.region.serve(w.wall(), returns.call))
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
	worker  *Worker
	request *Request
}

// Two PoPs of three workers share 4 slots, and never use five, whatever the order in
// which streams begin and end and calls are answered or lost; and when no stream is
// open any more all 4 can be had in either PoP.
func TestSlotsOfTwoPoPs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := twoPoPs(t, 3, fewSlotsRules(4, "region"))
		var open []stream
		end := func(s stream) { s.worker.End(p.of[0].now, s.request) }
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			w := p.of[rapid.IntRange(0, 1).Draw(t, "pop")]
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 3:
				worker := rapid.IntRange(0, 2).Draw(t, "worker")
				open = append(open, stream{w.workers[worker], w.request(worker, "/", "ann")})
			case step < 5 && len(open) > 0:
				n := rapid.IntRange(0, len(open)-1).Draw(t, "stream")
				end(open[n])
				open = slices.Delete(open, n, n+1)
			case step < 8 && len(w.calls) > 0:
				w.answer(rapid.IntRange(0, len(w.calls)-1).Draw(t, "call"))
			case step == 8 && len(w.calls) > 0:
				w.lose(0, rapid.Bool().Draw(t, "applied"))
			default: // the region answers once in 3 s at least
				p.pass(lease.Millis(rapid.SampledFrom([]int{1, 10, 100, 3000, 12_000}).Draw(t, "ms")))
			}
			if n := admittedOf(requestsOf(open)); n > 4 {
				t.Fatalf("%d streams are open, the limit is 4", n)
			}
		}
		for i, w := range p.of {
			for _, s := range open {
				end(s)
			}
			open = nil
			for range 300 {
				p.pass(100)
				p.settle()
			}
			for n := range 4 {
				open = append(open, stream{w.workers[n%3], w.request(n%3, "/", "ann")})
				w.settle()
			}
			if n := admittedOf(requestsOf(open)); n < 4 {
				t.Fatalf("PoP %d: %d of 4 slots can be had although no stream is open", i, n)
			}
		}
	})
}

func requestsOf(open []stream) (requests []*Request) {
	for _, s := range open {
		requests = append(requests, s.request)
	}
	return requests
}

// pops are PoPs of one region.
type pops struct {
	of     [2]*world
	silent lease.Millis // since when not all calls are answered
}

func twoPoPs(t tester, workers int, rules string) *pops {
	p := &pops{of: [2]*world{newWorld(t, 0, rules), newWorld(t, 0, rules)}}
	p.of[1].region = p.of[0].region
	for i, w := range p.of {
		w.started = uint64(100 * i)
		for range workers {
			w.start()
		}
		w.collect()
		w.calls = nil // of the rules
	}
	return p
}

// pass lets time pass. Calls are answered after 3 s at the latest.
func (p *pops) pass(d lease.Millis) {
	for ; d > 0; d -= 100 {
		for _, w := range p.of {
			w.pass(min(d, 100))
		}
		if p.silent += min(d, 100); p.silent >= 3000 {
			p.settle()
		}
	}
}

func (p *pops) settle() {
	p.silent = 0
	for _, w := range p.of {
		w.settle()
	}
}

// A slot that is freed in one PoP can be had in another within two lease intervals:
// one until it is given back, one until a PoP that was denied asks again.
func TestSlotGoesToTheOtherPoP(t *testing.T) {
	p := twoPoPs(t, 2, fewSlotsRules(1, "region"))
	one, other := p.of[0], p.of[1]
	r := one.request(0, "/", "ann")
	for range 20 {
		p.settle()
		p.pass(100)
		if p.settle(); other.admit(1, "/", "ann") {
			t.Fatal("two streams of a limit of 1")
		}
	}
	one.workers[0].End(one.now, r)
	for n := 0; !other.admit(1, "/", "ann"); n++ {
		if n == 2 {
			t.Fatal("the slot cannot be had in the other PoP after 200 ms")
		}
		p.pass(100)
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
