package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// accounts are the PoP's state of each key: an entry with its account, or its counter, in
// a table that the workers share, and in front of it this worker's cache of denials.
// Shadow rules have a table and a cache of their own.
type accounts struct {
	port  *Port
	pop   *pop
	rules *rulebook

	enforced, shadow               *table.Table
	enforcedDenials, shadowDenials denials
	parked                         []parked
}

// parked is a change of an entry that could not be written and is tried again at every
// tick. Only changes that add units may be late.
type parked struct {
	policy *policy
	key    table.Key
	change func(*table.Entry)
}

// parkedMost bounds the changes that are parked. Others are lost: their units are wasted
// until their leases end.
const parkedMost = 4096

func (a *accounts) init(port *Port, pop *pop, rules *rulebook, pagesLog2 int) {
	a.port, a.pop, a.rules = port, pop, rules
	a.enforced = table.New(pop.store, enforcedTable, pagesLog2, a.idle)
	a.shadow = table.New(pop.store, shadowTable, pagesLog2, a.idle)
	a.shadow.Counts = a.enforced.Counts
}

// useRules follows a change of the rules.
func (a *accounts) useRules() {
	a.makeRoomIn(a.enforced)
	a.makeRoomIn(a.shadow)
	a.enforcedDenials.clear()
	a.shadowDenials.clear()
}

// open reads a key's entry. Denials of earlier rules are void.
func (a *accounts) open(p *policy, key table.Key) *table.Entry {
	if p.local {
		e, _ := p.table.OpenShared(key)
		return e
	}
	e := p.table.Open(key)
	if e.Asked < a.rules.since {
		e.DeniedNeed, e.Refused, e.LimitedUntil, e.NextAsk, e.Back = 0, false, 0, 0, lease.Backoff{}
	}
	return e
}

// try changes a key's entry if change returns true. change may be called several times;
// what it did the last time counts. Nothing happened unless the outcome is Stored.
func (a *accounts) try(now lease.Millis, p *policy, key table.Key, change func(*table.Entry) bool) (outcome table.Outcome) {
	for range table.Tries {
		if !change(a.open(p, key)) {
			return table.Stored
		}
		if outcome = p.table.Commit(now); outcome != table.Raced {
			break
		}
	}
	return outcome
}

// change changes a key's entry; if that cannot be written now it is parked. The outcome is
// Raced or Failed if it is parked, Full if the entry found no room and nothing happened.
func (a *accounts) change(now lease.Millis, p *policy, key table.Key, change func(*table.Entry)) table.Outcome {
	outcome := a.try(now, p, key, func(e *table.Entry) bool { change(e); return true })
	if outcome == table.Stored || outcome == table.Full || len(a.parked) >= parkedMost {
		return outcome
	}
	a.port.Counts.Parked++
	key.Text = append([]byte(nil), key.Text...)
	a.parked = append(a.parked, parked{p, key, change})
	return outcome
}

// settleParked tries again what could not be written before.
func (a *accounts) settleParked(now lease.Millis) {
	kept := a.parked[:0]
	for _, c := range a.parked {
		if o := a.try(now, c.policy, c.key, func(e *table.Entry) bool { c.change(e); return true }); o == table.Raced || o == table.Failed {
			kept = append(kept, c)
		}
	}
	clear(a.parked[len(kept):])
	a.parked = kept
}

// untake puts back what a hit took. Units of which the account has no lease any more
// go back to the region.
func (a *accounts) untake(now lease.Millis, h *hit) {
	p, taken := h.policy, h.taken
	var back [2]lease.Part
	if a.change(now, p, h.key, func(e *table.Entry) { back = e.Untake(&p.terms, taken) }) == table.Stored {
		p.lane.returnSoon(p, h.key, back[0])
		p.lane.returnSoon(p, h.key, back[1])
	}
}

// untakeLocal puts back what a hit of scope: pop took.
func (a *accounts) untakeLocal(now lease.Millis, h *hit) {
	p, period, cost := h.policy, h.period, h.cost
	a.change(now, p, h.key, func(e *table.Entry) {
		e.Counter, _ = p.limit.Return(e.Counter, a.pop.timeOfDay(now), period, cost)
	})
}

