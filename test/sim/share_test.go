package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// cutOff is a run of three regions with static shares and two replicas each, which together are
// offered three times a limit of 600 in 10 s; of that region1 has a share of 100.
type cutOff struct {
	seed      uint64
	algorithm limit.Algorithm
	calls     bool // of region1 do not arrive from the 25th to the 55th second
	replies   bool // likewise
	fault     Fault
	lasts     limit.Micros
	late      limit.Micros                   // so much later clients of region1 begin
	more      func(w *World, rnd *rand.Rand) // goes wrong, too
}

func (c cutOff) play(t *testing.T) (n Totals, h *shareholder, err error) {
	bubble(t, func(t *testing.T) {
		r := newRule(t, "r", limit.Spec{Algorithm: c.algorithm, Count: 600, Period: 10 * limit.Second}, lease.Leased)
		r.Scope, r.OnFailure = rule.ScopeGlobal, lease.FailureLocal
		if c.algorithm == limit.TokenBucket {
			r.Spec.Burst = 120
		}
		w := New(Config{
			Seed: c.seed, PoPs: 12, Relays: 6, Regions: 3, Shares: rule.Regions{{Name: "region1", Weight: 1}, {Name: "region2", Weight: 2}, {Name: "region3", Weight: 3}},
			Fault: c.fault, Trace: tracing(),
			Net: Net{Delay: limit.Millisecond, Spread: 5 * limit.Millisecond},
			Far: Net{Delay: 20 * limit.Millisecond, Spread: 20 * limit.Millisecond},
		}, r)
		defer w.Close()
		for n := range w.PoPs {
			load := Load{Rate: 15, Parts: Key(r, "k", 1)}
			if w.pops[n].link.above.region == "region1" {
				w.after(c.late, func() { w.Offer(n+1, load, c.lasts-c.late) })
			} else {
				w.Offer(n+1, load, c.lasts)
			}
		}
		if c.calls || c.replies {
			w.after(25*limit.Second, func() { w.cutRegion("region1", c.calls, c.replies) })
			w.after(55*limit.Second, func() { w.cutRegion("region1", false, false) })
		}
		if c.more != nil {
			c.more(w, rand.New(rand.NewPCG(c.seed, 2)))
		}
		err = w.Run(c.lasts)
		n, h = w.Totals(r, "k"), w.holders[0]
	})
	return n, h, err
}

// cutRegion cuts the links of a region to the aggregator, or heals them.
func (w *World) cutRegion(name string, calls, replies bool) {
	for _, t := range w.replicas {
		if t.region == name {
			t.link.cut, t.link.deaf = calls, replies
		}
	}
}

// TestCutOffRegion is promise 7: a region that is cut off in either direction or both takes its
// share of each window that begins after it has noticed, and no window exceeds the limit.
func TestCutOffRegion(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket} {
		for way := range 3 {
			c := cutOff{seed: 1, algorithm: algorithm, calls: way != 0, replies: way != 1, lasts: 90 * limit.Second}
			n, h, err := c.play(t)
			if err != nil {
				t.Errorf("%s, calls cut %v, replies cut %v: %v", name(algorithm), c.calls, c.replies, err)
			}
			least, windows := n.Exact*99/100, 3
			switch algorithm {
			case limit.SlidingWindow: // which the estimate keeps lower
				least = n.Exact * 93 / 100
			case limit.TokenBucket: // one lease, renewed all the time
				windows = 1
			}
			if n.Admitted < least || n.Degraded > 0 {
				t.Errorf("%s: %+v, want %d admitted at least, and none by on_failure of a PoP", name(algorithm), n, least)
			}
			if len(h.parts) != windows {
				t.Errorf("%s: a share of %d windows was taken, want %d", name(algorithm), len(h.parts), windows)
			}
			var spent int64
			for id, p := range h.parts {
				if algorithm == limit.FixedWindow && p.spent.units != 100 {
					t.Errorf("%s: %d of the share of 100 were admitted in the window %d", name(algorithm), p.spent.units, id.lease)
				}
				spent += p.spent.units
			}
			if least := int64(90 * windows); spent < least {
				t.Errorf("%s: %d units of shares were admitted in %d windows, want %d at least", name(algorithm), spent, windows, least)
			}
		}
	}
}

// TestWrongClocks gives the region that is cut off a clock that is wrong by an hour. Where its
// windows begin when those of the aggregator do, nothing changes. Else, and where its clock
// steps meanwhile, the bounds are those of [referee.shared].
func TestWrongClocks(t *testing.T) {
	const hour, second = limit.Hour, limit.Second
	for _, clock := range []struct{ wrong, step limit.Micros }{
		{-hour, 0}, {hour, 0}, {hour + 3300*limit.Millisecond, 0}, {-hour - 7*second, 0},
		{0, hour}, {0, -hour}, {hour, -hour}, {-hour, hour + 4*second}, {hour, -second / 2},
	} {
		for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.TokenBucket} {
			c := cutOff{seed: 1, algorithm: algorithm, calls: true, replies: true, lasts: 70 * second}
			c.more = func(w *World, _ *rand.Rand) {
				w.holders[0].stepsBy(clock.wrong)
				if clock.step != 0 {
					w.after(42*second, func() { w.holders[0].stepsBy(clock.step) })
				}
			}
			n, h, err := c.play(t)
			if err != nil {
				t.Errorf("%s, wrong by %v s, step of %v s: %v", name(algorithm), seconds(clock.wrong), seconds(clock.step), err)
			}
			if n.Admitted < n.Exact*9/10 || len(h.parts) == 0 {
				t.Errorf("%s, wrong by %v s, step of %v s: %+v, want nine tenths of what one exact limiter admits", name(algorithm), seconds(clock.wrong), seconds(clock.step), n)
			}
		}
	}
}

