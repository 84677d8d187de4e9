package rls

import (
	"fmt"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/rls/descriptor"
)

// Bindings say which descriptors are limited by rules of the rules file. They are
// safe for concurrent use.
//
//	bindings:
//	  - domain: api
//	    descriptor:
//	      - key: user                  # any value; it is a part of the rule's key
//	      - { key: plan, value: gold } # this value only; no part of the key
//	    rule: per-user
//
// A binding is for descriptors of as many entries, in the same order. At each entry
// the one that names the value comes before the one that does not, and there is no
// way back from it to the other. It comes before any rule of the same descriptor in
// the configuration of envoyproxy/ratelimit. A descriptor that brings its own limit
// is not bound.
//
// The values of entries without value are the parts of the rule's key, in their
// order: there have to be as many, and each stands for the first source of its part.
// They are written as PoPs write them, an IPv6 client by its prefix and a path without
// its query, so that both count on the same counter. A descriptor of which one of
// these is empty is not bound, as a request without that part does not match the
// rule. The rule's own match, cost and overrides by header do not apply: there is no
// request to look at.
type Bindings struct {
	domains map[string]*branch
	all     []*binding // in the order of the file
	version string
	file    string // its name
}

// branch is one level of the tree of a domain.
type branch struct {
	exact   map[descriptor.Entry]*branch
	any     map[string]*branch // by key
	binding *binding           // of descriptors that end here
}

// binding is one of the list.
type binding struct {
	domain  string
	entries []descriptor.Entry // without value: any
	keyed   []int              // those without value: what they have is a part of the key
	rule    string
	at      strict.Pos               // of rule in the file
	current atomic.Pointer[prepared] // the rule's version that was used last
}

// Len is how many bindings there are.
func (b *Bindings) Len() int { return len(b.all) }

// Version names what the bindings mean.
func (b *Bindings) Version() string { return b.version }

// find is the binding of a descriptor, nil if there is none.
func (b *Bindings) find(domain string, entries []descriptor.Entry) *binding {
	at := b.domains[domain]
	for i := range entries {
		if at == nil {
			return nil
		}
		if exact := at.exact[entries[i]]; exact != nil {
			at = exact
		} else {
			at = at.any[entries[i].Key]
		}
	}
	if at == nil || at.binding == nil {
		return nil
	}
	for _, i := range at.binding.keyed {
		if entries[i].Value == "" {
			return nil
		}
	}
	return at.binding
}

// appendKey appends the key of the rule's counter. The rule's key has these parts.
func (b *binding) appendKey(dst []byte, parts []rule.Part, entries []descriptor.Entry) []byte {
	for n, i := range b.keyed {
		if n > 0 {
			dst = append(dst, '|')
		}
		dst = parts[n].AppendValue(dst, entries[i].Value)
	}
	return dst
}

// resolve is the bound rule in its present version. It is nil if the rule is off, or
// cannot be bound, see flaw.
func (s *Server) resolve(b *binding) *prepared {
	p := s.cfg.Rules(b.rule)
	if ready := b.current.Load(); ready != nil && ready.policy == p {
		return ready
	}
	if b.flaw(p) != "" || p.Mode == rule.Off {
		return nil
	}
	made := s.native(p)
	made.binding = b
	b.current.Store(made)
	return made
}

// flaw says why its rule cannot be bound; empty if it can. One that is off can: it
// limits nothing for as long as it is.
func (b *binding) flaw(p *limiter.Policy) string {
	name := "rule " + strict.Quote(b.rule)
	switch {
	case p == nil:
		return name + " is not in the rules file"
	case p.Limit.Spec().Algorithm == limit.Concurrency: // no client would ever release a slot
		return name + " limits concurrency; clients of this protocol do not say when they are done, bind a rule with another algorithm"
	case len(p.Key) != len(b.keyed):
		return fmt.Sprintf("%s has a key of parts: %d, entries without value here: %d; leave the value out of one entry for each part, in their order", name, len(p.Key), len(b.keyed))
	}
	return ""
}
