package check

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

func (c *checker) key(r *rule.Rule) {
	for i, p := range r.Key {
		at := strict.Index("key", i)
		for j, s := range p {
			c.source(at, s)
			if s.From == rule.FromSegment {
				c.segment(at+".segment", s.Name, r.Match.Paths)
			}
			at += ".else"
			switch s.From {
			case rule.FromConst, rule.FromPath, rule.FromMethod, rule.FromSegment:
				c.reject(j < len(p)-1, at, "is never used: every request has "+s.From.String()+"; remove it")
			}
		}
	}
}

func (c *checker) source(at string, s rule.Source) {
	field := at + "." + s.From.String()
	c.nameOf(s.From, field, s.Name)
	c.reject(s.From == rule.FromHeader && s.Name == "x-forwarded-for", field,
		"x-forwarded-for begins with what the client claims; write { client_ip: { trusted_hops: 1 } } for what your proxy added")
}

// segment checks that each path of the rule's match has the segment of a key.
func (c *checker) segment(field, name string, paths []rule.Text) {
	placeholder := "{" + name + "}"
	has := rule.IsPlaceholder(placeholder) && len(paths) > 0
	for _, p := range paths {
		has = has && p.Op == rule.OpTemplate && strings.Count(p.Arg, placeholder) == 1
	}
	c.reject(!has, field, strict.Quote(name)+" must be in each path of the rule, once; write match: { path: { template: '/users/{id}' } } for { segment: id }", "match.path")
}

// keyLimits checks the overrides by key.
func (c *checker) keyLimits(r *rule.Rule) {
	if len(r.Keys) == 0 {
		return
	}
	base, first := r.Limits[0].Limit, c.ofKey(r, 0)
	switch {
	case r.Scope == rule.ScopePoP:
		c.add(first+"key", "sets the limit of one key, and scope: pop has no limits of single keys; write scope: region, or use when", "scope")
		return
	case base.Algorithm == limit.Concurrency:
		c.add(first+"key", "is not for slots in this version; write when, or another algorithm", "algorithm")
		return
	case len(r.Key) == 0:
		c.add(first+"key", "needs a rule with a key, and the key of this one is []; write the parts of the rule's key", "key")
		return
	}
	seen, names := make(map[string]int, len(r.Keys)), map[string]int{}
	for i := range r.Limits[1:] {
		names[r.Limits[i+1].Name] = i
	}
	for i := range r.Keys {
		k, prefix := &r.Keys[i], c.ofKey(r, i)
		c.overrideName(names, k.Name, len(r.Limits)-1+i)
		if c.keyValues(r, k, prefix+"key") {
			key := string(r.KeyOf(k.Key))
			if other, ok := seen[key]; ok && !follows(k.Until, r.Keys[other].Until) {
				c.taken(prefix+"key", "is the same key as that of another override; remove one", c.at(c.ofKey(r, other)+"key"))
			} else {
				seen[key] = i
			}
		}
		c.keyLimit(r, k, prefix)
	}
}

// follows reports whether an override that ends then, or never with 0, is still there when the one before it ends.
func follows(until, before limit.Micros) bool {
	return before != 0 && (until == 0 || until > before)
}

// ofKey is how the paths of the override i by key begin: it stands behind those with when.
func (c *checker) ofKey(r *rule.Rule, i int) string { return ofVariant(len(r.Limits) + i) }

// keyValues checks the values of an override's key against the parts of the rule's.
func (c *checker) keyValues(r *rule.Rule, k *rule.KeyLimit, field string) bool {
	before, parts := len(c.found), r.KeyParts(k.Key)
	switch {
	case rule.IsHash(k.Key):
		c.reject(!r.Hash && k.Key[0][1] == 'h', field, "is a hash, which is for a rule with hash: true; write the key", "hash")
		return true
	case len(parts) != len(r.Key):
		c.add(field, "has "+strconv.Itoa(len(parts))+" values, and the key of the rule has "+strconv.Itoa(len(r.Key))+" parts; write a value for each", "key")
		return false
	}
	for i, text := range parts {
		at := strict.Index(field, min(i, len(k.Key)-1))
		n, v := r.Key[i].Read(text)
		switch first := &r.Key[i][n]; {
		case v == "":
			c.add(at, "is empty; write a value, because requests with an empty value have no key")
		case len(v) > rule.MaxText:
			c.atMost(at, len(v), rule.MaxText, "bytes")
		case first.From == rule.FromClientIP && !first.Address(v).Valid():
			c.add(at, strict.Quote(v)+" is no address; write one, such as 192.0.2.1, or 2001:db8:: for an IPv6 prefix", "key")
		case first.From == rule.FromPath && (v[0] != '/' || strings.ContainsAny(v, "?#")):
			c.add(at, strict.Quote(v)+" is no path; write one that begins with / and has no query", "key")
		case first.From == rule.FromSegment && strings.ContainsAny(v, "/?#"):
			c.add(at, strict.Quote(v)+" is more than one segment of a path; write one", "key")
		case first.From == rule.FromConst && v != first.Name:
			c.add(at, "is not the constant of the rule's key; write "+strict.Quote(first.Name), "key")
		}
	}
	return len(c.found) == before
}

// keyLimit checks the limit of one key.
func (c *checker) keyLimit(r *rule.Rule, k *rule.KeyLimit, prefix string) {
	base := r.Limits[0].Limit
	switch own := k.Limit; {
	case k.Unlimited:
		return
	case !own.Calendar.Same(base.Calendar):
		c.add(prefix+"limit.per", "differs from the period of the rule; write that period, without zone and anchor: an override by key uses the rule's counter",
			"limit", "algorithm", prefix+"limit")
		return
	case own.Period != base.Period && own.Period != 0:
		c.add(prefix+"limit.per", rule.FormatPeriod(own.Period)+" differs from the period of the rule; write "+rule.FormatPeriod(base.Period)+
			": an override by key uses the rule's counter", "limit", "algorithm", prefix+"limit")
		return
	}
	c.spec(prefix, k.Limit, base)
	c.capacity(prefix, r.Cost, k.Limit)
	if r.Consistency != lease.Exact {
		c.leased(prefix, r, k.Limit)
	}
}
