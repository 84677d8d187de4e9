package sim

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
)

// TestRandomOutages cuts regions off again and again, in any direction, while replicas and the aggregator restart,
// clocks step, weights change, stores of regions are lost and messages, too.
func TestRandomOutages(t *testing.T) {
	for seed := range runsOf(10, 50) {
		if o := outages(seed, None).play(t); o.err != nil {
			t.Errorf("seed %d: %v", seed, o.err)
		}
	}
}

func outages(seed uint64, f Fault) cutOff {
	c := cutOff{seed: seed, spec: allLimits[seed%uint64(len(allLimits))], calls: seed%2 == 0, replies: true, lasts: 100 * limit.Second, fault: f}
	c.more = func(w *World, rnd *rand.Rand) {
		net := &w.world.Net
		net.LoseCall, net.LoseReply, net.Repeat = 0.005, 0.005, 0.005
		for _, h := range w.regions {
			h.Net.LoseCall, h.Net.LoseReply = pick(rnd, 0, 0.02, 0.3), pick(rnd, 0, 0.02)
		}
		for range 15 {
			w.after(limit.Micros(rnd.Int64N(int64(c.lasts))), func() { w.regionMishap(rnd) })
		}
	}
	return c
}

// regionMishap is something that goes wrong with a region, or on its way to the aggregator.
func (w *World) regionMishap(rnd *rand.Rand) {
	h, t := w.regions[rnd.IntN(len(w.regions))], w.replicas[rnd.IntN(len(w.replicas))]
	switch rnd.IntN(11) {
	case 0, 1:
		way := rnd.IntN(3)
		h.cutOff(way != 0, way != 1)
		w.after(limit.Micros(rnd.Int64N(int64(12*limit.Second))), func() { h.cutOff(false, false) })
	case 2:
		w.restart(t)
	case 3:
		w.cutFor(t.Link, limit.Micros(rnd.Int64N(int64(5*limit.Second))))
	case 4:
		h.stepsBy(pick(rnd, -limit.Hour, limit.Hour, -limit.Second/2, limit.Second/2, 3*limit.Second))
	case 5:
		w.restartAggregator()
	case 6:
		w.changeShares(weighted([3]int64{1 + rnd.Int64N(10), 1 + rnd.Int64N(10), 2}))
	case 7:
		h.loses()
	case 8:
		w.StepClock(pick(rnd, -limit.Second/2, limit.Second/2, -limit.Minute))
	case 9:
		w.RestartPoP(1 + rnd.IntN(len(w.pops)))
	case 10:
		w.cutFor(w.pops[rnd.IntN(len(w.pops))].Link, limit.Micros(rnd.Int64N(int64(5*limit.Second))))
	}
}

// weighted are the regions of such runs with these weights.
func weighted(weights [3]int64) (rs rule.Regions) {
	for i, w := range weights {
		rs = append(rs, rule.Region{Name: "region" + itoa(i+1), Weight: w})
	}
	return rs
}

// loses makes the region lose its store. Of the windows in which it has used its reserve it may use as much again.
func (h *region) loses() {
	h.w.tracef("%s loses its store", h.Name)
	h.LoseStore()
	h.forgetsCounts(limit.Never)
}

// forgetsCounts notes that the counters of its store are lost, whose windows are shorter than that.
func (h *region) forgetsCounts(back limit.Micros) {
	for id, p := range h.parts {
		switch {
		case p.window.Period >= back:
			continue
		case !p.debt:
			h.w.ref.again(id.key, p, h.most)
		}
		p.granted = 0
	}
}

// stepsBy sets the clock of its store forward or back. A counter that finds itself more than its window ahead of the clock
// forgets which one it was of.
func (h *region) stepsBy(by limit.Micros) {
	h.w.tracef("the clock of %s steps by %d ms", h.Name, by/limit.Millisecond)
	h.StepClock(by)
	h.w.apart()
	if now := h.w.now(); now > epochStart { // time that did not pass may bring its share of the windows about now
		h.mu.Lock()
		h.outages = append(h.outages, outage{now - limit.Minute, now + limit.Minute})
		h.mu.Unlock()
	}
	h.forgetsCounts(-by)
}

// cutOff cuts the links of its replicas to the aggregator, for calls and for answers, or heals them.
func (h *region) cutOff(calls, replies bool) {
	for _, t := range h.w.replicas {
		if t.Home == h.Region {
			t.Link.Cut, t.Link.Deaf = calls, replies
		}
	}
}

// restartAggregator makes the aggregator begin anew. Its store keeps what it has.
func (w *World) restartAggregator() {
	w.tracef("aggregator restarts")
	w.ref.forgetful()
	w.restartTop()
}

// changeShares gives regions other weights, at all tiers at once.
func (w *World) changeShares(rs rule.Regions) {
	w.tracef("shares %v", rs)
	w.rules.shares = rs
	w.rules.compile()
	w.world.SetRules(w.rules.set)
}

// TestReserveCatches breaks what promise 7 rests on.
func TestReserveCatches(t *testing.T) {
	catches(t, 12, func(seed uint64, f Fault) error {
		c := cutOff{seed: seed, spec: allLimits[seed%uint64(len(allLimits))], calls: true, replies: true, lasts: 70 * limit.Second, fault: f}
		c.more = func(w *World, _ *rand.Rand) {
			for _, t := range w.replicas {
				if t.Home == w.regions[0].Region && seed%2 == 1 {
					w.after(55*limit.Second, func() { w.restart(t) })
				}
			}
		}
		return c.play(t).err
	}, WithholdsNothing, StoresNothing, CutLongAgo)
}

// WithholdsNothing: the aggregator divides the whole limit while a region is cut off.
var WithholdsNothing = Fault{name: "withholds nothing", counters: func(v *visit) {
	for i := range v.asks {
		v.asks[i].Region = ""
	}
	v.acquire()
}}

// StoresNothing: a record is sent and used that was not stored.
var StoresNothing = Fault{name: "stores nothing", record: func(h *region, next []byte) []byte {
	if r := readRecord(next); r.Touched != 0 {
		return nil
	}
	return next
}}

// CutLongAgo: the trickle of a region has all that came in since an hour before it was cut off.
var CutLongAgo = Fault{name: "was cut off long ago", record: func(h *region, next []byte) []byte {
	return changed(h, next, func(r *reserve.Record) {
		if r.Cut > h.Clock()-limit.Hour/2 {
			r.Cut -= limit.Hour
		}
	})
}}

// changed is a record with a change.
func changed(h *region, text []byte, change func(*reserve.Record)) []byte {
	r := readRecord(text)
	change(&r)
	text, err := json.Marshal(struct {
		Region string
		reserve.Record
	}{h.Name, r})
	if err != nil {
		panic(err)
	}
	return text
}

// TestTrickleSince: the referee takes no trickle for shorter than it is.
func TestTrickleSince(t *testing.T) {
	since := limit.Micros(1_764_100_025_518_640)
	for _, at := range []limit.Micros{since, since + 359, since + 83_337, since + limit.Minute} {
		if got := trickleSince(trickleTag^uint32(since/limit.Millisecond), at); got != since-640 {
			t.Errorf("at %d: %d, %d µs late", at, got, got-since)
		}
	}
}
