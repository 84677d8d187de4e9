package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// holder is a PoP: slots by key, requests that wait, calls that are out.
type holder struct {
	w      *World
	name   string
	above  tier
	offset limit.Micros // its clock, from virtual time
	paused limit.Micros // until then it does nothing
	life   int          // counts restarts: what was sent in another life is nobody's
	who    uint64
	seqs   map[int]uint64 // by worker
	epoch  uint64
	liar   bool
	cut    bool // nothing that it sends arrives

	slots   map[counterKey]*entry
	entries []*entry // of slots, by age
}

// entry is a slot and who waits for it.
type entry struct {
	rule      *Rule
	key       counterKey
	slot      lease.Account
	queue     []*request // wait for the next ask
	ask       *ask       // is out; nil: none, or given up
	reporting bool
	holds     bool       // asks until all that waited have been decided on
	behind    lease.Asks // what to ask for then, if nobody waits
}

// ask is a call that is out.
type ask struct {
	entries []*entry
	wants   []lease.Want
	sent    lease.Millis
	waiters []*request // of the only entry, or the one request of a group
	group   bool
	done    bool
}

func newHolder(w *World, n int, above tier) *holder {
	h := &holder{w: w, name: "h" + itoa(n), above: above, slots: map[counterKey]*entry{}, seqs: map[int]uint64{}, liar: n <= w.Liars}
	h.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
	if w.Steady {
		h.offset = 0
	}
	h.who = uint64(n)
	w.ref.lives++
	h.tick()
	return h
}

func (h *holder) now() lease.Millis {
	return lease.Millis((h.w.Now + h.offset) / limit.Millisecond)
}

// virtual is the virtual time at which the holder's clock will show t.
func (h *holder) virtual(t lease.Millis) limit.Micros {
	return limit.Micros(t)*limit.Millisecond - h.offset
}

// restart begins a new life: a new id, no slots, and nobody waits any more.
func (h *holder) restart() {
	h.life++
	h.w.ref.lives++
	h.who += 1 << 32
	h.seqs, h.epoch = map[int]uint64{}, 0
	for _, e := range h.entries {
		h.w.ref.forgotten(h, e)
	}
	h.slots, h.entries = map[counterKey]*entry{}, nil
}

// entry finds or makes the slot of a key; nil if the table is full of slots that
// cannot be forgotten.
func (h *holder) entry(r *Rule, key string) *entry {
	k := counterKey{r.Name, r.Limit.Shape(), key}
	if e := h.slots[k]; e != nil {
		return e
	}
	if h.w.MaxSlots > 0 && len(h.slots) >= h.w.MaxSlots && !h.evict() {
		return nil
	}
	e := &entry{rule: r, key: k}
	h.slots[k] = e
	h.entries = append(h.entries, e)
	h.w.ref.checkMemory(h.name, len(h.slots), h.w.MaxSlots)
	return e
}

// evict forgets a slot that says nothing.
func (h *holder) evict() bool {
	now := h.now()
	for i, e := range h.entries {
		free := e.ask == nil && len(e.queue) == 0 && !e.reporting
		if free && (e.slot.Idle(&e.rule.Terms, now) || h.w.Fault == ForgetsDenials) {
			h.w.ref.forgotten(h, e)
			delete(h.slots, e.key)
			h.entries = slices.Delete(h.entries, i, i+1)
			return true
		}
	}
	return false
}

// askFor asks for an entry on behalf of all that wait for it, or of nobody.
func (h *holder) askFor(e *entry, behind lease.Asks) {
	switch {
	case e.ask != nil:
		return
	case e.holds:
		e.behind = max(e.behind, behind)
		return
	}
	var need, waiting int64
	var waiters, others []*request
	for _, r := range e.queue {
		if !r.alone() { // it asks for itself
			others = append(others, r)
			continue
		}
		waiters = append(waiters, r)
		cost := r.costOf(e)
		if need == 0 || cost < need {
			need = cost
		}
		waiting += cost
	}
	w := h.collect(e, func() lease.Want { return e.slot.Ask(&e.rule.Terms, h.now(), need, waiting, behind) })
	a := &ask{entries: []*entry{e}, wants: []lease.Want{w}, sent: h.now(), waiters: waiters}
	e.queue = others
	h.call(a)
}

