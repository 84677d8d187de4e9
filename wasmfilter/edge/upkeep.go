package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// scanTicks is in how many ticks the leader has looked through the table once.
const scanTicks = 100

// upkeep is the work that no request waits for: every worker renews its slots and
// puts back units, and the leader looks through the table for what idle keys have to report.
type upkeep struct {
	pop      *pop.PoP
	rules    *rulebook.Rulebook
	accounts *accounts
	slots    *slots
	uplink   *uplink.Uplink
	asks     *asks

	scanned int // next page to look through
	keys    struct{ enforced, shadow int }
	fill    Fill // by the last round
}

// Fill is how full the fuller of the two tables of a PoP is: that of the rules, or that of
// those with mode: shadow.
type Fill struct {
	Keys   int // entries
	Places int // for them; single pages are full before all places are taken
}

// renewSlots asks for the holdings that are due, publishes what they use before
// others forget it, and forgets those that hold nothing.
func (k *upkeep) renewSlots(now lease.Millis) {
	for hash, hd := range k.slots.holdings {
		p, may := hd.policy, hd.may(now)
		if hd.published == 0 || hd.inUse+may > 0 && now >= hd.published-p.TTL/2 {
			k.slots.publish(now, hd)
		}
		lately := now < hd.Asked+p.Terms.Interval || p.Local || k.uplink.Lane(p).Open || hd.Back.Off(now)
		switch {
		case k.asks.pending[hash] != nil:
		case k.rules.InForce == nil || k.rules.InForce.ByID[uint32(p.ID)] == nil: // its rule is gone
			if hd.inUse == 0 {
				delete(k.slots.holdings, hash)
			}
		case now < hd.owes:
			if !lately { // the answer was lost
				k.asks.begin(now, p, hd.key, lease.Want{})
			}
		case hd.inUse == 0 && may == 0 && hd.published > 0 && now >= hd.NextAsk && !hd.Back.Matters(now):
			delete(k.slots.holdings, hash)
		case lately, may == hd.inUse && now < hd.Until-hd.TTL/2:
		default:
			k.slots.share(now, hd, func() bool { return false }) // look
			if hd.Due(&p.Terms, now, hd.needed(now)) {
				k.asks.begin(now, p, hd.key, lease.Want{})
			}
		}
	}
}

// putBack puts back what this worker has of keys that it does not admit any more.
func (k *upkeep) putBack(now lease.Millis) {
	k.accounts.subleases.Due(now, func(s *table.Sublease) { k.accounts.putBack(now, s) })
}

// scan looks through some pages for what idle keys still owe, and counts keys.
func (k *upkeep) scan(now lease.Millis) {
	a := k.accounts
	pages := a.enforced.Pages()
	n := (pages + scanTicks - 1) / scanTicks
	for range n {
		k.keys.enforced += k.scanPage(now, a.enforced)
		k.keys.shadow += k.scanPage(now, a.shadow)
		if k.scanned = (k.scanned + 1) % pages; k.scanned == 0 {
			k.fill = Fill{max(k.keys.enforced, k.keys.shadow), pages * table.PageEntries}
			k.keys.enforced, k.keys.shadow = 0, 0
		}
	}
	k.slots.sweep(now)
}

// scanPage collects what the keys of a page have to report, drops idle ones, and returns how
// many it keeps.
func (k *upkeep) scanPage(now lease.Millis, t *table.Table) (kept int) {
	var found []uplink.Report
	var dropped []table.Entry
	outcome := t.Visit(now, k.scanned, func(e *table.Entry) bool {
		if k.accounts.forgotten(e, now) {
			dropped = append(dropped, *e)
			return false
		}
		if r, ok := k.find(now, e); ok {
			found = append(found, r)
		}
		kept++
		return true
	})
	if outcome != table.Stored {
		return kept // another worker changed the page; the next round will find it again
	}
	for i := range dropped {
		k.accounts.gone(&dropped[i])
	}
	for _, r := range found {
		k.uplink.Report(r)
	}
	return kept
}

// find takes what an entry has to give back or to report out of it.
func (k *upkeep) find(now lease.Millis, e *table.Entry) (uplink.Report, bool) {
	if k.rules.InForce == nil || e.Key == nil {
		return uplink.Report{}, false
	}
	p := k.rules.InForce.ByID[e.Rule]
	if p == nil || p.Local || k.uplink.Lane(p).Open || e.UnderWay(&p.Terms, now) {
		return uplink.Report{}, false
	}
	want, ok := e.Report(&p.Terms, now)
	if !ok {
		return uplink.Report{}, false
	}
	return uplink.Report{Policy: p, Key: p.Key(k.pop.Seed, e.Key), Want: want, Account: true}, true
}
