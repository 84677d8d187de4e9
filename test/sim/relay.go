package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// relay is a tier in the middle: it answers calls from leases of its own and asks
// above for what it has not. Its wants come one to a call.
type relay struct {
	w       *World
	name    string
	offset  limit.Micros
	who     uint64
	seq     uint64
	epoch   uint64 // of the tier above
	nodes   map[counterKey]*branch
	all     []*branch // of nodes, by age
	callers map[caller]*lease.Caller
}

// branch is a key at a relay.
type branch struct {
	rule    *Rule
	key     counterKey
	node    lease.Relay
	queue   []*kept // wants for now
	next    []*kept // wants for the next window
	ask     *relayAsk
	backing bool
	back    []passed // what children gave back
}

// passed is what a child gave back, to be passed on. arrived is called when that is answered.
type passed struct {
	want
	arrived func()
}

// kept is a child's want that waits for the tier above.
type kept struct {
	call   call
	want   lease.Want
	answer func(reply)
	done   bool
}

type relayAsk struct {
	branch  *branch
	want    lease.Want
	sent    lease.Millis
	waiters []*kept
	done    bool
}

func newRelay(w *World, n int) *relay {
	r := &relay{w: w, name: "r" + itoa(n), who: 1<<40 + uint64(n), nodes: map[counterKey]*branch{}, callers: map[caller]*lease.Caller{}}
	r.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
	if w.Steady {
		r.offset = 0
	}
	r.tick()
	return r
}

func (r *relay) now() lease.Millis { return lease.Millis((r.w.Now + r.offset) / limit.Millisecond) }

func (r *relay) virtual(t lease.Millis) limit.Micros {
	return limit.Micros(t)*limit.Millisecond - r.offset
}

// restart loses all leases and all that waits.
func (r *relay) restart() {
	r.w.tracef("%s restarts", r.name)
	r.w.ref.forgetful()
	for _, b := range r.all {
		r.w.ref.vanished(b.key, unitsOf(&b.node.Account))
		b.queue, b.next, b.ask, b.node = nil, nil, nil, lease.Relay{}
	}
	r.who += 1 << 32
	r.seq, r.epoch = 0, 0
	r.nodes, r.all = map[counterKey]*branch{}, nil
	r.callers = map[caller]*lease.Caller{}
}

func (r *relay) handle(c call, answer func(reply)) {
	if r.w.Fault != AppliesTwice && !r.w.accepts(r.name, r.callers, c) {
		answer(reply{epoch: 1, grants: []grant{{Grant: lease.Grant{Status: lease.Unavailable}}}})
		return
	}
	wt := c.wants[0]
	b := r.branch(wt)
	defer r.passBack(b)
	if wt.Unused > 0 {
		r.takeIn(b, c, wt)
		wt.Unused = 0
	}
	if wt.Overdrawn > 0 {
		answer = r.passDebt(b, wt, answer)
	}
	before := b.node.Account
	g, verdict, back := b.node.Acquire(&wt.rule.Terms, r.now(), wt.Want)
	r.w.ref.conserved(r, b, unitsOf(&before), g.Granted+back.Units)
	r.giveBack(b, back)
	if verdict == lease.Wait {
		k := &kept{call: c, want: wt.Want, answer: answer}
		if wt.Next {
			b.next = append(b.next, k)
		} else {
			b.queue = append(b.queue, k)
		}
		r.w.after(limit.Micros(wt.rule.Terms.Timeout)*limit.Millisecond, func() { k.reply(grant{Grant: lease.Grant{Status: lease.Unavailable}}) })
		r.ask(b, lease.NoAsk)
		return
	}
	gr := r.stamp(b, before, g)
	answer(reply{epoch: 1, grants: []grant{gr}})
	if behind := b.node.Top(&wt.rule.Terms, r.now()); behind != lease.NoAsk {
		r.ask(b, behind)
	}
}

// stamp adds what the referee needs of a grant that was cut from a lot: when the
// lots of its lease begin and end.
func (r *relay) stamp(b *branch, before lease.Account, g lease.Grant) grant {
	gr := grant{Grant: g, charged: r.w.Now, from: r.w.Now}
	for _, lot := range before.Lots {
		if lot.Lease == g.Lease && !lot.Local {
			gr.until = max(gr.until, r.virtual(lot.Expiry))
			if g.StartsIn > 0 {
				gr.from = r.virtual(lot.From)
			}
		}
	}
	if r.w.Fault == OutlivesParent {
		gr.TTL *= 3
	}
	return gr
}

