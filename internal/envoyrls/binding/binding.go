// Package binding reads files of bindings, which bind descriptors of Envoy's rate limit service to rules of the rules file.
//
//	bindings:
//	  - domain: api
//	    descriptor:
//	      - key: user                  # any value; it is a part of the rule's key
//	      - { key: plan, value: gold } # this value only; no part of the key
//	    rule: per-user
//
// A binding applies to descriptors with as many entries, in the same order. At each entry, a binding with this value comes
// before a binding without a value, and matching does not go back from one to the other. So "unbound: true" in place of rule
// excludes single values from a binding for any value: their descriptors are treated as without a binding.
//
// The values of entries without value are the parts of the rule's key, in their order. There must be as many, and each stands
// for the first source of its part. They are written as PoPs write them, an IPv6 client by its prefix and a path without its
// query, so that both use the same counter. A descriptor with an empty value is not bound, as a request without that part does
// not match the rule.
package binding

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Set is the bindings of a file. It is immutable and safe for concurrent use.
type Set struct {
	domains map[string]*branch
	all     []*Binding // in the order of the file
	version string
	file    string // its name
}

// branch is one level of the tree of a domain.
type branch struct {
	below   map[descriptor.Entry]*branch // of an entry without value: for any
	binding *Binding                     // of descriptors that end here
}

// Binding is one item of the list.
type Binding struct {
	Domain  string
	Entries []descriptor.Entry // without value: any
	Rule    string             // name of a rule of the rules file; empty: unbound
	Index   int                // its place in the file, from 0

	keyed []int      // entries without value: their values are the parts of the key
	at    strict.Pos // of rule in the file
}

// Len is how many bindings there are.
func (s *Set) Len() int { return len(s.all) }

// All yields the bindings in the order of the file.
func (s *Set) All() iter.Seq[*Binding] { return slices.Values(s.all) }

// Version identifies the meaning of the bindings.
func (s *Set) Version() string { return s.version }

// Domain reports whether there are bindings for a domain.
func (s *Set) Domain(name string) bool { return s.domains[name] != nil }

// Find returns the binding of a descriptor, nil if there is none. It allocates nothing.
func (s *Set) Find(domain string, entries []descriptor.Entry) *Binding {
	at := s.domains[domain]
	for i := range entries {
		if at == nil {
			return nil
		}
		if exact := at.below[entries[i]]; exact != nil {
			at = exact
		} else {
			at = at.below[descriptor.Entry{Key: entries[i].Key}]
		}
	}
	if at == nil || at.binding == nil || at.binding.Rule == "" {
		return nil
	}
	for _, i := range at.binding.keyed {
		if entries[i].Value == "" {
			return nil
		}
	}
	return at.binding
}

// AppendKey appends the key of the counter of a bound descriptor. parts is the key of the
// rule, which has no [Binding.Flaw].
func (b *Binding) AppendKey(dst []byte, parts []rule.Part, entries []descriptor.Entry) []byte {
	for n, i := range b.keyed {
		if n > 0 {
			dst = append(dst, '|')
		}
		dst = parts[n].AppendValue(dst, entries[i].Value)
	}
	return dst
}

// Flaw returns why the rule of the binding cannot be bound; empty if it can. all are what the
// rule was expanded into; none: there is no such rule. A rule that is off can be bound; it limits
// nothing.
func (b *Binding) Flaw(all []*rule.Rule) string {
	name := "rule " + strict.Quote(b.Rule)
	for _, r := range all {
		switch {
		case r.Limits[0].Limit.Algorithm == limit.Concurrency: // no client would ever release a slot
			return name + " limits concurrency; clients of this protocol do not release slots; bind a rule with another algorithm"
		case r.Settles(): // no message of this protocol tells the response
			return name + " has count or cost.actual, which need the response; clients of this protocol do not send it; bind a rule without them"
		case r.Hash:
			return name + " has hash: true, which is for requests that PoPs see; bind a rule without it"
		case len(r.Key) != len(b.keyed):
			return fmt.Sprintf("%s has a key of parts: %d, entries without value here: %d; leave the value out of one entry for each part, in their order", name, len(r.Key), len(b.keyed))
		}
	}
	if len(all) == 0 {
		return name + " is not in the rules file"
	}
	return ""
}

// Check returns an error for each binding whose rule cannot be bound, and the number of
// bindings whose rule is off. find returns what a rule was expanded into.
func (s *Set) Check(find func(name string) []*rule.Rule) (errs strict.Errors, off int) {
	for _, b := range s.all {
		if b.Rule == "" {
			continue
		}
		all := find(b.Rule)
		if reason := b.Flaw(all); reason != "" {
			errs = append(errs, strict.Error{File: s.file, Pos: b.at, Path: "rule", Reason: reason})
		} else if !slices.ContainsFunc(all, func(r *rule.Rule) bool { return r.Mode != rule.Off }) {
			off++
		}
	}
	return errs, off
}

// Write lists the bindings, one a line.
func (s *Set) Write(w io.Writer) {
	for _, b := range s.all {
		fmt.Fprintf(w, "%q", b.Domain)
		for _, e := range b.Entries {
			fmt.Fprintf(w, " %q", e.Key)
			if e.Value != "" {
				fmt.Fprintf(w, "=%q", e.Value)
			}
		}
		if b.Rule == "" {
			fmt.Fprint(w, ": unbound\n")
			continue
		}
		fmt.Fprintf(w, ": rule %s\n", b.Rule)
	}
}
