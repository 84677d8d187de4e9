package sim

import (
	"context"
	"encoding/binary"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/memory"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Fault is one thing broken on purpose, round the product and not in it, to prove that
// the checks see it.
type Fault uint8

// The faults.
const (
	None Fault = iota
	// Of a store.
	GrantsTwice      // a grant is not charged now and then: the next hands the same units out again
	ForgetsSpentKeys // a full store forgets counters that are not fresh
	ChargesTwice     // a debt is charged as often as it is told
	TakesBackTwice   // what copies of a call give back is taken back again
	OutlivesParent   // a tier in the middle grants for longer than it holds
	// Of a service, by the calls that it is shown.
	AppliesTwice // calls are not told apart by seq
	MixesWorkers // the calls of all workers of a PoP are taken for one sequence
	// Of a PoP: its table is changed, or its calls and their replies.
	MergesLots     // a top-up is added to the older lot and prolongs it
	ParksTakes     // a take is committed a little after it was acted upon
	KeepsItsLots   // a PoP that asks for who waits does not offer what it has
	DeniesItsOwn   // a denial is taken for one of all that costs as much, whatever the PoP has itself
	GivesBackTwice // what is given back is sent again in a call of its own
	ForgetsDebts   // a debt is not told, and taken for acknowledged
	SpendsEarly    // units of the next window are spent at once
	ForgetsDenials // a denial is forgotten at once
	TakesStale     // a late reply is taken for one to the newest call
)

func (f Fault) String() string {
	return [...]string{"none", "grants twice", "forgets spent keys", "charges twice", "takes back twice", "outlives parent",
		"applies twice", "mixes workers", "merges lots", "parks takes", "keeps its lots", "denies its own",
		"gives back twice", "forgets debts", "spends early", "forgets denials", "takes stale replies"}[f]
}

// spoilStore puts a fault round the counters.
func (w *World) spoilStore(s *memory.Store) limiter.Store {
	switch w.Fault {
	case GrantsTwice, ForgetsSpentKeys, ChargesTwice, TakesBackTwice:
		return &brokenStore{Store: s, w: w}
	}
	return s
}

// overCaches puts a fault round the lease cache that is nearest to the PoPs.
func (w *World) overCaches(s limiter.Store) limiter.Store {
	if w.Fault == OutlivesParent && w.Relays > 0 {
		return &brokenStore{Store: s, w: w}
	}
	return s
}

// brokenStore is a store with a fault.
type brokenStore struct {
	limiter.Store
	w *World
}

func (s *brokenStore) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	asks = copied(asks)
	for i := range asks {
		switch a := &asks[i]; s.w.Fault {
		case ChargesTwice:
			a.Want.Debt = 0
		case TakesBackTwice:
			for j := range a.Returned {
				a.Returned[j].Name = s.w.rand.Uint64()
			}
		}
	}
	s.Store.Acquire(ctx, asks, grants)
	for i := range grants {
		switch g := &grants[i]; {
		case s.w.Fault == OutlivesParent:
			g.TTL *= 3
		case s.w.Fault == GrantsTwice && g.Granted > 0 && s.w.chance(0.05):
			back := limiter.Ask{Policy: asks[i].Policy, Key: asks[i].Key, Want: lease.Want{Unused: g.Granted, Lease: g.Lease}}
			s.Store.Acquire(ctx, []limiter.Ask{back}, make([]lease.Grant, 1))
		case s.w.Fault == ForgetsSpentKeys && g.Status == lease.Unavailable:
			s.w.granter.start()
		}
	}
}

// spoilDelivery is the body of a call as a service is shown it.
func (w *World) spoilDelivery(f *flight) []byte {
	if f.path != edge.AcquirePath || w.Fault != AppliesTwice && w.Fault != MixesWorkers {
		return f.body
	}
	m := decodeRequest(f.body)
	w.serial++
	m.Worker = 1
	if w.Fault == AppliesTwice {
		m.Worker = w.serial
	}
	binary.LittleEndian.PutUint64(m.Holder[8:], m.Worker)
	return m.Append(nil)
}