func (k *kept) reply(g grant) {
	if !k.done {
		k.done = true
		k.answer(reply{epoch: 1, grants: []grant{g}})
	}
}

func (r *relay) branch(wt want) *branch {
	if b := r.nodes[wt.key]; b != nil {
		return b
	}
	b := &branch{rule: wt.rule, key: wt.key}
	r.nodes[wt.key] = b
	r.all = append(r.all, b)
	return b
}

// ask sends what waits above, one call at a time.
func (r *relay) ask(b *branch, behind lease.Asks) {
	if b.ask != nil {
		return
	}
	a := &relayAsk{branch: b, sent: r.now()}
	a.waiters, b.queue = waiting(b.queue), nil
	if len(a.waiters) == 0 && behind == lease.NoAsk {
		a.waiters, b.next = waiting(b.next), nil
	}
	if len(a.waiters) == 0 && behind == lease.NoAsk {
		return
	}
	wants := make([]lease.Want, len(a.waiters))
	for i, k := range a.waiters {
		wants[i] = k.want
	}
	before := unitsOf(&b.node.Account)
	a.want = b.node.Ask(&b.rule.Terms, r.now(), wants, behind)
	r.w.ref.conserved(r, b, before, a.want.Unused)
	b.ask = a
	up, arrived := b.attach(want{rule: b.rule, key: b.key, Want: a.want, owner: r.who})
	r.sendWant(up, func(rep reply) {
		arrived()
		r.receive(a, rep)
	})
	r.w.after(limit.Micros(b.rule.Terms.Timeout)*limit.Millisecond, func() {
		if b.ask == a {
			b.ask = nil
			r.ask(b, lease.NoAsk)
		}
	})
}

func waiting(queue []*kept) (still []*kept) {
	for _, k := range queue {
		if !k.done {
			still = append(still, k)
		}
	}
	return still
}

// unitsOf is what a slot holds, spendable or not.
func unitsOf(s *lease.Account) (n int64) {
	for _, lot := range s.Lots {
		if !lot.Local {
			n += lot.Units
		}
	}
	return n
}

// passDebt tells a child's debt above, under the child's name. The child is answered
// when that is, or too late.
func (r *relay) passDebt(b *branch, wt want, answer func(reply)) func(reply) {
	var rep *reply
	var above lease.Grant
	told, paid := false, false
	done := func() {
		if rep == nil || !told {
			return
		}
		for i := range rep.grants {
			rep.grants[i].StillOwed = !paid
			if paid {
				b.node.Told(&b.rule.Terms, r.now(), above)
				rep.grants[i].Grant = b.rule.Terms.AfterDebt(rep.grants[i].Grant, above)
			}
		}
		answer(*rep)
	}
	heard := func(g lease.Grant) {
		if !told {
			told, paid, above = true, g.Status == lease.OK || g.Status == lease.Denied, g
			done()
		}
	}
	debt := want{rule: b.rule, key: b.key, owner: wt.owner, Want: lease.Want{Overdrawn: wt.Overdrawn, Debt: wt.Debt}}
	r.sendWant(debt, func(rep reply) { heard(rep.grants[0].Grant) })
	r.w.after(limit.Micros(wt.rule.Terms.Timeout)*limit.Millisecond, func() { heard(lease.Grant{Status: lease.Unavailable}) })
	return func(r reply) {
		if rep == nil {
			rep = &r
			done()
		}
	}
}

func (r *relay) send(b *branch, w lease.Want, deliver func(reply)) {
	r.sendWant(want{rule: b.rule, key: b.key, Want: w, owner: r.who}, deliver)
}

func (r *relay) sendWant(wt want, deliver func(reply)) {
	r.seq++
	r.w.ref.sent(wt)
	who := r.who
	c := call{from: r.name, who: who, epoch: r.epoch, seq: r.seq, wants: []want{wt}}
	r.w.send(c, r.w.granter, func(rep reply) {
		if who != r.who {
			r.w.ref.lostReply(c, rep)
			return
		}
		r.epoch = max(r.epoch, rep.epoch)
		deliver(rep)
	})
}