// keep stores a grant, with its spare units, in the account of its key.
func (a *accounts) keep(now, sent lease.Millis, of *ask, g lease.Grant, spare int64) {
	p, key, want, jitter := of.policy, of.key, of.want, a.pop.jitter()
	var rest lease.Part
	denied := p.denials.forget(key.Hash)
	outcome := a.change(now, p, key, func(e *table.Entry) {
		e.Denied = lease.Sum(e.Denied, denied)
		if g.Status == lease.OK && g.Granted == 0 && want.Need > 0 {
			e.PassOver(&p.terms, now, sent, want, g)
			return
		}
		rest = e.Apply(&p.terms, now, sent, want, g, spare, jitter)
	})
	switch outcome {
	case table.Stored:
	case table.Full:
		rest = lease.Part{Units: spare, Lease: g.Lease}
	default:
		rest = lease.Part{}
	}
	if p.exact { // units of requests that have gone, or were refused by another rule
		p.lane.returnSoon(p, key, rest)
	} else {
		p.lane.giveBack(p, key, rest)
	}
	if outcome == table.Full && g.Status == lease.Denied { // nothing else remembers it
		p.denials.remember(key.Hash, now+max(g.AskAfter, 1), now+max(g.RetryAfter, 1), max(want.Need, 1), p.terms.OwnLimit(&g))
	}
}

// reported clears what the region has acknowledged of a finding of the scan. The debt of a
// key whose rule the region does not have is dropped, unless the key was asked for not
// long ago.
func (a *accounts) reported(now, sent lease.Millis, r *report, g lease.Grant) {
	p, key, want := r.policy, r.key, r.want
	jitter, dropped := a.pop.jitter(), int64(0)
	a.change(now, p, key, func(e *table.Entry) {
		if dropped = 0; want.Overdrawn > 0 && g.Status == lease.UnknownRule && now >= e.Asked+unknownFor {
			dropped = e.Forgive()
		}
		e.Apply(&p.terms, now, sent, want, g, 0, jitter)
	})
	a.port.Counts.Unreported += uint64(dropped)
}

// denials is a cache of denials in front of the table: a flood is refused from
// here without reading what the workers share. It is direct-mapped and has no
// pointers, so that the garbage collector does not look at it; a key that falls
// on another one's place replaces it.
//
// A denial is kept until the key's account would do anything else than refuse: until
// the worker may ask again, or shortly, where an answer is under way that may change it.
type denials struct {
	entries []denial
}

type denial struct {
	hash    uint64
	until   lease.Millis // refuse until then
	retryAt lease.Millis
	need    int64 // requests that cost at least this are refused
	refused int64 // units, that the account does not count yet
	own     int64 // see lease.Account.OwnLimit
}

// denialsLog2 sizes the cache: 16,384 entries, 768 KiB, made with the first denial.
const denialsLog2 = 14

// whileAsking is how long a denial is kept when an answer is under way.
const whileAsking lease.Millis = 2

// at is the place of a key; nil if nothing was ever denied.
func (d *denials) at(hash uint64) *denial {
	if len(d.entries) == 0 {
		return nil
	}
	return &d.entries[hash&(1<<denialsLog2-1)]
}

// refuses returns the denial that refuses a request of this cost; nil if none.
func (d *denials) refuses(hash uint64, now lease.Millis, cost int64) *denial {
	e := d.at(hash)
	if e == nil || e.hash != hash || now >= e.until || cost < e.need {
		return nil
	}
	e.refused = lease.Sum(e.refused, cost)
	return e
}

// remember keeps a denial.
func (d *denials) remember(hash uint64, until, retryAt lease.Millis, need, own int64) {
	if len(d.entries) == 0 {
		d.entries = make([]denial, 1<<denialsLog2)
	}
	e := d.at(hash)
	refused := int64(0)
	if e.hash == hash {
		refused = e.refused
	}
	*e = denial{hash: hash, until: until, retryAt: retryAt, need: need, refused: refused, own: own}
}

// count adds a refusal of a remembered key that its account does not count.
func (d *denials) count(hash uint64, cost int64) {
	e := d.at(hash)
	e.refused = lease.Sum(e.refused, cost)
}

// forget drops the denial of a key whose account has changed, and returns how many
// units it refused that the account does not count yet.
func (d *denials) forget(hash uint64) int64 {
	e := d.at(hash)
	if e == nil || e.hash != hash {
		return 0
	}
	refused := e.refused
	*e = denial{}
	return refused
}

// clear drops all denials: other rules are in force.
func (d *denials) clear() { clear(d.entries) }
