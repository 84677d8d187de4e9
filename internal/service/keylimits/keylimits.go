// Package keylimits finds the limits of single keys of a rule, up to 100,000.
package keylimits

import (
	"hash/maphash"
	"math"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Table has the keys of a rule that have a limit of their own, by a hash of the key: the keys
// themselves are not kept. The seed is random, so that nobody can choose a key with the hash of
// another one, and of 64 bits none meets by chance. It is immutable. A nil Table has no key.
type Table struct {
	keys     map[uint64]entry
	later    map[uint64][]entry // that follow the one in keys when it ends, in order
	policies []*engine.Policy
	names    []byte // of overrides, each behind its length
}

// entry is small, because there may be 100,000.
type entry struct {
	policy uint32 // of the table
	until  uint32 // seconds since 1970; 0: it does not end
	name   uint32 // where it begins in the table
}

// Own is the limit of a key.
type Own struct {
	Policy *engine.Policy
	Until  limit.Micros // when the key has the rule's limit again; 0: never
	Name   []byte       // of the override; empty: it has none
}

var seed = maphash.MakeSeed()

// New makes the table of a rule, whose own policy is base; a rule with hash: true has its keys under
// each secret; nil if no key has a limit. Keys count on
// the counters that they have without it. Those with the same limit share a policy.
func New(r *rule.Rule, secrets []rule.Secret, base *engine.Policy) *Table {
	if len(r.Keys) == 0 {
		return nil
	}
	type amount struct {
		count, burst int64
		unlimited    bool
	}
	t := &Table{keys: make(map[uint64]entry, len(r.Keys)), names: []byte{0}}
	made, named := map[amount]uint32{}, map[string]uint32{"": 0}
	r.EachKey(secrets, func(key []byte, own *rule.KeyLimit) {
		of := amount{own.Limit.Count, own.Limit.Burst, own.Unlimited}
		e := entry{until: seconds(own.Until)}
		var known bool
		if e.policy, known = made[of]; !known {
			e.policy = uint32(len(t.policies))
			made[of] = e.policy
			p := base.Resized(of.count, of.burst)
			p.Unlimited = of.unlimited
			t.policies = append(t.policies, p)
		}
		if e.name, known = named[own.Name]; !known {
			e.name = uint32(len(t.names))
			named[own.Name] = e.name
			t.names = append(append(t.names, byte(len(own.Name))), own.Name...)
		}
		hash := maphash.Bytes(seed, key)
		if _, taken := t.keys[hash]; !taken {
			t.keys[hash] = e
			return
		}
		if t.later == nil {
			t.later = map[uint64][]entry{}
		}
		t.later[hash] = append(t.later[hash], e)
	})
	return t
}

// seconds is a time in whole seconds; what is later than 2106 does not end.
func seconds(t limit.Micros) uint32 {
	if s := t / limit.Second; s <= math.MaxUint32 {
		return uint32(s)
	}
	return 0
}

// Find returns the limit of a key, shortened by [rule.ShortKey], at a time; without a policy if it
// has none of its own.
func (t *Table) Find(key []byte, now limit.Micros) (own Own) {
	if t == nil {
		return own
	}
	hash := maphash.Bytes(seed, key)
	e, found := t.keys[hash]
	for _, next := range t.later[hash] {
		if e.over(now) {
			e = next
		}
	}
	if !found || e.over(now) {
		return own
	}
	name := t.names[e.name:]
	return Own{t.policies[e.policy], limit.Micros(e.until) * limit.Second, name[1 : 1+name[0]]}
}

// over reports whether an override has ended.
func (e *entry) over(now limit.Micros) bool {
	return e.until != 0 && now >= limit.Micros(e.until)*limit.Second
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
