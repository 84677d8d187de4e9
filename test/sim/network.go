package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Net is what happens to messages between a tier and the one above.
type Net struct {
	Delay     limit.Micros // one way, at least
	Spread    limit.Micros // and up to so much more, so that messages overtake
	LoseCall  float64      // probabilities
	LoseReply float64
	Repeat    float64 // a call arrives twice, and both are answered
	Double    float64 // a holder's call that gives back arrives at another relay, too
}

// double brings a copy of a call that gives units back to another tier in the middle, if
// there is one. (What a copy is granted is lost: others would hide what those mint.)
func (h *holder) double(c call) {
	w := h.w
	gives := slices.ContainsFunc(c.wants, func(wt want) bool { return wt.Unused > 0 })
	if len(w.relays) < 2 || !gives || !w.chance(w.Net.Double) {
		return
	}
	c.wants = slices.Clone(c.wants)
	for i := range c.wants {
		c.wants[i].copy = true
	}
	if other := w.relays[w.rand.IntN(len(w.relays))]; other != h.above {
		h.leave(func() { w.send(c, other, func(r reply) { w.ref.lostReply(c, r) }) })
	}
}

// tier is whoever answers calls.
type tier interface {
	handle(c call, answer func(reply))
}

// call is an AcquireRequest.
type call struct {
	from  string // for the trace
	who   uint64 // holder id
	epoch uint64
	seq   uint64
	wants []want
	// worker is which of the holder's workers calls: each counts its calls by itself.
	worker int
	lies   bool // of a holder that does
}

// caller is whose calls are counted.
type caller struct {
	who    uint64
	worker int
}

func (c *call) caller() caller { return caller{c.who, c.worker} }

// want is a Want and what it is for. Wants of one group are granted all or none.
type want struct {
	rule  *Rule
	key   counterKey
	hop   int
	group bool
	lease.Want
	owner uint64 // whose debt Overdrawn is
	lie   bool   // Unused was never granted
	copy  bool   // of a call that the network has doubled to another tier
	// What of Unused the callers of a tier in the middle gave back.
	returned []returned
}

// returned is what one want of a call gives back, under the name by which a granter knows a
// copy of it.
type returned struct {
	name  returnID
	units int64
	copy  bool
}

type returnID struct {
	caller
	seq  uint64
	want int
}

// reply is an AcquireResponse, with what only the referee reads.
type reply struct {
	epoch  uint64
	grants []grant
}

type grant struct {
	lease.Grant
	charged limit.Micros // virtual time at which units for waiting requests were charged
	from    limit.Micros // virtual time from which spare units may be spent
	until   limit.Micros // and until when
}

// send carries a call up and its reply down. deliver may come late, twice, out
// of order, or never.
func (w *World) send(c call, to tier, deliver func(reply)) {
	for i := range c.wants {
		w.tracef("%s → %s", c.from, w.showWant(c.wants[i]))
	}
	if w.chance(w.Net.LoseCall) {
		w.tracef("%s → lost", c.from)
		w.ref.lostCall(c)
		return
	}
	w.carry(c, to, deliver)
	if w.chance(w.Net.Repeat) {
		w.tracef("%s → repeated", c.from)
		w.carry(c, to, deliver)
	}
}

func (w *World) carry(c call, to tier, deliver func(reply)) {
	w.after(w.delay(), func() {
		to.handle(c, func(r reply) { w.bring(c, r, deliver) })
	})
}

func (w *World) bring(c call, r reply, deliver func(reply)) {
	if w.chance(w.Net.LoseReply) {
		w.tracef("%s ← lost", c.from)
		w.ref.lostReply(c, r)
		return
	}
	w.after(w.delay(), func() {
		for i := range r.grants {
			w.tracef("%s ← %s", c.from, w.showGrant(c.wants[i], r.grants[i]))
		}
		deliver(r)
	})
}

func (w *World) delay() limit.Micros {
	d := w.Net.Delay
	if w.Net.Spread > 0 {
		d += limit.Micros(w.rand.Int64N(int64(w.Net.Spread)))
	}
	return d
}
