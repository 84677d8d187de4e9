package sim

import (
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// Net is what happens to messages between a tier and the one above.
type Net struct {
	Delay     limit.Micros // one way, at least
	Spread    limit.Micros // and up to so much more, so that messages overtake
	LoseCall  float64      // probabilities
	LoseReply float64
	Repeat    float64 // a PoP's call arrives twice, and both are answered
	Double    float64 // a PoP's call that gives back arrives at another replica, too
}

// flight is a call of a PoP on its way.
type flight struct {
	p       *pop
	worker  int
	life    uint64
	id      uint64 // of the call, at its worker
	path    string
	body    []byte
	req     wire.Request // what body holds, of a call of Acquire
	sent    lease.Millis
	timeout lease.Millis
	done    bool // the worker has an answer, or does not wait for one any more
	aside   bool // no worker waits for it: a copy, a lie
}

// reply is an answer on its way, with what only the referee reads.
type reply struct {
	body   []byte
	resp   wire.Response
	stamps []stamp // of each grant
}

// flight is a call that a worker wants made.
func (p *pop) flight(worker int, c *edge.Call) *flight {
	f := &flight{p: p, worker: worker, life: p.life, id: c.ID, path: c.Path, body: c.Body, sent: p.now(), timeout: c.Timeout}
	if c.Path == edge.AcquirePath {
		f.req = decodeRequest(c.Body)
		p.newest[worker] = f
		p.spoilCall(f)
		for i := range f.req.Wants {
			p.gives(&f.req.Wants[i])
		}
	}
	return f
}

// leave sends a call when its worker comes to it.
func (f *flight) leave() {
	p, w := f.p, f.p.w
	w.ref.sent(f)
	if !f.aside {
		w.after(limit.Micros(f.timeout)*limit.Millisecond, func() { p.giveUp(f) })
	}
	if p.cut {
		w.tracef("%s → cut off", p.name)
		w.ref.lostCall(f)
		return
	}
	w.held(func() { f.send(p.above) })
	if f.aside || f.path != edge.AcquirePath {
		return
	}
	f.double()
	f.giveBackAgain()
	if p.liar {
		f.lies()
	}
}

// held does something as much later as a worker holds a call.
func (w *World) held(send func()) {
	if w.Hold == 0 {
		send()
		return
	}
	w.after(limit.Millisecond+limit.Micros(w.rand.Int64N(int64(w.Hold-limit.Millisecond))), send)
}

// double brings a copy of a call that gives units back to another replica, if there is
// one. What a copy is granted is lost: others would hide what those mint.
func (f *flight) double() {
	w := f.p.w
	gives := slices.ContainsFunc(f.req.Wants, func(m wire.Want) bool { return m.Unused > 0 })
	if len(w.replicas) < 2 || !gives || !w.chance(w.Net.Double) {
		return
	}
	if other := w.replicas[w.rand.IntN(len(w.replicas))]; other != f.p.above {
		copied := *f
		copied.aside, copied.done = true, true
		w.held(func() { copied.carry(other) })
	}
}

// send carries a call up and its reply down: late, twice, out of order, or never.
func (f *flight) send(to *replica) {
	w := f.p.w
	for i := range f.req.Wants {
		w.tracef("%s → %s", f.p.name, w.showWant(&f.req.Wants[i]))
	}
	if w.chance(w.Net.LoseCall) {
		w.tracef("%s → lost", f.p.name)
		w.ref.lostCall(f)
		return
	}
	f.carry(to)
	if f.path == edge.AcquirePath && w.chance(w.Net.Repeat) {
		w.tracef("%s → repeated", f.p.name)
		f.carry(to)
	}
}

// carry brings a call to a replica. When the PoP gives up, it resets the stream.
func (f *flight) carry(to *replica) {
	w := f.p.w
	w.after(w.delay(), func() {
		ctx, cancel := context.Background(), func() {}
		if w.mail.on {
			ctx, cancel = context.WithCancel(ctx)
			w.after(f.p.virtual(f.sent+f.timeout)-w.now+w.Net.Delay, func() { w.mail.stirred = true; cancel() })
		}
		to.handle(ctx, f, func(r reply) { cancel(); f.bring(r) })
	})
}

func (f *flight) bring(r reply) {
	w := f.p.w
	if w.chance(w.Net.LoseReply) {
		if f.path == edge.AcquirePath {
			w.tracef("%s ← lost", f.p.name)
		}
		w.ref.lostReply(f, r)
		return
	}
	w.after(w.delay(), func() {
		for i := range r.resp.Grants {
			w.tracef("%s ← %s", f.p.name, w.showGrant(w.rules.of(f.req.Wants[i].Rule, f.req.Wants[i].Key), bridge.GrantFromWire(&r.resp.Grants[i], bridge.LongestDuration)))
		}
		f.p.receive(f, r)
	})
}

func (w *World) delay() limit.Micros {
	d := w.Net.Delay
	if w.Net.Spread > 0 {
		d += limit.Micros(w.rand.Int64N(int64(w.Net.Spread)))
	}
	return d
}
