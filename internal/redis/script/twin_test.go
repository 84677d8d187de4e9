package script_test

import (
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
)

// twin is one key in Go, decided on as the memory store does.
type twin struct {
	counter granter.Counter
	slots   granter.Slots
	made    bool // there is a counter: something was asked or charged
}

func (w *twin) apply(c *call) (lease.Grant, bool) {
	if c.ask.Policy.Limit.Concurrent() {
		g, fits := w.hold(c)
		w.made = w.made || len(w.slots.Held.Held) > 0 || len(w.slots.Stated) > 0
		if !w.made {
			w.slots = granter.Slots{}
		}
		return g, fits
	}
	kept := w.counter
	kept.State.Log = slices.Clone(kept.State.Log)
	w.made = w.made || c.ask.Want.Want > 0 || c.ask.Want.Overdrawn > 0 || c.ask.Want.Denied > 0 && c.ask.Policy.Limit.ChargesRejected()
	g, fits := w.count(c)
	if !w.made {
		w.counter = kept
	}
	return g, fits
}

func (w *twin) count(c *call) (lease.Grant, bool) {
	p, want := c.ask.Policy, c.ask.Want
	if c.mode != script.Fit {
		g := engine.AcquireUnits(&w.counter, c.now, &c.ask)
		return g, g.Status == lease.OK
	}
	return w.counter.Fit(p.Limit, &p.Terms, c.now, want)
}

func (w *twin) hold(c *call) (lease.Grant, bool) {
	p, a := c.ask.Policy, c.ask
	if c.mode != script.Fit {
		g := engine.AcquireSlots(&w.slots, c.now, &a)
		return g, g.Status == lease.OK
	}
	return w.slots.Fit(p.Limit, &p.Terms, c.now, a.Holder, a.Seq, a.Want)
}

// century is the longest that a key is kept.
const century = 36525 * limit.Day

// keep is for how long from now the key must not be forgotten.
func (w *twin) keep(l *limit.Limit, now limit.Micros) limit.Micros {
	if !l.Concurrent() {
		return min(century, max(l.Peek(w.counter.State, now, 0).Reset, w.counter.OutUntil-now))
	}
	var until limit.Micros
	for _, h := range w.slots.Held.Held {
		until = max(until, h.Until)
	}
	for _, s := range w.slots.Stated {
		until = max(until, s.Until)
	}
	return until - now
}
