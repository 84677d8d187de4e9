package edge

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
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

// Of two streams at a time under a limit of 1, one is admitted and one is rejected,
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
		t.Fatalf("%d and %d, degraded: %v and %v, want one admitted and one rejected", pair[0].Outcome, pair[1].Outcome, pair[0].Degraded, pair[1].Degraded)
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
		first := w.answered(0, "/", "ann")
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
			w.reply(returns, w.region.serve(w.wall(), returns.call))
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

// A worker neither holds a slot for a stream that another one's slot is for, nor gives one back that others may count on, because the
// pool cannot be written.
func TestSlotsThatOthersCountOn(t *testing.T) {
	w := newWorld(t, 2, fewSlotsRules(2, "region"))
	first := w.answered(0, "/", "ann")
	w.workers[0].End(w.now, first)
	if r := w.request(1, "/", "ann"); r.Outcome != Admit {
		t.Fatalf("the slot of worker 0 is free: outcome %d", r.Outcome)
	}
	w.passes(3000)
	if n := w.region.spent(w.wall(), "streams", "ann"); n != 1 {
		t.Errorf("%d slots are held for one stream", n)
	}
	bob := w.answered(0, "/", "bob")
	w.workers[0].End(w.now, bob)
	w.race(1 << 30)
	w.passes(300)
	if n := w.region.spent(w.wall(), "streams", "bob"); n != 1 {
		t.Errorf("%d slots are held where the pool cannot be written, want that of before", n)
	}
}

// A slot is given back once, and an interval later again if the answer was lost.
func TestSlotIsGivenBack(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := newWorld(t, 1, fmt.Sprintf(fewSlots, 1, "region", `,"lease":{"interval":"500ms","ttl":"10s"}`))
		r := w.answered(0, "/", "ann")
		w.workers[0].End(w.now, r)
		for len(w.calls) == 0 {
			w.pass(100)
		}
		if lost {
			w.lose(0, false)
			if w.pass(300); len(w.calls) > 0 {
				t.Error("asked again at once")
			}
		}
		before := w.region.wants
		if w.passes(4000); w.region.wants != before+1 || w.region.spent(w.wall(), "streams", "ann") != 0 {
			t.Errorf("lost %v: %d wants, %d slots are held", lost, w.region.wants-before, w.region.spent(w.wall(), "streams", "ann"))
		}
	}
}

// A stream that on_failure admits uses a slot, also where the pool cannot be written.
func TestSlotThatFailureAdmits(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(fewSlots, 1, "region", `,"on_failure":"allow"`))
	w.admit(0, "/", "ann")
	r := w.request(0, "/", "ann")
	w.race(1 << 30)
	for inUse := int64(2); inUse >= 1; inUse-- {
		w.cut(false)
		for _, hd := range w.workers[0].slots.holdings {
			if hd.inUse != inUse || r.Outcome != Admit {
				t.Errorf("%d slots are in use, want %d, outcome %d", hd.inUse, inUse, r.Outcome)
			}
		}
		w.workers[0].End(w.now, r)
	}
}

// A stream that goes on is published twice in the time in which others would forget it, and not more often.
func TestLongStreamWritesLittle(t *testing.T) {
	w := newWorld(t, 2, fewSlotsRules(1, "pop"))
	w.request(0, "/", "ann")
	before := w.store.Version
	for range 60 {
		if w.pass(1000); w.request(1, "/", "ann").Outcome != Deny {
			t.Fatal("two streams of a limit of 1")
		}
	}
	if n := w.store.Version - before; n > 300 { // most of them name the leader
		t.Errorf("%d writes in a minute", n)
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
	w.answerThose(func(c madeCall) bool { return w.now-c.at >= 200 || rapid.Bool().Draw(t, "answered") })
}

// A slot that is freed in one PoP can be had in another within two lease intervals:
// one until it is given back, one until a PoP that was denied asks again.
func TestSlotGoesToTheOtherPoP(t *testing.T) {
	one, other := newWorld(t, 2, fewSlotsRules(1, "region")), newWorld(t, 0, fewSlotsRules(1, "region"))
	other.region, other.started = one.region, 100
	other.starts(2)
	pass := func() {
		one.passes(100)
		other.passes(100)
	}
	r := one.request(0, "/", "ann")
	one.settle()
	one.passes(30)
	other.passes(110) // it asks between the ticks of the first one
	for range 150 {   // longer than the lease
		if pass(); other.admit(1, "/", "ann") {
			t.Fatal("two streams of a limit of 1")
		}
	}
	one.workers[0].End(one.now, r)
	for n := 0; !other.admit(1, "/", "ann"); n++ {
		if n == 2 {
			t.Fatal("the slot cannot be had in the other PoP after 200 ms")
		}
		pass()
	}
}

// A worker that crashes leaves its streams and what it held behind. The streams of
// others that use what it held go on, no other stream begins in their place, and when
// all is over every slot can be had again.
func TestSlotsOfACrashedWorker(t *testing.T) {
	for _, scope := range []string{"region", "pop"} {
		t.Run(scope, func(t *testing.T) {
			w := newWorld(t, 4, fewSlotsRules(3, scope))
			if n := w.admits(3, "/", "ann"); n != 3 { // worker 0 holds all slots, and uses one
				t.Fatalf("%d of 3 streams are admitted", n)
			}
			var first []*Request
			for _, hd := range w.workers[0].slots.holdings {
				hd.inUse = 1
				w.workers[0].slots.publish(w.now, hd)
			}
			for n := range 2 { // others use the rest
				r := w.answered(1+n, "/", "ann")
				if r.Outcome != Admit {
					t.Fatalf("worker %d: a slot that worker 0 holds cannot be had", 1+n)
				}
				first = append(first, r)
			}
			w.workers = w.workers[1:]
			admitted := 0
			for range 600 {
				w.passes(100)
				if w.admit(2, "/", "ann") {
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

// A shadow rule counts what it would do. A stream that waited for the region has gone on without a slot: of three streams of a limit
// of 1, it would reject the last one.
func TestShadowSlots(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"s","mode":"shadow","key":[],"limit":1,"algorithm":"concurrency","scope":"region"}]}`)
	var streams []*Request
	for i, wait := range []lease.Millis{0, 0, 100} {
		streams = append(streams, w.answered(0, "/", "ann"))
		w.passes(wait)
		if c := w.workers[0].rules.CountsOf("s").Decided; c[rulebook.ShadowAllowed] != uint64(min(i+1, 2)) || c[rulebook.ShadowDenied] != uint64(i/2) {
			t.Errorf("after stream %d: decided %v", i, c)
		}
	}
	for _, r := range streams {
		w.ends(0, r)
	}
	w.passes(100)
	w.admit(0, "/", "ann")
	w.passes(100)
	if c := w.workers[0].rules.CountsOf("s").Decided; c[rulebook.ShadowAllowed] != 3 {
		t.Errorf("when all have ended: decided %v", c)
	}
}
