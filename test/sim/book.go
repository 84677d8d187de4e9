package sim

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// book is what the referee follows of a key at a PoP: the lots in the table, and the
// units that have come with a grant or left the table, and have been neither spent nor
// given back. Nothing may be spent, given back or put into the table that is not there.
type book struct {
	p     *pop
	table table.Key
	*account
	lots    [2]lease.Lot // as they were in the table after the last event
	outs    []out
	stamps  map[leaseEnd]stamp // of the grants that lots came with
	refused []limit.Micros     // asks within the last 10 s
	taker   *request           // whom the event is for, if it is for one
	several bool               // there were requests of several rules
	// guesses are units that were counted as spent of one of several lots, by requests of
	// several rules, which have them for a while before they are admitted, or as given back.
	guesses map[leaseEnd]int64

	owes   int64 // overdrawn, in the table
	sealed lease.Debt
	owed   int64 // added to overdrawn, and not counted as admitted

	// Of the event that runs.
	noted bool
	costs []admitted
	backs []wire.Want
}

// out is units of a lot that are not in the table.
type out struct {
	stamp
	lease  uint32
	expiry lease.Millis // of the lot
	units  int64
	since  limit.Micros // when they came
	grant  bool         // they came with a grant, not out of the table
	spent  bool         // they may be spent: they came when their lease ran
	owner  *request     // who has taken them and waits for another rule, if that is known
}

// leaseEnd names a lot of a key at a PoP.
type leaseEnd struct {
	lease  uint32
	expiry lease.Millis
}

// admitted is units of a request that was admitted.
type admitted struct {
	*request
	units int64
}

// book finds or opens the book of a key.
func (p *pop) book(key counterKey) *book {
	b := p.books[key]
	if b == nil {
		b = &book{p: p, table: p.tableKey(key), account: p.w.ref.account(key), stamps: map[leaseEnd]stamp{}, guesses: map[leaseEnd]int64{}}
		p.books[key] = b
		page := b.table.Hash >> (64 - pagesLog2)
		p.pages[page] = append(p.pages[page], b)
	}
	return b
}

// touched is a book that an event has to do with.
func (p *pop) touched(key counterKey) *book {
	b := p.book(key)
	b.touch()
	return b
}

func (b *book) touch() {
	if !b.noted {
		b.noted = true
		b.p.event = append(b.p.event, b)
	}
}

// admits notes a request that was admitted.
func (p *pop) admits(r *request) {
	for i, part := range r.parts {
		b := r.books[i]
		if r.admitted && !b.rule.slots() {
			b.touch()
			b.costs = append(b.costs, admitted{r, part.Cost})
			continue
		}
		for i := range b.outs { // it puts back what it has taken
			if b.outs[i].owner == r {
				b.outs[i].owner = nil
			}
		}
	}
}

// gives notes what a call gives back.
func (p *pop) gives(m *wire.Want) {
	if m.Unused > 0 {
		b := p.touched(p.w.rules.of(m.Rule, m.Key))
		b.backs = append(b.backs, *m)
	}
}

// arrived notes the grants of a reply.
func (p *pop) arrived(f *flight, r reply) {
	for i := range r.resp.Grants {
		g, m, s := &r.resp.Grants[i], &f.req.Wants[i], &r.stamps[i]
		b := p.touched(p.w.rules.of(m.Rule, m.Key))
		if g.Status == wire.StatusDenied && (g.Remaining == 0 || m.Need > 0) {
			p.w.ref.denied(b)
		}
		if g.Granted == 0 || b.rule.slots() {
			continue
		}
		expiry := f.sent + lease.Millis(g.TTLMs)
		if end := p.virtual(expiry); g.TTLMs > 0 && end > s.until {
			p.w.ref.fail(1, "%v at %s: a lease outlives its parent by %d µs", b.key, p.name, end-s.until)
		}
		b.add(out{stamp: *s, lease: uint32(g.Lease), expiry: expiry, units: int64(g.Granted), grant: true, spent: s.from <= p.w.now})
	}
}

