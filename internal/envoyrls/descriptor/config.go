// Package descriptor reads the configuration of envoyproxy/ratelimit, unchanged, and finds the rule of a descriptor in it.
//
// A descriptor is a list of entries, each a key and a value. A configuration is a tree for each domain. The entries of a
// descriptor select one level after the other: first the child with this key and value, else the first in the file with this
// key and a wildcard that matches the value (each * stands for zero or more bytes), else the child with this key and no value.
// Matching never goes back to an earlier level. The rule is that of the last entry's level, if all entries were used. A
// descriptor without a rule is allowed and not counted.
//
// A level that was found by a wildcard or by its key alone has a counter for each value. With share_threshold, all values of
// a wildcard share one.
//
// docs/ratelimit-service.md lists the intended differences from envoyproxy/ratelimit.
package descriptor

import (
	"iter"
	"slices"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// Config is a configuration that was read without a mistake. It is immutable and
// safe for concurrent use.
type Config struct {
	domains  map[string]*Level
	order    []*Level // the domains in the order of the files
	rules    []*Rule
	warnings strict.Errors
	version  string
}

// Level is one level of the tree: a domain, or a descriptor of a file.
type Level struct {
	Key, Value string // of a domain its name, and nothing; no value: the key alone
	Wildcard   bool   // the value has a *
	Shared     bool   // share_threshold
	Path       string // as Rule.Path
	File       string
	Line       int      // of a domain 0
	Rule       *Rule    // nil: no rate_limit here
	Below      []*Level // in the order of the files

	valueToMetric bool
	way           []*Level // from below the domain to here
	glob          glob     // of a wildcard

	// children are by key and configured value, "" for the key alone. A wildcard is
	// among them under its text, as a value that equals that text is an exact match.
	children  map[Entry]*Level
	wildcards []*Level // those of Below
}

// Tree returns the domains in the order of the files. It must not be changed.
func (c *Config) Tree() []*Level { return c.order }

// Match finds the rule of a descriptor; nil if there is none, which allows it
// without counting. It allocates nothing. It takes two map accesses for each entry, and
// a comparison for each wildcard beside the level that it is about.
func (c *Config) Match(domain string, entries []Entry) *Rule {
	n := c.domains[domain]
	if n == nil || len(entries) == 0 {
		return nil
	}
	for i := range entries {
		if n = n.next(&entries[i]); n == nil {
			return nil
		}
	}
	return n.Rule
}

// next returns the child that an entry leads to, nil if there is none.
func (n *Level) next(e *Entry) *Level {
	if e.Value != "" {
		if child := n.children[*e]; child != nil {
			return child
		}
	}
	for _, child := range n.wildcards {
		if child.Key == e.Key && child.glob.match(e.Value) {
			return child
		}
	}
	return n.children[Entry{Key: e.Key}]
}

// attach makes child one of n's children. If there is one of the same key and
// value, it changes nothing and returns that.
func (n *Level) attach(child *Level) (present *Level) {
	at := Entry{child.Key, child.Value}
	if present = n.children[at]; present != nil {
		return present
	}
	if n.children == nil {
		n.children = map[Entry]*Level{}
	}
	n.children[at] = child
	if child.Wildcard {
		child.glob = newGlob(child.Value)
		n.wildcards = append(n.wildcards, child)
	}
	n.Below = append(n.Below, child)
	return nil
}

// Domain reports whether there is a domain of this name.
func (c *Config) Domain(name string) bool { return c.domains[name] != nil }

// Rules yields all rules in the order of the files.
func (c *Config) Rules() iter.Seq[*Rule] { return slices.Values(c.rules) }

// Warnings are about parts of the files that have no effect, or probably not the intended
// one, and about mistakes that are accepted because envoyproxy/ratelimit accepts them.
func (c *Config) Warnings() strict.Errors { return slices.Clone(c.warnings) }

// Version identifies the content of the files.
func (c *Config) Version() string { return c.version }
