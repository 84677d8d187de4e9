package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/world"
	edgecalls "github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// call is what the referee reads of a call on its way, or of a copy of it.
type call struct {
	*world.Call
	p        *pop         // nil: it is not one of a PoP for leases
	req      wire.Request // its body
	sent     lease.Millis
	items    []item
	name     callName     // of a call of a service
	aside    bool         // what it gives back has been counted: a copy, a lie
	since    limit.Micros // when it came to the tier that answers it
	accepted bool         // by the service, as one that it has not seen
}

// callName distinguishes the calls of a service. The zero value is that of a call of a tier.
type callName struct {
	holder      string
	worker, seq uint64
}

func nameOf(m *wire.Request) callName { return callName{string(m.Holder), m.Worker, m.Seq} }

// item is one want of a call and its grant, as the referee reads them.
type item struct {
	key   counterKey
	group uint32
	slots bool // of a limit of concurrency: nothing is leased for a period
	want  lease.Want
	grant lease.Grant
	stamp stamp // of what was granted
}

func itemOf(a *engine.Ask) item {
	return item{key: keyOf(a), group: a.Group, slots: a.Holder != 0, want: a.Want}
}

func keyOf(a *engine.Ask) counterKey {
	return counterKey{a.Policy.Rule, a.Policy.Limit.Shape(), string(a.Key)}
}

// back is what the sender gives back.
func (it *item) back() lot { return lot{leaseID{it.key, it.want.Lease}, it.want.Unused} }

// granted is what the grant adds to what the sender holds.
func (it *item) granted() lot {
	if it.slots {
		return lot{}
	}
	return lot{leaseID{it.key, it.grant.Lease}, it.grant.Granted}
}

// items are the wants of a call.
func (w *World) items(wants []wire.Want) []item {
	items := make([]item, len(wants))
	for i := range items {
		m := &wants[i]
		r := w.rules.find(m.Rule)
		items[i] = item{key: r.counter(string(m.Key)), group: m.Group, slots: r.slots(), want: m.For(r.Limit)}
	}
	return items
}

// Passes follows a call, and breaks it.
func (w *World) Passes(of *world.Call, at world.Stage) {
	if at == world.Made {
		of.Notes = w.made(of)
		return
	}
	c, _ := of.Notes.(*call)
	if at == world.Leaves {
		w.leaves(of, c)
		return
	}
	from := of.Link.From
	switch at {
	case world.CutOff, world.Lost, world.Carried:
		w.carried(c, at)
	case world.Repeated:
		w.tracef("%s → repeated", from)
	case world.Copied:
		copied := *c
		copied.Call, copied.items = of, slices.Clone(c.items)
		of.Notes = &copied
	case world.Comes:
		c.since = w.now()
		w.life(of.By).comes(c)
		if spoil := w.Fault.served; spoil != nil && c.p != nil {
			m := decodeRequest(of.Body)
			spoil(of.Serial, &m)
			of.Body = m.Append(nil)
		}
	case world.Answered:
		c.answered()
		w.life(of.By).answers(c)
	case world.ReplyLost:
		if len(c.items) > 0 {
			w.tracef("%s ← lost", from)
		}
		w.ref.lostReply(c)
	case world.Replied:
		w.trace(from, "←", c.items)
	case world.Missed:
		w.ref.lostReply(c)
	case world.Received:
		w.received(c)
	}
}

// made is a call that a worker wants made.
func (w *World) made(of *world.Call) *call {
	c := &call{Call: of}
	if of.Flight.Path != edgecalls.AcquirePath {
		return c // it fetches rules
	}
	p := w.pop(of.Flight.PoP)
	c.p, c.req, c.sent = p, decodeRequest(of.Body), p.Now()
	if spoil := w.Fault.calls; spoil != nil {
		spoil(p, &c.req)
		of.Body = c.req.Append(nil)
	}
	c.items, c.name = w.items(c.req.Wants), nameOf(&c.req)
	p.gives(c.items)
	return c
}

// leaves follows a call that a holder makes, which gives back what it names.
func (w *World) leaves(of *world.Call, c *call) {
	switch {
	case c != nil && c.aside:
		c.Call = of
		return
	case of.Flight != nil:
		w.ref.sent(c)
		if again := w.Fault.sent; again != nil && c.p != nil {
			w.after(0, func() { again(c) })
		}
		return
	}
	c = &call{Call: of}
	of.Notes = c
	for i := range of.Asks {
		c.items = append(c.items, itemOf(&of.Asks[i]))
	}
	if of.Asks == nil {
		c.items = w.items(decodeRequest(of.Body).Wants)
	}
	w.ref.sent(c)
	for i := range c.items {
		if back := c.items[i].back(); back.units > 0 {
			w.life(of.From).hands(back)
		}
	}
}

// carried counts a call on its way up, and follows whether it gets there.
func (w *World) carried(c *call, at world.Stage) {
	switch {
	case len(c.items) == 0: // asks whether there is an answer
	case c.name == (callName{}):
		w.Calls.Caches++
	default:
		w.Calls.PoPs++
		for i := range c.items {
			if c.items[i].want.Want > 0 {
				w.Calls.Asks++
			}
		}
	}
	if at == world.CutOff {
		w.tracef("%s → cut off", c.Link.From)
		w.ref.lostCall(c)
		return
	}
	w.trace(c.Link.From, "→", c.items)
	if at == world.Lost {
		w.tracef("%s → lost", c.Link.From)
		w.ref.lostCall(c)
	}
}

func (c *call) answered() {
	for i := range c.Asks {
		c.items[i].grant = c.Grants[i]
	}
	if len(c.items) > 0 && c.Asks == nil && c.Code == 200 {
		m := decodeResponse(c.Reply)
		for i := range c.items {
			c.items[i].grant = m.Grants[i].Bounded(wire.LongestDuration)
		}
	}
}

// received follows an answer that its holder gets.
func (w *World) received(c *call) {
	if c.From != nil {
		w.life(c.From).receives(c)
		return
	}
	if c.p == nil {
		return
	}
	if spoil := w.Fault.replies; spoil != nil {
		m := decodeResponse(c.Reply)
		spoil(&m)
		c.Reply = m.Append(nil)
	}
	c.p.arrived(c.sent, c.items)
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
