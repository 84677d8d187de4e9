package sim

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// flight is a call of a PoP on its way to a service: the bytes of the wire.
type flight struct {
	p       *pop
	worker  int
	life    uint64
	id      uint64 // of the call, at its worker
	path    string
	body    []byte
	req     wire.Request // what body holds, of a call of Acquire
	items   []item       // its wants
	sent    lease.Millis
	timeout lease.Millis
	done    bool // the worker has an answer, or does not wait for one any more
	aside   bool // no worker waits for it: a copy, a lie
}

// flight is a call that a worker wants made.
func (p *pop) flight(worker int, c *edge.Call) *flight {
	f := &flight{p: p, worker: worker, life: p.life, id: c.ID, path: c.Path, body: c.Body, sent: p.now(), timeout: c.Timeout}
	if f.acquires() {
		f.req = decodeRequest(c.Body)
		p.newest[worker] = f
		if spoil := p.w.Fault.calls; spoil != nil {
			spoil(p, &f.req)
			f.body = f.req.Append(nil)
		}
		f.items = p.w.items(f.req.Wants)
		p.gives(f.items)
	}
	return f
}

// acquires reports a call for leases; others fetch rules.
func (f *flight) acquires() bool { return f.path == edge.AcquirePath }

// leave sends a call when its worker comes to it. When the PoP gives up it resets the
// stream.
func (f *flight) leave() {
	p, w := f.p, f.p.w
	ctx, cancel := context.WithCancel(context.Background())
	w.after(limit.Micros(f.timeout)*limit.Millisecond, func() {
		if f.done && !f.aside {
			return
		}
		if w.mail.on {
			w.after(p.link.net.Delay, func() { w.mail.stirred = true; cancel() })
		}
		p.giveUp(f)
	})
	c := &call{link: p.link, aside: f.aside, ctx: ctx, serve: f.serve, arrive: func(c *call) { p.receive(f, c) }}
	if f.acquires() {
		c.items, c.name = f.items, callName{string(f.holder()), f.req.Worker, f.req.Seq}
	}
	if !f.aside {
		w.ref.sent(c)
	}
	w.held(func() { p.link.send(c) })
	if !f.acquires() || f.aside {
		return
	}
	if again := w.Fault.sent; again != nil {
		again(f)
	}
	if p.liar {
		f.lies()
	}
}

// serve has a service answer a flight.
func (f *flight) serve(c *call, by *life) bool {
	body := f.body
	if spoil := f.p.w.Fault.served; spoil != nil && f.acquires() {
		m := decodeRequest(body)
		spoil(c.serial, &m)
		body = m.Append(nil)
	}
	return by.serves(c, f.path, int64(f.timeout), body)
}

// receive takes the answer to a call, the first one.
func (p *pop) receive(f *flight, c *call) {
	p.awake(func() {
		body := c.body
		if stale := p.w.Fault.late; stale != nil && f.done {
			f, body = stale(p, f, body)
		}
		if f.done || f.life != p.life {
			p.w.ref.lostReply(c)
			return
		}
		f.done = true
		if spoil := p.w.Fault.replies; spoil != nil && f.acquires() {
			m := decodeResponse(body)
			spoil(&m)
			body = m.Append(nil)
		}
		p.arrived(f.sent, c.items)
		p.workers[f.worker].Reply(p.now(), f.id, body)
		p.finish(f.worker)
	})
}

// giveUp ends a call that nobody answered in time.
func (p *pop) giveUp(f *flight) {
	p.awake(func() {
		if f.done || f.life != p.life {
			return
		}
		f.done = true
		p.workers[f.worker].Failed(p.now(), f.id, edge.CallTimedOut)
		p.finish(f.worker)
	})
}

// lies follows a call of a PoP that lies: it reports that units come back which nobody ever
// had, of leases that it had and of others; that it owes what nobody admitted, by rules by which
// nobody can owe anything; it shows the epoch of a life that never was.
func (f *flight) lies() {
	p, w := f.p, f.p.w
	if w.chance(0.3) {
		lie := f.apart()
		for i, m := range f.req.Wants {
			r := w.rules.find(m.Rule)
			l := p.entry(r.counter(string(m.Key))).Lots[w.rand.IntN(2)].Lease
			if w.chance(0.3) {
				l += uint32(w.rand.IntN(3))
			}
			units := pick(w.rand, wire.MaxUnits, 1<<31, 2*r.Terms.Capacity+1)
			lie.add(m, units, r.Limit.Fingerprint(), l)
			w.ref.lies.add(engine.ReturnID(lie.holder(), lie.req.Worker, lie.req.Seq, i))
		}
		lie.fly()
	}
	if w.chance(0.2) {
		debt := f.apart()
		for _, m := range f.req.Wants {
			if r := w.rules.find(m.Rule); r.Terms.MaxDebt(r.OnFailure) == 0 {
				debt.add(m, 0, 0, 0)
				owed := &debt.req.Wants[len(debt.req.Wants)-1].Want
				owed.Overdrawn, owed.Debt = pick(w.rand, int64(1), wire.MaxUnits), w.rand.Uint64()
			}
		}
		debt.fly()
	}
	if w.chance(0.1) {
		empty := f.apart()
		empty.req.Epoch = w.rand.Uint64()
		for _, m := range f.req.Wants {
			empty.add(m, 0, 0, 0)
		}
		empty.fly()
	}
}

// apart is another call of the same PoP, without wants, that no worker has made.
func (f *flight) apart() *flight {
	again := &flight{p: f.p, life: f.life, path: f.path, sent: f.sent, timeout: f.timeout, done: true, aside: true}
	again.req = decodeRequest(f.body)
	again.req.Wants = nil
	f.p.apart++
	again.req.Seq, again.req.Ack, again.req.Worker = f.p.apart, 0, 1
	binary.LittleEndian.PutUint64(again.req.Holder[8:], 1)
	return again
}

// add puts a want for the same counter as m into such a call.
func (f *flight) add(m wire.Want, units int64, shape, id uint32) {
	f.req.Wants = append(f.req.Wants, wire.Want{
		Rule: m.Rule, Variant: m.Variant, Override: m.Override, Key: m.Key, Shape: shape, Want: lease.Want{Unused: units, Lease: id},
	})
}

// fly sends such a call.
func (f *flight) fly() {
	f.body, f.items = f.req.Append(nil), f.p.w.items(f.req.Wants)
	f.leave()
}

// holder is the name of the PoP as a service reads it.
func (f *flight) holder() []byte {
	id := slices.Clone(f.req.Holder)
	clear(id[8:])
	return id
}

func decodeRequest(body []byte) (m wire.Request) {
	if err := m.Decode(slices.Clone(body)); err != nil {
		panic(err)
	}
	return m
}

func decodeResponse(body []byte) (m wire.Response) {
	if err := m.Decode(body); err != nil {
		panic(err)
	}
	return m
}
