package world

import (
	"context"

	"github.com/weirlimit/weir/internal/limit"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// Flight is a call of a PoP, of which copies may be on their way to a service: the bytes of the wire.
type Flight struct {
	PoP    *PoP
	Worker int
	Done   bool // the worker has an answer, or does not wait for one any more
	edgecalls.Call
	life  uint64
	aside bool // no worker ever waited
}

// flight is a call that a worker wants made.
func (p *PoP) flight(worker int, c *edgecalls.Call) *Call {
	f := &Flight{PoP: p, Worker: worker, life: p.Life, Call: *c}
	made := f.call()
	p.w.passes(made, Made)
	return made
}

// Call makes a call that no worker waits for.
func (p *PoP) Call(c edgecalls.Call, notes any) {
	f := &Flight{PoP: p, life: p.Life, Call: c, Done: true, aside: true}
	made := f.call()
	made.Notes = notes
	p.leave(made)
}

func (f *Flight) call() *Call {
	return &Call{Link: f.PoP.Link, Flight: f, Body: f.Body, ctx: context.Background(), serve: served, arrive: received}
}

// leave sends a call when its worker comes to it. When the PoP gives up it resets the
// stream.
func (p *PoP) leave(c *Call) {
	f, w, hangUp := c.Flight, p.w, context.CancelFunc(nil)
	if w.mail.on {
		c.ctx, hangUp = context.WithCancel(c.ctx)
	}
	w.After(limit.Micros(f.Timeout)*limit.Millisecond, func() {
		if f.Done && !f.aside {
			return
		}
		if w.mail.on {
			w.After(p.Link.net.Delay, func() { w.mail.stirred = true; hangUp() })
		}
		p.Awake(func() { p.giveUp(f) })
	})
	w.passes(c, Leaves)
	w.held(c)
}

// served has a service answer a call of a PoP.
func served(c *Call, by *Life) bool {
	return by.serves(c, c.Flight.Path, int64(c.Flight.Timeout))
}

// received takes the answer to a call of a PoP, the first one.
func received(c *Call) {
	p := c.Flight.PoP
	p.Awake(func() { p.receive(c) })
}

func (p *PoP) receive(c *Call) {
	p.w.passes(c, Arrives)
	f := c.Flight
	if f.Done || f.life != p.Life {
		p.w.passes(c, Missed)
		return
	}
	f.Done = true
	p.w.passes(c, Received)
	p.Workers[f.Worker].Reply(p.Now(), f.ID, c.Reply)
	p.finish(f.Worker)
}

// giveUp ends a call that nobody answered in time.
func (p *PoP) giveUp(f *Flight) {
	if f.Done || f.life != p.Life {
		return
	}
	f.Done = true
	p.Workers[f.Worker].Failed(p.Now(), f.ID, edgecalls.CallTimedOut)
	p.finish(f.Worker)
}