// TestSharesBetweenTwoClocks is the worst case where the windows of a region begin in the middle
// of those of the aggregator: the region is silent when each of two of its windows begins, and calls
// in between when a window of the aggregator begins. That one gets two shares more, and
// not three.
func TestSharesBetweenTwoClocks(t *testing.T) {
	c := cutOff{seed: 1, algorithm: limit.FixedWindow, lasts: 60 * limit.Second, late: 40 * limit.Second}
	c.more = func(w *World, _ *rand.Rand) {
		w.holders[0].stepsBy(limit.Hour + 5*limit.Second)
		for at, cut := range map[limit.Micros]bool{28_000: true, 38_000: false, 40_100: true, 52_000: false} {
			w.after(at*limit.Millisecond, func() { w.cutRegion("region1", cut, cut) })
		}
	}
	n, _, err := c.play(t)
	if err != nil {
		t.Error(err)
	}
	if n.Worst < 740 || n.Worst > 800 { // some of the 600 is on lease with the region when it is cut off
		t.Errorf("%d admitted in a window, want the limit of 600 and two shares of 100, or little less", n.Worst)
	}
}

// TestRandomSilences cuts regions off again and again, in any direction, while replicas
// restart, clocks step and messages are lost.
func TestRandomSilences(t *testing.T) {
	seeds := uint64(10)
	if full() {
		seeds = 300
	}
	for seed := range seeds {
		if _, _, err := silences(seed, None).play(t); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

func silences(seed uint64, f Fault) cutOff {
	algorithms := []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket}
	c := cutOff{seed: seed, algorithm: algorithms[seed%3], calls: seed%2 == 0, replies: true, lasts: 100 * limit.Second, fault: f}
	c.more = func(w *World, rnd *rand.Rand) {
		w.Net.LoseCall, w.Net.LoseReply, w.Net.Repeat = 0.005, 0.005, 0.005
		w.Far.LoseCall, w.Far.LoseReply = 0.02, 0.02
		for range 15 {
			w.after(limit.Micros(rnd.Int64N(int64(c.lasts))), func() { w.shareMishap(rnd) })
		}
	}
	return c
}

// shareMishap is something that goes wrong with a region, or on its way to the aggregator.
func (w *World) shareMishap(rnd *rand.Rand) {
	h, t := w.holders[rnd.IntN(len(w.holders))], w.replicas[rnd.IntN(len(w.replicas))]
	switch rnd.IntN(5) {
	case 0, 1:
		way := rnd.IntN(3)
		w.cutRegion(h.name, way != 0, way != 1)
		w.after(limit.Micros(rnd.Int64N(int64(12*limit.Second))), func() { w.cutRegion(h.name, false, false) })
	case 2:
		t.restart()
	case 3:
		t.link.cutFor(limit.Micros(rnd.Int64N(int64(5 * limit.Second))))
	case 4:
		h.stepsBy(pick(rnd, -limit.Hour, limit.Hour, -limit.Second/2, limit.Second/2, 3*limit.Second))
	}
}

// TestSharesCatch breaks what promise 7 rests on, and wants it to be seen.
func TestSharesCatch(t *testing.T) {
	for _, f := range []Fault{TakesUncut, BelievesTheDeaf, SharesTwice} {
		t.Run(f.String(), func(t *testing.T) {
			for seed := range uint64(6) {
				c := cutOff{seed: seed, algorithm: limit.FixedWindow, replies: true, lasts: 60 * limit.Second, fault: f}
				if seed%2 > 0 {
					c.algorithm = limit.TokenBucket
				}
				if _, _, err := c.play(t); err != nil {
					t.Logf("caught by run %d: %v", seed, err)
					return
				}
			}
			t.Errorf("nobody noticed a simulator that %s", f)
		})
	}
}

// TakesUncut: a region takes its share without silence, because its record is never renewed.
var TakesUncut = Fault{name: "takes uncut", receipt: func(limit.Micros) limit.Micros { return 1 }}

// BelievesTheDeaf: the aggregator takes each call for a sign that its last reply arrived.
var BelievesTheDeaf = Fault{name: "believes the deaf", called: func(seq, _ uint64) uint64 { return seq - 1 }}

// SharesTwice: a grant of a share is not charged now and then.
var SharesTwice = Fault{name: "shares twice", share: GrantsTwice.counters}
