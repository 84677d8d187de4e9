package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// makeRoomIn sets how a table makes room in pages that are full: rules of the set in
// force share half of each page among them.
func (w *Worker) makeRoomIn(t *table.Table) {
	rules := 0
	for _, p := range w.rules.byID {
		if p.table == t && !p.concurrency() {
			rules++
		}
	}
	t.Room = table.Room{
		Rank:  w.rank,
		Merge: w.merge,
		Gone:  w.gone,
		Share: max(1, table.PageEntries/(2*max(rules, 1))),
	}
}

// rank says what it costs to forget an entry that is not idle: the region remembers
// what it denied and takes units back, but of debts, and of what the PoP counts by
// itself, nobody else knows.
func (w *Worker) rank(e *table.Entry, now lease.Millis) (r table.Rank, worth int64) {
	p := w.rules.byID[e.Rule]
	switch {
	case p == nil:
		return table.Fixed, 0 // of rules that this worker does not have yet
	case p.local():
		return table.Counter, p.terms.Capacity - p.limit.Peek(e.Counter, w.Wall(now), 0).Remaining
	case e.Overdrawn > 0:
		return table.Debt, e.Overdrawn
	case shares(&e.Lots[0], now), shares(&e.Lots[1], now):
		return table.Share, int64(e.Asked)
	case e.Lots[0].Units > 0, e.Lots[1].Units > 0:
		return table.Lease, int64(e.Asked)
	}
	return table.Denial, int64(e.Asked)
}

func shares(lot *lease.Lot, now lease.Millis) bool { return lot.Local && now < lot.Expiry }

// merge makes what keys share of a rule with scope: pop refuse what e refuses, so that
// a key that spent its limit does not get another one with the place of others.
func (w *Worker) merge(shared, e *table.Entry, now lease.Millis) {
	if p := w.rules.byID[e.Rule]; p != nil {
		shared.Counter = p.limit.Union(shared.Counter, e.Counter, w.Wall(now))
	}
}

// gone gives back what an entry held that was forgotten to make room.
func (w *Worker) gone(e *table.Entry) {
	p := w.rules.byID[e.Rule]
	if p == nil || p.line == nil {
		w.drop(e)
		return
	}
	key := p.key(w.seed, e.Key)
	for i := range e.Lots {
		if lot := &e.Lots[i]; !lot.Local {
			w.giveBack(p, key, lease.Part{Units: lot.Units, Lease: lot.Lease, Expiry: lot.Expiry})
		}
	}
	w.Counts.Unreported += uint64(e.Overdrawn)
}
