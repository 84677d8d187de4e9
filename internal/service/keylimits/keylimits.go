// Package keylimits finds the limits of single keys of a rule, up to 100,000.
package keylimits

import (
	"hash/maphash"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Table has the keys of a rule that have a limit of their own, by a hash of the key: the keys
// themselves are not kept. The seed is random, so that nobody can choose a key with the hash of
// another one, and of 64 bits none meets by chance. It is immutable. A nil Table has no key.
type Table map[uint64]*Own

// Own is the limit of a key.
type Own struct {
	Policy *engine.Policy
	Until  limit.Micros // when the key has the rule's limit again; 0: never
	Name   []byte       // of the override; empty: it has none
	next   *Own         // follows when this one ends
}

var seed = maphash.MakeSeed()

// New makes the table of a rule, whose own policy is base; a rule with hash: true has its keys under
// each secret; nil if no key has a limit. Keys count on
// the counters that they have without it. Those with the same limit share a policy.
func New(r *rule.Rule, secrets []rule.Secret, base *engine.Policy) Table {
	if len(r.Keys) == 0 {
		return nil
	}
	type amount struct {
		count, burst int64
		unlimited    bool
	}
	t, policies, names := make(Table, len(r.Keys)), map[amount]*engine.Policy{}, map[string][]byte{}
	r.EachKey(secrets, func(key []byte, own *rule.KeyLimit) {
		of := amount{own.Limit.Count, own.Limit.Burst, own.Unlimited}
		if policies[of] == nil {
			policies[of] = base.Resized(of.count, of.burst)
			policies[of].Unlimited = of.unlimited
		}
		if names[own.Name] == nil {
			names[own.Name] = []byte(own.Name)
		}
		one := &Own{Policy: policies[of], Until: own.Until, Name: names[own.Name]}
		hash := maphash.Bytes(seed, key)
		last := t[hash]
		if last == nil {
			t[hash] = one
			return
		}
		for last.next != nil {
			last = last.next
		}
		last.next = one
	})
	return t
}

// Find returns the limit of a key, shortened by [rule.ShortKey], at a time; without a policy if it
// has none of its own.
func (t Table) Find(key []byte, now limit.Micros) Own {
	if t == nil {
		return Own{}
	}
	for own := t[maphash.Bytes(seed, key)]; own != nil; own = own.next {
		if own.Until == 0 || now < own.Until {
			return *own
		}
	}
	return Own{}
}

// Grant answers a want of a key without a limit: all of it, charged to nothing. It may be spent
// until the override ends.
func (o *Own) Grant(w *lease.Want, now limit.Micros) lease.Grant {
	ttl := o.Policy.Limit.Spec().LeaseTTL
	if o.Until != 0 {
		ttl = min(ttl, o.Until-now)
	}
	return lease.Grant{
		Status: lease.OK, Granted: w.Want, TTL: lease.Millis(ttl / limit.Millisecond),
		Limit: lease.Unlimited, Remaining: lease.Unlimited,
	}
}
