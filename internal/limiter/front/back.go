package front

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

const (
	// mostParts is how many parts a key may have to give back. Units of more are lost, and
	// come back when their charge expires.
	mostParts = 8
	// mostReturned bounds the names in a part, for the store looks each of them up.
	mostReturned = 32
)

// part is units of one lease on their way to the store, in one ask. What callers told over
// a network is not put into a node's own leases: the network may bring it to another replica
// as well, and only the store sees both.
type part struct {
	units    int64
	lease    uint32
	returned []limiter.Returned // what of the units callers told, by its names
	// by is by whose count they were granted, if that of the key is too small to have
	// granted them: the store would not believe it. nil: the key's.
	by *limiter.Policy
}

// partOf is a part that a node gives back.
func partOf(p lease.Part) part { return part{units: p.Units, lease: p.Lease} }

// grantedBy is the part with the policy by whose count it was granted.
func (p part) grantedBy(by *limiter.Policy) part {
	p.by = by
	return p
}

// ask is one that tells of nothing else.
func (p *part) ask(of *limiter.Policy, key []byte) limiter.Ask {
	if p.by != nil {
		of = p.by
	}
	return limiter.Ask{Policy: of, Key: key, Want: lease.Want{Unused: p.units, Lease: p.lease}, Returned: p.returned}
}

// returns takes what is given back under names out of an ask, whose counter has an entry.
// The ask may be the caller's: it is not changed.
func (c *call) returns(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask) limiter.Ask {
	rest := *a
	if rest.Returned == nil {
		return rest
	}
	rest.Returned = nil
	for _, r := range a.Returned {
		rest.Want.Unused -= r.Units
		c.store.giveBack(c.now, shard, e, part{units: r.Units, lease: a.Want.Lease, returned: []limiter.Returned{r}, by: a.Policy})
	}
	return rest
}

// giveBack notes units that go back to the store: the node holds their lease no more, or
// they have names.
func (s *Store) giveBack(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached], p part) {
	p = p.to(e.Policy)
	if p.units > 0 && (p.by == nil || !p.by.Terms.Lies(p.units)) {
		e.Value.keep(&e.Policy.Terms, p)
		s.due.add(now, shard, e, report)
	}
}

// to is a part of a key that is kept by a policy.
func (p part) to(key *limiter.Policy) part {
	switch {
	case !key.Terms.Lies(p.units):
		p.by = nil
	case p.by == nil:
		p.by = key
	}
	return p
}

// keep notes a part. One that is no lie does not become one together with others.
func (c *cached) keep(t *lease.Terms, p part) {
	for i := range c.back {
		if b := &c.back[i]; b.lease == p.lease && b.by == nil && p.by == nil && len(b.returned)+len(p.returned) <= mostReturned && !t.Lies(b.units+p.units) {
			b.units += p.units
			b.returned = append(b.returned, p.returned...)
			c.node.Back += p.units
			return
		}
	}
	if len(c.back) < mostParts {
		c.back = append(c.back, p)
		c.node.Back += p.units
	}
}

// attach puts what is to be given back into an ask, as much as fits: of one lease. The
// units count as on their way until the ask is answered. What was granted by another count
// goes alone, in an ask by that.
func (c *cached) attach(a *limiter.Ask) (units int64) {
	w := &a.Want
	for i, p := range c.back {
		if p.by != nil && (w.Want > 0 || w.Unused > 0 || w.Denied > 0 || w.Overdrawn > 0) {
			continue
		}
		if w.Unused == 0 || p.lease == w.Lease {
			if p.by != nil {
				a.Policy = p.by
			}
			w.Unused, w.Lease, a.Returned = w.Unused+p.units, p.lease, p.returned
			c.back = slices.Delete(c.back, i, i+1)
			return p.units
		}
	}
	return 0
}

// returnOthers gives back what was granted by another count, with nothing else. The shard is
// locked.
func (b *batch) returnOthers(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	v := &e.Value
	if v.guests == nil {
		v.guests = new(guests)
	}
	v.guests.returning++
	b.add(now, shard, e, nil, lease.Want{}, 0)
	b.members[len(b.members)-1].other = true
}

// owesOthers reports whether a key has to give back what was granted by another count.
func (c *cached) owesOthers() bool {
	return slices.ContainsFunc(c.back, func(p part) bool { return p.by != nil })
}