// spoilCall puts a fault into a call that a worker makes.
func (p *pop) spoilCall(f *flight) {
	switch p.w.Fault {
	case KeepsItsLots:
		for i := range f.req.Wants {
			if m := &f.req.Wants[i]; m.Need > 0 && m.Unused > 0 && p.keepLot(m) {
				m.Unused = 0
			}
		}
	case ForgetsDebts:
		for i := range f.req.Wants {
			f.req.Wants[i].Overdrawn, f.req.Wants[i].Debt = 0, 0
		}
	default:
		return
	}
	f.body = f.req.Append(nil)
}

// keepLot puts what a want gives back into the place where it was.
func (p *pop) keepLot(m *wire.Want) bool {
	key := p.w.rules.of(m.Rule, m.Key)
	lot := p.book(key).loose(uint32(m.Lease))
	e := p.entry(key)
	for i := range e.Lots {
		if l := &e.Lots[i]; lot != nil && l.Units == 0 {
			*l = lease.Lot{Units: int64(m.Unused), Lease: lot.lease, Expiry: lot.expiry}
			return p.reader.Commit(p.now()) == table.Stored
		}
	}
	return false
}

// giveBackAgain sends what a call gives back in a call of its own.
func (f *flight) giveBackAgain() {
	if f.p.w.Fault != GivesBackTwice || !f.p.w.chance(0.5) {
		return
	}
	again := f.p.aside(f)
	for _, m := range f.req.Wants {
		if m.Unused > 0 {
			again.req.Wants = append(again.req.Wants, wire.Want{Rule: m.Rule, Variant: m.Variant, Override: m.Override, Key: m.Key, Unused: m.Unused, Lease: m.Lease})
		}
	}
	again.fly()
}

// spoilReply puts a fault into a reply.
func (p *pop) spoilReply(f *flight, body []byte) []byte {
	if fault := p.w.Fault; f.path != edge.AcquirePath || fault != SpendsEarly && fault != ForgetsDenials {
		return body
	}
	var m wire.Response
	if err := m.Decode(body); err != nil {
		panic(err)
	}
	for i := range m.Grants {
		g := &m.Grants[i]
		if p.w.Fault == SpendsEarly {
			g.StartsInMs = 0
		} else {
			g.AskAfterMs, g.RetryAfterMs, g.Remaining = 0, 0, g.Limit
		}
	}
	return m.Append(nil)
}

// stale is the call that a late reply is taken for: the newest of its worker.
func (p *pop) stale(f *flight, body []byte) (*flight, []byte) {
	newest := p.newest[f.worker]
	if p.w.Fault != TakesStale || !f.done || newest == nil || newest.done || len(newest.req.Wants) != len(f.req.Wants) {
		return f, body
	}
	var m wire.Response
	if err := m.Decode(body); err != nil {
		panic(err)
	}
	m.Seq = newest.req.Seq
	return newest, m.Append(nil)
}

// deniesItsOwn refuses a request by a denial of another.
func (p *pop) deniesItsOwn(r *request) bool {
	if p.w.Fault != DeniesItsOwn {
		return false
	}
	e, cost, now := p.entry(r.parts[0].Rule.counter(r.parts[0].Key)), r.parts[0].Cost, p.now()
	return now < e.NextAsk && e.DeniedNeed > 0 && cost >= e.DeniedNeed && e.Available(now) < cost
}

// parkTake puts back what a request has taken that was admitted, for a moment.
func (p *pop) parkTake(r *request) {
	if p.w.Fault != ParksTakes || !r.admitted || r.failed || !p.w.chance(0.2) {
		return
	}
	part, life := r.parts[0], p.life
	key := part.Rule.counter(part.Key)
	e := p.entry(key)
	e.Lots = p.book(key).lots
	p.reader.Commit(p.now())
	p.w.after(2*limit.Millisecond, func() {
		if life == p.life {
			e := p.entry(key)
			e.Take(&part.Rule.Terms, p.now(), part.Cost)
			p.reader.Commit(p.now())
		}
	})
}

// mergeLots merges the lots of keys that have two.
func (p *pop) mergeLots() {
	if p.w.Fault != MergesLots {
		return
	}
	for key := range p.books {
		if e := p.entry(key); e.Lots[0].Units > 0 && e.Lots[1].Units > 0 && !e.Lots[0].Local && !e.Lots[1].Local {
			e.Lots[1].Units += e.Lots[0].Units
			e.Lots[0].Units = 0
			p.reader.Commit(p.now())
		}
	}
}
