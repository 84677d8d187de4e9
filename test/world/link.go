package world

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Net is what happens to messages between a tier and its granter.
type Net struct {
	Delay     limit.Micros // one way, at least
	Spread    limit.Micros // and up to so much more, so that messages overtake
	LoseCall  float64      // probabilities
	LoseReply float64
	Repeat    float64 // a call of a PoP arrives twice, and both are answered
}

// Link is the way from a holder of leases to its granter.
type Link struct {
	From    string // the holder
	Granter *Tier
	Cut     bool // no call arrives
	Deaf    bool // no answer arrives

	w       *World
	net     *Net
	address string // where it calls from
}

// Call is a message on its way up a link, and its answer on the way down.
type Call struct {
	Link   *Link
	Flight *Flight       // nil: it is one of a tier
	From   *Life         // that tier's
	Asks   []engine.Ask  // of a call of a store
	Grants []lease.Grant // its answer
	Body   []byte        // of a call of a service; nil: it is one of a store
	Reply  []byte        // its answer
	Code   int           // of HTTP, with it
	By     *Life         // that answers it
	Serial uint64        // of all that came to any tier
	Notes  any           // the observer's

	ctx context.Context // ends when the sender has hung up
	// serve has a tier answer. It may run in a goroutine of its own. False: the call is rejected.
	serve func(c *Call, by *Life) bool
	// arrive takes the answer at the sender.
	arrive func(c *Call)
}

// newLink makes the way of a holder. It calls from an address of its own: a service bounds the holders
// of one address.
func newLink(w *World, net *Net, from string, granter *Tier) *Link {
	h := fnv.New32a()
	h.Write([]byte(from))
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], h.Sum32())
	address := netip.AddrPortFrom(netip.AddrFrom4(ip), 1).String()
	return &Link{w: w, net: net, From: from, address: address, Granter: granter}
}

// send carries a call up: late, twice, out of order, or never.
func (l *Link) send(c *Call) {
	w := l.w
	switch {
	case l.Cut:
		w.passes(c, CutOff)
		return
	case w.Chance(l.net.LoseCall):
		w.passes(c, Lost)
		return
	}
	w.passes(c, Carried)
	l.carry(c)
	if c.Flight != nil && w.Chance(l.net.Repeat) { // a store sends nothing twice
		w.passes(c, Repeated)
		l.carry(c)
	}
}

// carry brings one copy of a call to the granter.
func (l *Link) carry(c *Call) {
	copied := *c
	l.w.passes(&copied, Copied)
	l.w.After(l.delay(), func() { l.Granter.handle(&copied) })
}

// reply carries an answer down.
func (l *Link) reply(c *Call) {
	w := l.w
	if l.Deaf || w.Chance(l.net.LoseReply) {
		w.passes(c, ReplyLost)
		return
	}
	w.After(l.delay(), func() {
		w.passes(c, Replied)
		c.arrive(c)
	})
}

// held sends a call of a PoP as much later as a worker holds it.
func (w *World) held(c *Call) {
	if w.config.Hold == 0 {
		c.Link.send(c)
		return
	}
	w.After(limit.Millisecond+limit.Micros(w.Rand.Int64N(int64(w.config.Hold-limit.Millisecond))), func() { c.Link.send(c) })
}

func (l *Link) delay() limit.Micros {
	d := l.net.Delay
	if l.net.Spread > 0 {
		d += limit.Micros(l.w.Rand.Int64N(int64(l.net.Spread)))
	}
	return d
}