func (r *relay) receive(a *relayAsk, rep reply) {
	b, g := a.branch, rep.grants[0]
	if a.done {
		r.w.ref.vanished(b.key, g.Granted)
		return
	}
	a.done = true
	still := waiting(a.waiters)
	wants, grants := make([]lease.Want, len(still)), make([]lease.Grant, len(still))
	for i, k := range still {
		wants[i] = k.want
	}
	before := unitsOf(&b.node.Account) + g.Granted
	back := b.node.Apply(&b.rule.Terms, r.now(), a.sent, a.want, g.Grant, r.w.jitter(), wants, grants)
	handed := back.Units
	for _, g := range grants {
		handed += g.Granted
	}
	r.w.ref.conserved(r, b, before, handed)
	r.w.ref.within(r.name, b.key, g, r.virtual(a.sent+g.TTL))
	r.giveBack(b, back)
	for i, k := range still {
		if grants[i].Status == lease.Denied && b.node.Retries(&b.rule.Terms, r.now(), k.want) {
			b.queue = append(b.queue, k)
			continue
		}
		k.reply(r.stampShare(a, b, g, grants[i]))
	}
	if b.ask == a {
		b.ask = nil
	}
	r.ask(b, lease.NoAsk)
}

// stampShare adds what the referee needs of a grant that came with the reply to
// the relay's own ask, or from an older lot that it had left.
func (r *relay) stampShare(a *relayAsk, b *branch, above grant, g lease.Grant) grant {
	until := r.virtual(a.sent + above.TTL)
	if g.Lease == above.Lease && g.TTL == max(0, a.sent+above.TTL-r.now()-1) {
		return grant{Grant: g, charged: above.charged, from: above.from, until: until}
	}
	return grant{Grant: g, charged: r.w.Now, from: r.w.Now, until: r.virtual(r.now() + g.TTL + 1)}
}

// giveBack returns units that the node has no place for. They count as on their way
// until that is answered, or too late.
func (r *relay) giveBack(b *branch, p lease.Part) {
	if p.Units > 0 {
		up := want{rule: b.rule, key: b.key, owner: r.who, Want: lease.Want{Unused: p.Units, Lease: p.Lease}}
		r.pass(b, passed{up, r.underway(b, p.Units)})
	}
}

// underway counts units as on their way until arrived is called, or it is too late.
func (r *relay) underway(b *branch, units int64) (arrived func()) {
	b.node.Back += units
	underway := true
	arrived = func() {
		if underway {
			underway = false
			b.node.Back = max(0, b.node.Back-units) // the node may be another since
		}
	}
	r.w.after(limit.Micros(b.rule.Terms.Timeout)*limit.Millisecond, arrived)
	return arrived
}

func (r *relay) pass(b *branch, up passed) {
	r.sendWant(up.want, func(rep reply) {
		up.arrived()
		b.node.Told(&b.rule.Terms, r.now(), rep.grants[0].Grant)
	})
}

// takeIn notes what a child gives back, under its name: not the relay, only the granter can
// tell whether another relay got a copy of the call.
func (r *relay) takeIn(b *branch, c call, wt want) {
	up := want{rule: b.rule, key: b.key, owner: r.who, lie: wt.lie, Want: lease.Want{Unused: wt.Unused, Lease: wt.Lease}}
	if wt.lie {
		r.sendWant(up, func(reply) {})
		return
	}
	if !wt.copy {
		r.w.ref.reached(wt)
	}
	up.returned = []returned{{returnID{c.caller(), c.seq, 0}, wt.Unused, wt.copy}}
	b.back = append(b.back, passed{up, r.underway(b, wt.Unused)})
}

// attach puts what a child gave back into a want for the granter: of one lease.
func (b *branch) attach(wt want) (with want, arrived func()) {
	for i, up := range b.back {
		if wt.Unused == 0 || wt.Lease == up.Lease {
			wt.Unused, wt.Lease, wt.returned = wt.Unused+up.Unused, up.Lease, up.returned
			b.back = slices.Delete(b.back, i, i+1)
			return wt, up.arrived
		}
	}
	return wt, func() {}
}

// passBack sends the rest of what children gave back.
func (r *relay) passBack(b *branch) {
	for _, up := range b.back {
		r.pass(b, up)
	}
	b.back = nil
}

// tick tells above what idle nodes have to tell.
func (r *relay) tick() {
	now := r.now()
	for _, b := range r.all {
		if b.ask != nil || b.backing || now-b.node.Account.Asked < b.rule.Terms.Interval {
			continue
		}
		if w, some := b.node.Account.Report(&b.rule.Terms, now); some {
			b.backing = true
			sent := now
			r.send(b, w, func(rep reply) {
				b.backing = false
				b.node.Account.Apply(&b.rule.Terms, r.now(), sent, w, rep.grants[0].Grant, 0, 100)
			})
			r.w.after(limit.Micros(b.rule.Terms.Timeout)*limit.Millisecond, func() { b.backing = false })
		}
	}
	r.w.after(100*limit.Millisecond, r.tick)
}