// askGroup asks for all that one request misses.
func (h *holder) askGroup(r *request) {
	a := &ask{sent: h.now(), waiters: []*request{r}, group: true}
	for i, p := range r.parts {
		if r.verdicts[i] != lease.Wait {
			continue
		}
		e := r.entries[i]
		a.entries = append(a.entries, e)
		a.wants = append(a.wants, h.collect(e, func() lease.Want {
			return e.slot.Ask(&e.rule.Terms, h.now(), p.Cost, p.Cost, lease.NoAsk)
		}))
	}
	h.call(a)
}

// collect makes a want and tells the referee what left the slot with it.
func (h *holder) collect(e *entry, make func() lease.Want) lease.Want {
	before := e.slot.Lots
	w := make()
	if h.w.Fault == KeepsItsLots && w.Need > 0 {
		e.slot.Lots, w.Unused = before, 0
	}
	if h.w.Fault == ForgetsDebts {
		e.slot.Overdrawn, e.slot.Sealed.Units = 0, 0
	}
	for i, lot := range before {
		if n := lot.Units - e.slot.Lots[i].Units; n > 0 {
			h.w.ref.left(h, e, lot.Lease, lot.Expiry, n)
		}
	}
	return w
}

func (h *holder) call(a *ask) {
	for _, e := range a.entries {
		e.ask = a
	}
	h.send(a)
	timeout := limit.Micros(a.entries[0].rule.Terms.Timeout) * limit.Millisecond
	h.w.after(timeout, func() { h.giveUp(a) })
}

// giveUp stops waiting for an answer, which may still come and then is applied.
func (h *holder) giveUp(a *ask) {
	for _, e := range a.entries {
		if e.ask == a {
			e.ask = nil
			h.again(e)
		}
	}
}

// hop is 0 next to the granter, 1 with a relay between.
func (h *holder) hop() int { return min(h.w.Relays, 1) }

// number begins a call of one of the workers.
func (h *holder) number() call {
	c := call{from: h.name, who: h.who, epoch: h.epoch, lies: h.liar}
	if h.w.Workers > 1 {
		c.worker = h.w.rand.IntN(h.w.Workers)
	}
	h.seqs[c.worker]++
	c.seq = h.seqs[c.worker]
	return c
}

// leave sends a call that has its number, when its worker comes to it.
func (h *holder) leave(send func()) {
	if h.w.Hold == 0 {
		send()
		return
	}
	h.w.after(limit.Millisecond+limit.Micros(h.w.rand.Int64N(int64(h.w.Hold))), send)
}

func (h *holder) send(a *ask) {
	c := h.number()
	for i, e := range a.entries {
		c.wants = append(c.wants, want{rule: e.rule, key: e.key, hop: h.hop(), group: a.group, Want: a.wants[i], owner: h.who})
		h.w.ref.sent(c.wants[i])
	}
	if h.cut {
		h.w.tracef("%s → cut off", h.name)
		h.w.ref.lostCall(c)
		return
	}
	life := h.life
	h.leave(func() { h.w.send(c, h.above, func(r reply) { h.receive(c, a, life, r) }) })
	h.double(c)
	if h.liar {
		h.lies(c)
	}
	if h.w.Fault == GivesBackTwice && h.w.chance(0.5) {
		c.seq = h.number().seq
		c.wants = slices.Clone(c.wants)
		for i := range c.wants {
			c.wants[i].Want = lease.Want{Unused: c.wants[i].Unused, Lease: c.wants[i].Lease}
		}
		h.w.send(c, h.above, func(reply) {})
	}
}

// receive takes the first answer to a call.
func (h *holder) receive(c call, a *ask, life int, r reply) {
	if wait := h.paused - h.w.Now; wait > 0 {
		h.w.after(wait, func() { h.receive(c, a, life, r) })
		return
	}
	if a.done || life != h.life {
		h.w.ref.lostReply(c, r)
		return
	}
	a.done = true
	if r.epoch > 0 {
		h.epoch = r.epoch
	}
	if a.group {
		h.applyGroup(a, r)
	} else {
		h.apply(a, r.grants[0])
	}
	for _, e := range a.entries {
		if e.ask == a {
			e.ask = nil
		}
		e.reporting = false
	}
	for _, e := range a.entries {
		h.again(e)
	}
}

