package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// Bounds of a file of bindings.
const (
	MaxBindings = 100_000
	MaxEntries  = 16 // entries of a descriptor
)

// Parse reads a file of bindings. Its name is only used in errors, which are
// [strict.Errors]: a line for each mistake, with file, line and path.
func Parse(file string, data []byte) (*Set, error) {
	s := &Set{domains: map[string]*branch{}, file: file}
	err := rulefile.ReadDocument(file, data, "bindings: [] for no bindings", func(doc strict.Value) {
		doc.Object("bindings")
		list := doc.Field("bindings")
		list.Require("a list of bindings, [] for none")
		for _, v := range list.List(MaxBindings, "a list of bindings") {
			s.read(v)
		}
	})
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	s.Write(h)
	s.version = hex.EncodeToString(h.Sum(nil)[:8])
	return s, nil
}

// read reads one binding and gives it its place in the tree.
func (s *Set) read(v strict.Value) {
	if !v.Object("domain", "descriptor", "rule", "unbound") {
		return
	}
	domain := text(v.Field("domain"), "the domain that requests name")
	entries := v.Field("descriptor")
	entries.Require("a list with the keys of a descriptor's entries, such as [{ key: user }]")
	made := &Binding{Domain: domain, Index: len(s.all)}
	made.Rule, made.at = readRule(v)
	for i, e := range entries.List(MaxEntries, "a list of entries, each with key and perhaps value") {
		entry := readEntry(e)
		made.Entries = append(made.Entries, entry)
		if entry.Value == "" {
			made.keyed = append(made.keyed, i)
		}
	}
	if entries.Kind() == strict.List && len(entries.Node().Items) == 0 {
		entries.Fail("has no entries; write at least one, such as { key: user }")
	}
	if !v.Ok() {
		return
	}
	at := s.domains[domain]
	if at == nil {
		at = &branch{}
		s.domains[domain] = at
	}
	for _, e := range made.Entries {
		at = at.next(e)
	}
	if at.binding != nil {
		v.Fail("is for the same descriptors as the one in line " + strconv.Itoa(at.binding.at.Line) + "; remove one")
		return
	}
	at.binding = made
	s.all = append(s.all, made)
}

// readRule reads the rule of a binding; empty if it is unbound.
func readRule(v strict.Value) (name string, at strict.Pos) {
	unbound := v.Field("unbound")
	if !unbound.Present() {
		return text(v.Field("rule"), "the name of a rule of the rules file"), v.Find("rule")
	}
	if yes, ok := unbound.Bool(); ok && !yes {
		unbound.Fail("is false, which has no effect; leave it out")
	} else if v.Field("rule").Present() {
		unbound.Fail("is given together with rule; remove one of them")
	}
	return "", v.Find("unbound")
}

func text(v strict.Value, want string) string {
	v.Require(want)
	s, ok := v.String(want)
	if ok && s == "" {
		v.Fail("is empty; write " + want)
	}
	return s
}

func readEntry(v strict.Value) descriptor.Entry {
	if !v.Object("key", "value") {
		return descriptor.Entry{}
	}
	e := descriptor.Entry{Key: text(v.Field("key"), "the key of the entry")}
	if value := v.Field("value"); value.Present() {
		e.Value = text(value, "the value, or leave value out for any")
	}
	return e
}

// next finds or makes the branch that an entry leads to.
func (n *branch) next(e descriptor.Entry) *branch {
	if n.below == nil {
		n.below = map[descriptor.Entry]*branch{}
	}
	if n.below[e] == nil {
		n.below[e] = &branch{}
	}
	return n.below[e]
}
