package leasecache

import (
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
)

// mostParts is how many parts a key may have to give back. Units of more are lost, and
// come back when their charge expires.
const mostParts = 8

// part is units of one lease on their way to the store, in one ask.
type part struct {
	units int64
	lease uint32
}

// partOf is a part that a relay gives back.
func partOf(p lease.Part) part { return part{units: p.Units, lease: p.Lease} }

// ask is one that reports nothing else.
func (p *part) ask(of *engine.Policy, key []byte) engine.Ask {
	return engine.Ask{Policy: of, Key: key, Want: lease.Want{Unused: p.units, Lease: p.lease}}
}

// giveBack notes units that go back to the store: the relay has no lease to put them into.
func (k key) giveBack(now lease.Millis, p part) {
	if p.units > 0 && !k.Policy.Terms.Lies(p.units) {
		k.Value.keepBack(&k.Policy.Terms, p)
		k.schedule(now, report)
	}
}

// keepBack keeps a part until an ask goes out. Parts are joined only if the sum is as
// credible as each of them.
func (c *cached) keepBack(t *lease.Terms, p part) {
	for i := range c.back {
		if b := &c.back[i]; b.lease == p.lease && !t.Lies(b.units+p.units) {
			b.units += p.units
			c.relay.Back += p.units
			return
		}
	}
	if len(c.back) < mostParts {
		c.back = append(c.back, p)
		c.relay.Back += p.units
	}
}

// attachBack puts what is to be given back into an ask, as much as fits: of one lease, and no
// more than the store accepts. The units count as on their way until the ask is answered.
func (c *cached) attachBack(a *engine.Ask) (units int64) {
	w := &a.Want
	for i, p := range c.back {
		if w.Unused == 0 || p.lease == w.Lease && !a.Policy.Terms.Lies(w.Unused+p.units) {
			w.Unused, w.Lease = w.Unused+p.units, p.lease
			c.back = slices.Delete(c.back, i, i+1)
			return p.units
		}
	}
	return 0
}

// unlease takes all units out of the leases that have begun by then, to be given back.
func (c *cached) unlease(t *lease.Terms, begun lease.Millis) {
	for i := range c.relay.Account.Lots {
		if lot := &c.relay.Account.Lots[i]; lot.Units > 0 && lot.From <= begun && !lot.Local {
			c.keepBack(t, part{units: lot.Units, lease: lot.Lease})
			*lot = lease.Lot{}
		}
	}
}