// apply admits who waited, in order, and keeps the rest.
func (h *holder) apply(a *ask, g grant) {
	e, left := a.entries[0], g.Granted
	var rest []*request
	for _, r := range a.waiters {
		cost := r.costOf(e)
		switch {
		case r.done:
		case g.Status == lease.Unavailable:
			h.fail(r)
		case g.StartsIn == 0 && cost <= left:
			left -= cost
			h.w.ref.admitWaiter(h, e, g, cost)
			h.finish(r, true)
		default:
			rest = append(rest, r)
		}
	}
	h.keep(e, a, 0, g, left)
	e.queue = append(rest, e.queue...)
}

// applyGroup admits the one request if all was granted.
func (h *holder) applyGroup(a *ask, r reply) {
	req := a.waiters[0]
	all, failed := !req.done, false
	for i, g := range r.grants {
		all = all && g.Granted >= a.wants[i].Need
		failed = failed || g.Status == lease.Unavailable
	}
	for i, g := range r.grants {
		spare := g.Granted
		if all {
			spare -= a.wants[i].Need
			h.w.ref.admitWaiter(h, a.entries[i], g, a.wants[i].Need)
		}
		h.keep(a.entries[i], a, i, g, spare)
	}
	switch {
	case req.done:
	case all:
		h.admit(req)
	case failed:
		h.fail(req)
	default:
		h.untake(req)
		h.refuse(req)
	}
}

// keep applies a grant to its slot and gives back what finds no room there.
func (h *holder) keep(e *entry, a *ask, i int, g grant, spare int64) {
	if h.slots[e.key] != e {
		h.w.ref.vanished(e.key, spare)
		return
	}
	before := e.slot
	h.w.ref.arrived(h, e, a.sent, g, spare)
	if h.w.Fault == SpendsEarly {
		g.StartsIn = 0
	}
	if a.group && g.Status == lease.OK && g.Granted == 0 {
		e.slot.PassOver(&e.rule.Terms, h.now(), a.sent, a.wants[i], g.Grant)
		return
	}
	part := e.slot.Apply(&e.rule.Terms, h.now(), a.sent, a.wants[i], g.Grant, spare, h.w.jitter())
	if h.w.Fault == MergesLots && part.Units == 0 && spare > 0 && before.Available(h.now()) > 0 {
		mergeLots(&e.slot)
	}
	if g.Status == lease.Denied && (g.Remaining == 0 || a.wants[i].Need > 0) {
		h.w.ref.denied(h, e)
	}
	h.giveBack(e, part)
}

func mergeLots(s *lease.Account) {
	s.Lots[1].Units += s.Lots[0].Units
	s.Lots[0].Units = 0
}

// giveBack returns units that the slot has no place for.
func (h *holder) giveBack(e *entry, p lease.Part) {

	if p.Units == 0 {
		return
	}
	h.w.ref.left(h, e, p.Lease, p.Expiry, p.Units)
	h.send(&ask{entries: []*entry{e}, wants: []lease.Want{{Unused: p.Units, Lease: p.Lease}}, sent: h.now()})
}

// again decides anew on those who wait for an entry, and asks for the rest.
func (h *holder) again(e *entry) {
	queue := e.queue
	e.queue, e.holds, e.behind = nil, true, lease.NoAsk
	for _, r := range queue {
		if !r.done {
			h.decide(r)
		}
	}
	e.holds = false
	switch {
	case slices.ContainsFunc(e.queue, (*request).alone):
		h.askFor(e, lease.NoAsk)
	case e.behind != lease.NoAsk:
		h.askFor(e, e.behind)
	}
}

// tick tells what idle slots have to tell, ten times a second.
func (h *holder) tick() {
	now := h.now()
	for _, e := range h.entries {
		if e.ask != nil || e.reporting || now-e.slot.Asked < e.rule.Terms.Interval || h.w.Now < h.paused {
			continue
		}
		var some bool
		w := h.collect(e, func() lease.Want {
			var w lease.Want
			w, some = e.slot.Report(&e.rule.Terms, now)
			return w
		})
		if some {
			e.reporting = true
			a := &ask{entries: []*entry{e}, wants: []lease.Want{w}, sent: now}
			h.send(a)
			h.w.after(limit.Micros(e.rule.Terms.Timeout)*limit.Millisecond, func() { e.reporting = false })
		}
	}
	h.w.after(100*limit.Millisecond, h.tick)
}
