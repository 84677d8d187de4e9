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
	domains  map[string]*node
	order    []*node // the domains in the order of the files
	rules    []*Rule // in the order of the files
	warnings strict.Errors
	version  string
}

// node is one level of the tree: a domain, or a descriptor of the file.
type node struct {
	level  level
	levels []level // from below the domain to here
	path   string  // as Rule.Path
	rule   *Rule   // nil: no rate_limit here

	// children are by key and configured value, "" for the key alone. A wildcard is
	// among them under its text, as a value that equals that text is an exact match.
	children  map[Entry]*node
	wildcards map[string]*wildcards // by key
	order     []*node               // children in the order of the files

	file string
	line int
}

// Match finds the rule of a descriptor; false if there is none, which allows it
// without counting. It allocates nothing. It takes a few map accesses for each
// entry and a comparison for each wildcard that begins as the entry's value.
func (c *Config) Match(domain string, entries []Entry) (Match, bool) {
	n := c.domains[domain]
	if n == nil || len(entries) == 0 {
		return Match{}, false
	}
	for i := range entries {
		if n = n.next(&entries[i]); n == nil {
			return Match{}, false
		}
	}
	return Match{n.rule}, n.rule != nil
}

// next returns the child that an entry leads to, nil if there is none.
func (n *node) next(e *Entry) *node {
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
func (n *node) attach(child *node) (present *node) {
	at := Entry{child.level.key, child.level.value}
	if present = n.children[at]; present != nil {
		return present
	}
	if n.children == nil {
		n.children = map[Entry]*node{}
	}
	n.children[at] = child
	if child.level.wildcard {
		n.addWildcard(child)
	}
	n.order = append(n.order, child)
	return nil
}

func (n *node) addWildcard(child *node) {
	if n.wildcards == nil {
		n.wildcards = map[string]*wildcards{}
	}
	w := n.wildcards[child.level.key]
	if w == nil {
		w = &wildcards{byPrefix: map[string][]wildcard{}}
		n.wildcards[child.level.key] = w
	}
	w.add(wildcard{glob: newGlob(child.level.value), order: len(n.order), child: child})
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
	byName := slices.SortedFunc(slices.Values(c.order), func(a, b *node) int { return strings.Compare(a.path, b.path) })
	for _, domain := range byName {
		h.Write(domain.appendCanonical(nil))
	}
	c.version = hex.EncodeToString(h.Sum(nil)[:8])
}

func (n *node) appendRules(rules []*Rule) []*Rule {
	if n.rule != nil {
		rules = append(rules, n.rule)
	}
	for _, child := range n.order {
		rules = child.appendRules(rules)
	}
	return rules
}

// appendCanonical appends a line for n and one for each level below it. A path has
// no line break.
func (n *node) appendCanonical(dst []byte) []byte {
	dst = append(dst, n.path...)
	if n.level.share {
		dst = append(dst, "\tshare_threshold"...)
	}
	if n.level.valueToMetric {
		dst = append(dst, "\tvalue_to_metric"...)
	}
	if n.rule != nil {
		dst = n.rule.appendCanonical(dst)
	}
	dst = append(dst, '\n')
	for _, child := range n.order {
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
