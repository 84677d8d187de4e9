package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// book is what the referee follows of a key at a PoP. What came with grants, and was
// neither spent nor given back, is in the PoP's table or in a worker's sublease, or loose: on its
// way there, to a request or back. Nothing may be spent, given back or put into the table that is not
// there.
type book struct {
	p *pop
	*account
	table    table.Key
	lots     [2]holder.Lease // as they were in the table after the last event
	parts    []holder.Part   // of these and of subleases
	held     []holding
	spent    map[uint32]int64 // units of requests that were admitted, by lease
	several  bool             // there were requests of several rules: they take units, and are admitted later
	rejected []limit.Micros   // asks within the last 10 s

	owes   int64 // overdrawn, in the table
	sealed holder.Debt
	owed   int64 // added to overdrawn, and not counted as admitted

	// Of the event that runs.
	noted bool
	costs []admitted
	backs []lot
}

// holding is units of a lease with one end, as a lot of the table has them.
type holding struct {
	stamp
	lease  uint32
	expiry lease.Millis
	units  int64
	loose  int64        // of these, those that are neither in the table nor in a sublease
	direct int64        // of the loose, those that came with the grant for whoever waited
	fresh  bool         // some came loose in the event that runs
	since  limit.Micros // the last event in which some came loose
}

// admitted is units of a request that was admitted.
type admitted struct {
	units  int64
	failed bool // the region was not asked, or did not answer in time
}

// book finds or opens the book of a key, which the event that runs has to do with.
func (p *pop) book(key counterKey) *book {
	b := p.books[key]
	if b == nil {
		b = &book{p: p, table: p.tableKey(key), account: p.w.ref.account(key), spent: map[uint32]int64{}}
		p.books[key] = b
	}
	if !b.noted {
		b.noted = true
		p.event = append(p.event, b)
	}
	return b
}

// decides notes a request that a worker has decided, or that waits.
func (p *pop) decides(r *request) {
	for _, part := range r.parts {
		b := p.book(part.Rule.counter(part.Key))
		b.several = b.several || len(r.parts) > 1
		if r.admitted && !b.rule.slots() {
			b.costs = append(b.costs, admitted{part.Cost, r.failed})
		}
	}
}

// gives notes what a call gives back.
func (p *pop) gives(items []item) {
	for i := range items {
		b := p.book(items[i].key)
		if back := items[i].back(); back.units > 0 {
			b.backs = append(b.backs, back)
		}
	}
}

// arrived notes the grants of a reply to a call that was sent then.
func (p *pop) arrived(sent lease.Millis, items []item) {
	for i := range items {
		it := &items[i]
		b, g := p.book(it.key), &it.grant
		if g.Status == lease.Denied && (g.Remaining == 0 || it.want.Need > 0) {
			p.w.ref.denied(b)
		}
		if it.granted().units == 0 {
			continue
		}
		expiry := sent + g.TTL
		if end := p.virtual(expiry); g.TTL > 0 && end > it.stamp.until {
			b.fail("a lease outlives its parent by %d µs", end-it.stamp.until)
		}
		h := b.holding(g.Lease, expiry)
		h.stamp = it.stamp
		h.units += g.Granted
		h.direct += g.Granted
	}
}

// holding finds or opens a holding. Its stamp is that of the grant, or follows from its
// end.
func (b *book) holding(of uint32, expiry lease.Millis) *holding {
	for i := range b.held {
		if h := &b.held[i]; h.lease == of && h.expiry == expiry {
			return h
		}
	}
	b.held = append(b.held, holding{lease: of, expiry: expiry, stamp: stamp{until: b.p.virtual(expiry)}})
	return &b.held[len(b.held)-1]
}

// audit follows units through an event.
func (p *pop) audit() {
	for _, b := range p.event {
		b.audit()
		b.noted = false
	}
	p.event = p.event[:0]
}

func (b *book) audit() {
	e := b.p.reader.Open(b.table)
	b.owe(e)
	b.count(&e.Leases)
	for _, back := range b.backs {
		b.giveBack(back)
	}
	for i := range b.held {
		if h := &b.held[i]; h.loose < 0 {
			if !b.several || b.swap(h.lease, -h.loose) > 0 {
				b.fail("%d units appear in a lot that nobody granted", -h.loose)
			}
			h.units -= h.loose
			h.loose = 0
		}
	}
	for _, a := range b.costs {
		b.spend(a)
	}
	b.costs, b.backs = b.costs[:0], b.backs[:0]
	b.held = slices.DeleteFunc(b.held, func(h holding) bool {
		useless := h.units == h.loose && b.p.Now() > h.expiry+5000 && b.p.w.now() > h.since+5*limit.Second
		if useless {
			b.p.w.ref.vanished(b.key, h.units)
		}
		return useless || h.units == 0
	})
	for i := range b.held {
		b.held[i].direct = min(b.held[i].direct, b.held[i].loose)
	}
}

