package sim

import (
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/wire"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
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
func (p *pop) flight(worker int, c *edgecalls.Call) *flight {
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
func (f *flight) acquires() bool { return f.path == edgecalls.AcquirePath }

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
		c.items, c.name = f.items, callName{string(f.req.Holder), f.req.Worker, f.req.Seq}
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
		p.workers[f.worker].Failed(p.now(), f.id, edgecalls.CallTimedOut)
		p.finish(f.worker)
	})
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