// audit follows units through an event.
func (p *pop) audit() {
	for page := 0; p.shared.dirty != 0; page++ {
		if p.shared.dirty&(1<<page) != 0 {
			for _, b := range p.pages[page] {
				b.touch()
			}
		}
		p.shared.dirty &^= 1 << page
	}
	for _, b := range p.event {
		b.noted = false
		b.audit()
	}
	p.event = p.event[:0]
}

func (b *book) audit() {
	e := b.p.reader.Open(b.table)
	b.tables(e)
	for i := range b.backs {
		b.giveBack(&b.backs[i])
	}
	for _, a := range b.costs {
		b.spend(a)
	}
	b.costs, b.backs, b.taker = b.costs[:0], b.backs[:0], nil
	now := b.p.now()
	b.outs = slices.DeleteFunc(b.outs, func(o out) bool {
		if o.units > 0 && now > o.expiry+5000 && b.p.w.now > o.since+5*limit.Second { // nobody has any use for them
			b.p.w.ref.vanished(b.key, o.units)
			return true
		}
		return o.units == 0
	})
}

// tables notes what an event has changed in the table.
func (b *book) tables(e *table.Entry) {
	paid := int64(0)
	if e.Sealed.Units == 0 || e.Sealed.Number != b.sealed.Number {
		paid = b.sealed.Units
	}
	more := e.Overdrawn - b.owes + paid
	b.owes, b.sealed = e.Overdrawn, e.Sealed
	b.owed = max(0, b.owed+more)
	b.debts.owed += more
	if e.Lots == b.lots {
		return
	}
	before := b.lots
	b.lots = e.Lots
	for i := range before {
		if lot := &before[i]; lot.Units > 0 && !lot.Local && !repeated(&before, i) {
			b.moved(lot, unitsIn(&before, lot)-unitsIn(&b.lots, lot))
		}
	}
	for i := range b.lots {
		if lot := &b.lots[i]; lot.Units > 0 && !lot.Local && unitsIn(&before, lot) == 0 && !repeated(&b.lots, i) {
			b.moved(lot, -unitsIn(&b.lots, lot))
		}
	}
}

// unitsIn is what lots have of the same lease and end as one of them.
func unitsIn(lots *[2]lease.Lot, of *lease.Lot) (units int64) {
	for i := range lots {
		if lot := &lots[i]; lot.Units > 0 && lot.Lease == of.Lease && lot.Expiry == of.Expiry && !lot.Local {
			units += lot.Units
		}
	}
	return units
}

// repeated reports whether the second lot is of the same lease and end as the first.
func repeated(lots *[2]lease.Lot, i int) bool {
	return i == 1 && lots[0].Units > 0 && lots[0].Lease == lots[1].Lease && lots[0].Expiry == lots[1].Expiry
}

// moved notes units that have left a lot; less than 0, that came into it.
func (b *book) moved(lot *lease.Lot, units int64) {
	if units > 0 {
		s := b.stampOf(lot)
		now := b.p.w.now
		b.add(out{stamp: s, lease: lot.Lease, expiry: lot.Expiry, units: units, spent: s.from <= now && now <= s.until, owner: b.taker})
		return
	}
	of := func(o *out) bool { return o.lease == lot.Lease && o.expiry == lot.Expiry }
	missing := b.take(-units, nil, of, nil)
	if n := min(missing, b.guesses[leaseEnd{lot.Lease, lot.Expiry}]); n > 0 {
		b.guesses[leaseEnd{lot.Lease, lot.Expiry}] -= n
		missing += b.swap(n, lot.Lease) - n
	}
	if missing > 0 {
		b.p.w.ref.fail(1, "%v at %s: %d units appear in a lot that nobody granted", b.key, b.p.name, missing)
	}
}

// stampOf is when a lot may be spent, by the grant that it came with.
func (b *book) stampOf(lot *lease.Lot) stamp {
	if s, ok := b.stamps[leaseEnd{lot.Lease, lot.Expiry}]; ok {
		return s
	}
	return stamp{until: b.p.virtual(lot.Expiry)}
}

