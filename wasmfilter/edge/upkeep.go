package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// scanTicks is in how many ticks the leader has looked through the table once.
const scanTicks = 100

// upkeep is the work that no request waits for: every worker renews its slots, and
// the leader looks through the table for what idle keys have to report.
type upkeep struct {
	port     *Port
	pop      *pop
	rules    *rulebook
	accounts *accounts
	slots    *slots
	uplink   *uplink

	scanned int // next page to look through
	keys    struct{ enforced, shadow int }
	fill    Fill // by the last round
	news    bool // nobody has read that yet
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
		if hd.published == 0 || hd.inUse+may > 0 && now >= hd.published-hd.ttl()/2 {
			k.slots.publish(now, hd)
		}
		lately := now < hd.Asked+p.terms.Interval || p.local || p.lane.Open || hd.Back.Off(now)
		switch {
		case k.uplink.asks[hash] != nil:
		case k.rules.inForce == nil || k.rules.inForce.byID[uint32(p.id)] == nil: // its rule is gone
			if hd.inUse == 0 {
				delete(k.slots.holdings, hash)
			}
		case now < hd.owes:
			if !lately { // the answer was lost
				k.uplink.gather(now, p, hd.key, lease.Want{})
			}
		case hd.inUse == 0 && may == 0 && hd.published > 0 && now >= hd.NextAsk && !hd.Back.Matters(now):
			delete(k.slots.holdings, hash)
		case lately, may == hd.inUse && now < hd.Until-hd.TTL/2:
		default:
			k.slots.share(now, hd, func() bool { return false }) // look
			if hd.Due(&p.terms, now, hd.needed(now)) {
				k.uplink.gather(now, p, hd.key, lease.Want{})
			}
		}
	}
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
			k.fill, k.news = Fill{max(k.keys.enforced, k.keys.shadow), pages * table.PageEntries}, true
			k.keys.enforced, k.keys.shadow = 0, 0
		}
	}
	k.slots.sweep(now)
}

// scanPage collects what the keys of a page have to report, drops idle ones, and returns how
// many it keeps.
func (k *upkeep) scanPage(now lease.Millis, t *table.Table) (kept int) {
	var found []report
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
		lane := r.policy.lane
		lane.queue(&lane.findings, r)
	}
	return kept
}

// find takes what an entry has to give back or to report out of it.
func (k *upkeep) find(now lease.Millis, e *table.Entry) (report, bool) {
	if k.rules.inForce == nil || e.Key == nil {
		return report{}, false
	}
	p := k.rules.inForce.byID[e.Rule]
	if p == nil || p.lane == nil || p.lane.Open || e.UnderWay(&p.terms, now) {
		return report{}, false
	}
	want, ok := e.Report(&p.terms, now)
	if !ok {
		return report{}, false
	}
	text := append([]byte(nil), e.Key...)
	return report{p, p.key(k.pop.seed, text), want}, true
}
