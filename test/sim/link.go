package sim

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Net is what happens to messages between a tier and the one above.
type Net struct {
	Delay     limit.Micros // one way, at least
	Spread    limit.Micros // and up to so much more, so that messages overtake
	LoseCall  float64      // probabilities
	LoseReply float64
	Repeat    float64 // a call of a service arrives twice, and both are answered
}

// call is a message on its way up a link, and its answer on the way down.
type call struct {
	link   *link
	items  []item
	name   callName        // of a call of a service
	aside  bool            // what it gives back has been counted: a copy, a lie
	ctx    context.Context // ends when the sender has hung up
	since  limit.Micros    // when it came to the tier that answers it
	serial uint64          // of all that came to any tier

	// serve has a tier answer: it fills in the grants, and body if the answer travels as
	// bytes. It may run in a goroutine of its own. False: the call is refused.
	serve    func(c *call, by *life) bool
	body     []byte
	code     int  // of HTTP, with it
	accepted bool // by the service, as one that it has not seen
	// arrive takes the answer at the sender.
	arrive func(c *call)
}

// callName distinguishes the calls of a service. The zero value is that of a call of a store.
type callName struct {
	holder      string
	worker, seq uint64
}

// item is one want of a call and its grant, as the referee reads them.
type item struct {
	key   counterKey
	group uint32
	slots bool // of a limit of concurrency: nothing is leased for a period
	want  lease.Want
	grant lease.Grant
	stamp stamp // of what was granted
}

// itemOf is an ask of a store as an item.
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

// link is the way from a holder of leases to the tier above it.
type link struct {
	w     *World
	net   *Net
	from  string // the holder
	above *tier
	cut   bool // no call arrives
	deaf  bool // no answer arrives
}

// address is where the holder calls from. Each has one of its own: a service bounds the
// holders of one address.
func (l *link) address() string {
	h := fnv.New32a()
	h.Write([]byte(l.from))
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], h.Sum32())
	return netip.AddrPortFrom(netip.AddrFrom4(ip), 1).String()
}

// cutFor cuts the link for so long: for calls, for answers or for both.
func (l *link) cutFor(d limit.Micros) {
	way := l.w.rand.IntN(3)
	l.cut, l.deaf = way != 0, way != 1
	l.w.after(d, func() { l.cut, l.deaf = false, false })
}

// send carries a call up: late, twice, out of order, or never.
func (l *link) send(c *call) {
	w := l.w
	switch {
	case len(c.items) == 0: // asks whether there is an answer
	case c.name == (callName{}):
		w.Calls.Caches++
	default:
		w.Calls.PoPs++
	}
	if l.cut {
		w.tracef("%s → cut off", l.from)
		w.ref.lostCall(c)
		return
	}
	for i := range c.items {
		w.tracef("%s → %s", l.from, w.showWant(&c.items[i]))
	}
	if w.chance(l.net.LoseCall) {
		w.tracef("%s → lost", l.from)
		w.ref.lostCall(c)
		return
	}
	l.carry(c, l.above)
	if c.name == (callName{}) {
		return // a store sends nothing twice
	}
	if w.chance(l.net.Repeat) {
		w.tracef("%s → repeated", l.from)
		l.carry(c, l.above)
	}
}

// carry brings one copy of a call to a tier.
func (l *link) carry(c *call, to *tier) {
	copied := *c
	copied.items = slices.Clone(c.items)
	l.w.after(l.delay(), func() { to.handle(&copied) })
}

// reply carries an answer down.
func (l *link) reply(c *call) {
	w := l.w
	if l.deaf || w.chance(l.net.LoseReply) {
		if len(c.items) > 0 {
			w.tracef("%s ← lost", l.from)
		}
		w.ref.lostReply(c)
		return
	}
	w.after(l.delay(), func() {
		for i := range c.items {
			w.tracef("%s ← %s", l.from, w.showGrant(&c.items[i]))
		}
		c.arrive(c)
	})
}

// held does something as much later as a worker holds a call.
func (w *World) held(send func()) {
	if w.Hold == 0 {
		send()
		return
	}
	w.after(limit.Millisecond+limit.Micros(w.rand.Int64N(int64(w.Hold-limit.Millisecond))), send)
}

func (l *link) delay() limit.Micros {
	d := l.net.Delay
	if l.net.Spread > 0 {
		d += limit.Micros(l.w.rand.Int64N(int64(l.net.Spread)))
	}
	return d
}