// add notes units that are not in the table.
func (b *book) add(o out) {
	o.since = b.p.w.now
	if o.grant {
		b.stamps[leaseEnd{o.lease, o.expiry}] = o.stamp
	}
	for i := range b.outs {
		old := &b.outs[i]
		if old.lease == o.lease && old.expiry == o.expiry && old.spent == o.spent && old.owner == o.owner && old.grant == o.grant && (!o.grant || old.charged == o.charged) {
			old.units += o.units
			old.since = o.since
			return
		}
	}
	b.outs = append(b.outs, o)
}

// take takes units that are not in the table, of those that f likes, and returns how many
// are missing. First come those of an owner, then those of this event, then those that
// came with a grant, for whoever waited.
func (b *book) take(units int64, owner *request, f func(*out) bool, each func(*out, int64)) int64 {
	for rank := range 5 {
		for i := len(b.outs) - 1; i >= 0 && units > 0; i-- {
			o := &b.outs[i]
			if n := min(units, o.units); n > 0 && o.rank(owner, b.p.w.now) == rank && f(o) {
				if o.units -= n; each != nil {
					each(o, n)
				}
				units -= n
			}
		}
	}
	return units
}

func (o *out) rank(owner *request, now limit.Micros) int {
	switch {
	case owner != nil && o.owner == owner:
		return 0
	case o.owner != nil:
		return 4
	case o.since == now:
		return 1
	case o.grant:
		return 2
	}
	return 3
}

// spend counts a request that was admitted.
func (b *book) spend(a admitted) {
	ref := b.p.w.ref
	units := a.units
	if n := min(units, b.owed); n > 0 {
		b.owed -= n
		units -= n
		if a.failed {
			ref.degraded(b.key, n)
		} else {
			ref.overdrawn(b.key, n)
		}
	}
	units = b.take(units, a.request, func(o *out) bool { return o.spent }, func(o *out, n int64) {
		at := b.p.w.now
		if o.grant {
			at = o.charged
		}
		if b.several {
			b.guesses[leaseEnd{o.lease, o.expiry}] += n
		}
		ref.admitted(b.account, o.lease, at, n)
	})
	switch {
	case units == 0:
	case a.failed:
		ref.degraded(b.key, units)
	default:
		ref.fail(1, "%v at %s: %d units admitted that nobody granted for now", b.key, b.p.name, units)
	}
}

// giveBack counts what a call gives back, what cannot be spent any more before the rest.
// Of which lease a request was admitted is a guess where a PoP has units of several that
// are not in the table. Here it shows where the guess was wrong.
func (b *book) giveBack(m *wire.Want) {
	units, l := int64(m.Unused), uint32(m.Lease)
	units = b.take(units, nil, func(o *out) bool { return o.lease == l && !o.spent }, nil)
	units = b.take(units, nil, func(o *out) bool { return o.lease == l }, func(o *out, n int64) {
		b.guesses[leaseEnd{o.lease, o.expiry}] += n
	})
	if missing := b.swap(units, l); missing > 0 {
		b.p.w.ref.fail(1, "%v at %s: %d units given back that it has not", b.key, b.p.name, missing)
	}
}

// swap takes units in place of those of a lease that were counted as spent: it was others
// that were.
func (b *book) swap(units int64, l uint32) (missing int64) {
	a := b.account
	return b.take(units, nil, func(o *out) bool { return o.spent }, func(o *out, n int64) {
		a.periods[l] -= n
		a.periods[o.lease] += n
		b.p.w.ref.checkPeriod(a, o.lease)
	})
}

// loose is units of a lease that left the table last; nil if there are none.
func (b *book) loose(l uint32) *out {
	b.p.audit()
	for i := len(b.outs) - 1; i >= 0; i-- {
		if o := &b.outs[i]; o.lease == l && o.units > 0 {
			return o
		}
	}
	return nil
}