// owe notes what was admitted without a lease since the last event.
func (b *book) owe(e *table.Entry) {
	more := e.Overdrawn - b.owes
	if e.Sealed.Units == 0 || e.Sealed.Number != b.sealed.Number { // it was paid
		more += b.sealed.Units
	}
	b.owes, b.sealed = e.Overdrawn, e.Sealed
	b.owed = max(0, b.owed+more)
	b.debts.owed += more
}

// count finds what of the holdings is loose.
func (b *book) count(lots *[2]holder.Lease) {
	b.lots = *lots
	parts := b.parts[:0]
	for i := range lots {
		if lot := &lots[i]; lot.Units > 0 && !lot.Local {
			parts = append(parts, lot.Part())
		}
	}
	for _, x := range b.p.Workers {
		if part := x.Sublease(b.table); part.Units > 0 {
			parts = append(parts, part)
		}
	}
	for _, part := range parts {
		b.holding(part.Lease, part.Expiry)
	}
	b.parts = parts
	for i := range b.held {
		h := &b.held[i]
		loose := h.units
		for _, part := range parts {
			if part.Lease == h.lease && part.Expiry == h.expiry {
				loose -= part.Units
			}
		}
		if h.loose, h.fresh = loose, loose > h.loose; h.fresh {
			h.since = b.p.w.now()
		}
	}
}

// usable reports whether loose units of a holding may be spent: they are the answer to
// those who waited, or were taken when the lease ran. Where requests take units of several
// rules, that may have been before.
func (b *book) usable(h *holding) bool {
	now := b.p.w.now()
	return h.from <= now && (now <= h.until || h.direct > 0 || b.several)
}

// take takes loose units of the holdings that f likes, those of this event first, then the
// youngest. It returns how many are missing.
func (b *book) take(units int64, f func(*holding) bool, each func(*holding, int64)) int64 {
	for _, fresh := range []bool{true, false} {
		for i := len(b.held) - 1; i >= 0 && units > 0; i-- {
			h := &b.held[i]
			if n := min(units, h.loose); n > 0 && (h.fresh || !fresh) && f(h) {
				h.loose -= n
				h.units -= n
				units -= n
				each(h, n)
			}
		}
	}
	return units
}

// spend counts a request that was admitted.
func (b *book) spend(a admitted) {
	ref := b.p.w.ref
	if n := min(a.units, b.owed); n > 0 {
		b.owed -= n
		a.units -= n
		if a.failed {
			b.Degraded += n
		} else {
			ref.overdrawn(b.account, n)
		}
	}
	missing := b.take(a.units, b.usable, func(h *holding, n int64) {
		at := b.p.w.now()
		if h.direct > 0 {
			at = h.charged
		}
		h.direct = max(0, h.direct-n)
		b.spent[h.lease] += n
		ref.admitted(b, h.lease, at, n)
	})
	switch {
	case a.failed:
		b.Degraded += missing
	case missing > 0:
		b.fail("%d units admitted that nobody granted for now", missing)
	}
}

// giveBack counts what a call gives back, what cannot be spent any more before the rest.
func (b *book) giveBack(back lot) {
	dead := func(h *holding) bool { return h.lease == back.lease && !b.usable(h) }
	units := b.take(back.units, dead, func(*holding, int64) {})
	if missing := b.swap(back.lease, units); missing > 0 {
		b.fail("%d units given back that it has not", missing)
	}
}

// swap takes loose units of a lease; if too few are left, others, in place of those of the
// lease that were counted as spent. Where a PoP has loose units of
// several leases, the lease of a request is a guess. It returns how many are missing.
func (b *book) swap(l uint32, units int64) int64 {
	units = b.take(units, func(h *holding) bool { return h.lease == l }, func(*holding, int64) {})
	n, now := min(units, b.spent[l]), b.p.w.now()
	begun := func(h *holding) bool { return h.from <= now }
	left := b.take(n, begun, func(h *holding, n int64) {
		b.spent[l] -= n
		b.spent[h.lease] += n
		b.p.w.ref.counts(b, l, -n)
		b.p.w.ref.counts(b, h.lease, n)
	})
	return units - n + left
}

func (b *book) fail(format string, args ...any) {
	b.p.w.ref.fail(1, "%v at %s: "+format, append([]any{b.key, b.p.Name}, args...)...)
}
