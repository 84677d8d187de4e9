package world

import (
	"context"

	"github.com/weirlimit/weir/internal/limit"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// flight is a call of a PoP on its way to a service: the bytes of the wire.
type flight struct {
	p      *PoP
	worker int
	life   uint64
	edgecalls.Call
	done bool // the worker has an answer, or does not wait for one any more
}

// flight is a call that a worker wants made.
func (p *PoP) flight(worker int, c *edgecalls.Call) *flight {
	return &flight{p: p, worker: worker, life: p.life, Call: *c}
}

// leave sends a call when its worker comes to it. When the PoP gives up it resets the
// stream.
func (f *flight) leave() {
	p, w := f.p, f.p.w
	c := &call{link: p.Link, ctx: context.Background(), named: true, serve: f.serve, arrive: func(c *call) { p.receive(f, c) }}
	hangUp := func() {}
	if w.mail.on {
		c.ctx, hangUp = context.WithCancel(c.ctx)
	}
	w.After(limit.Micros(f.Timeout)*limit.Millisecond, func() {
		if f.done {
			hangUp()
			return
		}
		if w.mail.on {
			w.After(p.Link.net.Delay, func() { w.mail.stirred = true; hangUp() })
		}
		p.giveUp(f)
	})
	w.held(func() { p.Link.send(c) })
}

// serve has a service answer a flight.
func (f *flight) serve(c *call, by *life) bool {
	return by.serves(c, f.Path, int64(f.Timeout), f.Body)
}

// receive takes the answer to a call, the first one.
func (p *PoP) receive(f *flight, c *call) {
	if f.done || f.life != p.life {
		return
	}
	f.done = true
	p.workers[f.worker].Reply(p.now(), f.ID, c.body)
	p.finish(f.worker)
}

// giveUp ends a call that nobody answered in time.
func (p *PoP) giveUp(f *flight) {
	if f.done || f.life != p.life {
		return
	}
	f.done = true
	p.workers[f.worker].Failed(p.now(), f.ID, edgecalls.CallTimedOut)
	p.finish(f.worker)
}
