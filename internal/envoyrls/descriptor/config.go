package descriptor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// Config is a configuration that was read without a mistake. It is immutable and
// safe for concurrent use.
type Config struct {
	domains  map[string]*Level
	order    []*Level // the domains in the order of the files
	rules    []*Rule  // in the order of the files
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
	order         int      // of a wildcard: its place beside the others

	// children are by key and configured value, "" for the key alone. A wildcard is
	// among them under its text, as a value that equals that text is an exact match.
	children  map[Entry]*Level
	wildcards map[string]*wildcards // by key
}

// Tree returns the domains in the order of the files. It must not be changed.
func (c *Config) Tree() []*Level { return c.order }

// Match finds the rule of a descriptor; nil if there is none, which allows it
// without counting. It allocates nothing. It takes a few map accesses for each
// entry and a comparison for each wildcard that begins as the entry's value.
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
	if w := n.wildcards[e.Key]; w != nil {
		if child := w.first(e.Value); child != nil {
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
		n.addWildcard(child)
	}
	n.Below = append(n.Below, child)
	return nil
}

func (n *Level) addWildcard(child *Level) {
	if n.wildcards == nil {
		n.wildcards = map[string]*wildcards{}
	}
	w := n.wildcards[child.Key]
	if w == nil {
		w = &wildcards{byPrefix: map[string][]*Level{}}
		n.wildcards[child.Key] = w
	}
	child.glob, child.order = newGlob(child.Value), len(n.Below)
	w.add(child)
}

// Domain reports whether there is a domain of this name.
func (c *Config) Domain(name string) bool { return c.domains[name] != nil }

// Rules yields all rules, domain by domain, each level before those below it, in
// the order of the files.
func (c *Config) Rules() iter.Seq[*Rule] { return slices.Values(c.rules) }

// Warnings are about parts of the files that have no effect, or probably not the intended
// one, and about mistakes that are accepted because envoyproxy/ratelimit accepts them.
func (c *Config) Warnings() strict.Errors { return slices.Clone(c.warnings) }

// Version identifies the meaning of the configuration: a hash of its content. Files that
// differ in layout, comments, names or their split of domains have the same.
func (c *Config) Version() string { return c.version }

// seal completes the configuration when the whole tree is known.
func (c *Config) seal() {
	c.rules = nil
	for _, domain := range c.order {
		c.rules = domain.appendRules(c.rules)
	}
	h := sha256.New()
	byName := slices.SortedFunc(slices.Values(c.order), func(a, b *Level) int { return strings.Compare(a.Path, b.Path) })
	for _, domain := range byName {
		h.Write(domain.appendCanonical(nil))
	}
	c.version = hex.EncodeToString(h.Sum(nil)[:8])
}

func (n *Level) appendRules(rules []*Rule) []*Rule {
	if n.Rule != nil {
		rules = append(rules, n.Rule)
	}
	for _, child := range n.Below {
		rules = child.appendRules(rules)
	}
	return rules
}

// appendCanonical appends a line for n and one for each level below it. A path has
// no line break.
func (n *Level) appendCanonical(dst []byte) []byte {
	dst = append(dst, n.Path...)
	if n.Shared {
		dst = append(dst, "\tshare_threshold"...)
	}
	if n.valueToMetric {
		dst = append(dst, "\tvalue_to_metric"...)
	}
	if n.Rule != nil {
		dst = n.Rule.appendCanonical(dst)
	}
	dst = append(dst, '\n')
	for _, child := range n.Below {
		dst = child.appendCanonical(dst)
	}
	return dst
}

func (r *Rule) appendCanonical(dst []byte) []byte {
	dst = append(dst, '\t')
	dst = strconv.AppendUint(dst, uint64(r.RequestsPerUnit), 10)
	dst = append(append(dst, '/'), r.Unit.String()...)
	for _, flag := range []bool{r.Unlimited, r.Shadow, r.Quota, r.DetailedMetric} {
		dst = strconv.AppendBool(append(dst, ' '), flag)
	}
	for _, name := range append([]string{r.Name}, r.Replaces...) {
		dst = strconv.AppendQuote(append(dst, ' '), name)
	}
	// What metadata can be made of can be written, with its names sorted.
	metadata, _ := json.Marshal(r.Metadata)
	return append(append(dst, ' '), metadata...)
}
