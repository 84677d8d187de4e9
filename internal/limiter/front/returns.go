package front

import (
	"cmp"
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
	// by is the policy by whose count the units were granted, if that of the key is too
	// small to have granted them: the store would not accept them. nil: the key's.
	by *engine.Policy
}

// partOf is a part that a relay gives back.
func partOf(p lease.Part) part { return part{units: p.Units, lease: p.Lease} }

// to is the part, granted by the count of by, as one of a key whose policy is own.
func (p part) to(own, by *engine.Policy) part {
	if p.by = nil; own.Terms.Lies(p.units) {
		p.by = by
	}
	return p
}

// ask is one that reports nothing else.
func (p *part) ask(of *engine.Policy, key []byte) engine.Ask {
	return engine.Ask{Policy: cmp.Or(p.by, of), Key: key, Want: lease.Want{Unused: p.units, Lease: p.lease}}
}

// giveBack notes units that go back to the store: the relay has no lease to put them into.
func (k key) giveBack(now lease.Millis, p part) {
	if p.units <= 0 {
		return
	}
	if p = p.to(k.Policy, cmp.Or(p.by, k.Policy)); p.by == nil || !p.by.Terms.Lies(p.units) {
		k.Value.keepBack(&k.Policy.Terms, p)
		k.schedule(now, report)
	}
}

// keepBack keeps a part until an ask goes out. Parts are joined only if the sum is as
// credible as each of them.
func (c *cached) keepBack(t *lease.Terms, p part) {
	for i := range c.back {
		if b := &c.back[i]; b.lease == p.lease && b.by == nil && p.by == nil && !t.Lies(b.units+p.units) {
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
// more than the store accepts. The units count as on their way until the ask is answered. What
// was granted by another count goes alone, in an ask by that.
func (c *cached) attachBack(a *engine.Ask) (units int64) {
	w := &a.Want
	for i, p := range c.back {
		if p.by != nil && (w.Want > 0 || w.Unused > 0 || w.Denied > 0 || w.Overdrawn > 0) {
			continue
		}
		if w.Unused == 0 || p.lease == w.Lease && !a.Policy.Terms.Lies(w.Unused+p.units) {
			a.Policy = cmp.Or(p.by, a.Policy)
			w.Unused, w.Lease = w.Unused+p.units, p.lease
			c.back = slices.Delete(c.back, i, i+1)
			return p.units
		}
	}
	return 0
}

// owesOthers reports whether a key has to give back what was granted by another count.
func (c *cached) owesOthers() bool {
	return slices.ContainsFunc(c.back, func(p part) bool { return p.by != nil })
}

// returnOthers gives back what was granted by another count, with nothing else. The shard is
// locked.
func (b *batch) returnOthers(now lease.Millis, k key) *pending {
	v := &k.Value
	if v.overrides == nil {
		v.overrides = new(overrides)
	}
	v.overrides.returning++
	p := b.add(now, k, nil, lease.Want{}, 0)
	p.other = true
	return p
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
