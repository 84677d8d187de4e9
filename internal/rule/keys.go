package rule

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// keyOf is the key of the requests that have these values, one for each part of the rule's
// key, as [Set.Match] makes it.
func (r *Rule) keyOf(values []string) []byte {
	var key []byte
	for i, v := range values {
		if i > 0 {
			key = append(key, '|')
		}
		if s := r.Match.spelling(); s != 0 && r.Key[i][0].From == FromPath {
			v = string(s.key(s.append(nil, v)))
		}
		key = r.Key[i].AppendValue(key, v)
	}
	return ShortKey(key)
}

// EachKey calls do with each key of the rule that has a limit of its own.
func (r *Rule) EachKey(do func(key []byte, own limit.Spec)) {
	for i := range r.Keys {
		do(r.keyOf(r.Keys[i].Key), r.Keys[i].Limit)
	}
}

// keyLimits checks the overrides by key.
func (c *checker) keyLimits(r *Rule) {
	if len(r.Keys) == 0 {
		return
	}
	base, first := r.Limits[0].Limit, c.ofKey(r, 0)
	switch {
	case r.Scope == ScopePoP:
		c.add(first+"key", "needs a tier that counts for all PoPs, and scope: pop counts at the PoP, which has no limits of single keys; write scope: region, or when", "scope")
		return
	case base.Algorithm == limit.Concurrency:
		c.add(first+"key", "is not for slots in this version; write when, or another algorithm", "algorithm")
		return
	case len(r.Key) == 0:
		c.add(first+"key", "needs a rule with a key, and the key of this one is []; write the parts of the rule's key", "key")
		return
	}
	seen := make(map[string]int, len(r.Keys))
	for i := range r.Keys {
		k, prefix := &r.Keys[i], c.ofKey(r, i)
		if c.keyValues(r, k, prefix+"key") {
			key := string(r.keyOf(k.Key))
			if other, ok := seen[key]; ok {
				c.add(prefix+"key", "is the same key as that of another override; remove one; the first is "+c.at(c.ofKey(r, other)+"key"))
				c.found[len(c.found)-1].other = c.at(c.ofKey(r, other) + "key")
			} else {
				seen[key] = i
			}
		}
		c.keyLimit(r, k, prefix)
	}
}

// ofKey is how the paths of the override i by key begin: it stands behind those with when.
func (c *checker) ofKey(r *Rule, i int) string { return ofVariant(len(r.Limits) + i) }

// keyValues checks the values of an override's key against the parts of the rule's.
func (c *checker) keyValues(r *Rule, k *KeyLimit, field string) bool {
	before := len(c.found)
	if len(k.Key) != len(r.Key) {
		c.add(field, "has "+strconv.Itoa(len(k.Key))+" values, and the key of the rule has "+strconv.Itoa(len(r.Key))+" parts; write a value for each", "key")
		return false
	}
	for i, v := range k.Key {
		at := strict.Index(field, i)
		if len(r.Key[i]) == 0 {
			return false // has been reported
		}
		switch first := r.Key[i][0]; {
		case v == "":
			c.add(at, "is empty; write the value that requests have: those without it have no such key")
		case len(v) > MaxText:
			c.add(at, "has "+strconv.Itoa(len(v))+" bytes; write at most "+strconv.Itoa(MaxText))
		case first.From == FromClientIP && parseAddr(v).size == 0:
			c.add(at, strict.Quote(v)+" is no address; write one, such as 192.0.2.1, or 2001:db8:: for an IPv6 prefix", "key")
		case first.From == FromPath && (v[0] != '/' || (&Request{Path: v}).path() != v):
			c.add(at, strict.Quote(v)+" is no path; write one that begins with / and has no query", "key")
		case first.From == FromConst && v != first.Name:
			c.add(at, "is not the constant of the rule's key; write "+strict.Quote(first.Name), "key")
		}
	}
	return len(c.found) == before
}

// keyLimit checks the limit of one key.
func (c *checker) keyLimit(r *Rule, k *KeyLimit, prefix string) {
	base := r.Limits[0].Limit
	switch own := k.Limit; {
	case !sameButAmount(own, base):
		c.add(prefix+"limit", "differs from the rule's own in more than count and burst")
		return
	case own.Period != base.Period && own.Period != 0:
		c.add(prefix+"limit.per", formatPeriod(own.Period)+" is not the rule's own; write "+formatPeriod(base.Period)+
			": the key stays on the counter that it has without the override", "limit", "algorithm", prefix+"limit")
		return
	}
	c.spec(prefix, k.Limit)
	c.capacity(prefix, r.Cost, k.Limit)
	if r.Consistency != lease.Exact {
		c.leased(prefix, r, k.Limit)
	}
}

// encodeKeys writes the overrides by key in one canonical form, which only names them; nil
// if there are none.
func encodeKeys(rules []Rule) []byte {
	var w writer
	for i := range rules {
		r := &rules[i]
		if len(r.Keys) == 0 {
			continue
		}
		lines := make([]string, 0, len(r.Keys))
		r.EachKey(func(key []byte, own limit.Spec) {
			one := writer{}
			one.open('[').string(string(key))
			one.limit(own)
			lines = append(lines, string(one.close(']').buf))
		})
		slices.Sort(lines)
		w.string(r.Name)
		w.strings(lines)
	}
	return w.buf
}
