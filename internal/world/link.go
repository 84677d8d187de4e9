package world

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Net is what happens to messages between a tier and the one above.
type Net struct {
	Delay     limit.Micros // one way, at least
	Spread    limit.Micros // and up to so much more, so that messages overtake
	LoseCall  float64      // probabilities
	LoseReply float64
	Repeat    float64 // a call of a PoP arrives twice, and both are answered
}

// Link is the way from a holder of leases to the tier above it.
type Link struct {
	Cut  bool // no call arrives
	Deaf bool // no answer arrives

	w     *World
	net   *Net
	from  string // the holder
	above *tier

	address string // where it calls from
}

// call is a message on its way up a link, and its answer on the way down.
type call struct {
	link   *Link
	named  bool            // it is one of a PoP, which the tier recognizes
	ctx    context.Context // ends when the sender has hung up
	serial uint64          // of all that came to any tier

	// serve has a tier answer: it fills in body or grants. It may run in a goroutine of its own. False: the
	// call is refused.
	serve  func(c *call, by *life) bool
	body   []byte
	code   int // of HTTP, with it
	grants []lease.Grant
	// arrive takes the answer at the sender.
	arrive func(c *call)
}

// newLink makes the way of a holder. It calls from an address of its own: a service bounds the holders
// of one address.
func newLink(w *World, net *Net, from string, above *tier) *Link {
	h := fnv.New32a()
	h.Write([]byte(from))
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], h.Sum32())
	address := netip.AddrPortFrom(netip.AddrFrom4(ip), 1).String()
	return &Link{w: w, net: net, from: from, address: address, above: above}
}

// send carries a call up: late, twice, out of order, or never.
func (l *Link) send(c *call) {
	if l.Cut || l.w.chance(l.net.LoseCall) {
		return
	}
	l.carry(c)
	if c.named && l.w.chance(l.net.Repeat) { // a store sends nothing twice
		l.carry(c)
	}
}

// carry brings one copy of a call to the tier above.
func (l *Link) carry(c *call) {
	copied := *c
	l.w.After(l.delay(), func() { l.above.handle(&copied) })
}

// reply carries an answer down.
func (l *Link) reply(c *call) {
	if l.Deaf || l.w.chance(l.net.LoseReply) {
		return
	}
	l.w.After(l.delay(), func() { c.arrive(c) })
}

// held does something as much later as a worker holds a call.
func (w *World) held(send func()) {
	if w.config.Hold == 0 {
		send()
		return
	}
	w.After(limit.Millisecond+limit.Micros(w.rand.Int64N(int64(w.config.Hold-limit.Millisecond))), send)
}

func (l *Link) delay() limit.Micros {
	d := l.net.Delay
	if l.net.Spread > 0 {
		d += limit.Micros(l.w.rand.Int64N(int64(l.net.Spread)))
	}
	return d
}
