package rls

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/rls/descriptor"
)

// Bounds of a file of bindings.
const (
	maxBindings = 100_000
	maxDepth    = 16 // entries of a descriptor: as many as a rule's key has parts
)

// ParseBindings reads a file of bindings. Its name is only used in errors, which
// are rulefile.Errors: a line for each mistake, with file, line and path.
func ParseBindings(file string, data []byte) (*Bindings, error) {
	b := &Bindings{domains: map[string]*branch{}, file: file}
	err := rulefile.ReadDocument(file, data, "bindings: [] for no bindings", func(doc strict.Value) {
		doc.Object("bindings")
		list := doc.Field("bindings")
		list.Require("a list of bindings, [] for none")
		for _, v := range list.List(maxBindings, "a list of bindings") {
			b.read(v)
		}
	})
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	b.write(h)
	b.version = hex.EncodeToString(h.Sum(nil)[:8])
	return b, nil
}

// read reads one binding and gives it its place in the tree.
func (b *Bindings) read(v strict.Value) {
	if !v.Object("domain", "descriptor", "rule") {
		return
	}
	domain := text(v.Field("domain"), "the domain that requests name")
	entries := v.Field("descriptor")
	entries.Require("a list with the keys of a descriptor's entries, such as [{ key: user }]")
	made := &binding{rule: text(v.Field("rule"), "the name of a rule of the rules file"), domain: domain, at: v.Find("rule")}
	for i, e := range entries.List(maxDepth, "a list of entries, each with key and perhaps value") {
		entry := readEntry(e)
		made.entries = append(made.entries, entry)
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
	at := b.domains[domain]
	if at == nil {
		at = &branch{}
		b.domains[domain] = at
	}
	for _, e := range made.entries {
		at = at.next(e)
	}
	if at.binding != nil {
		v.Fail("is for the same descriptors as the one in line " + strconv.Itoa(at.binding.at.Line) + "; remove one")
		return
	}
	at.binding = made
	b.all = append(b.all, made)
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
	if e.Value == "" {
		if n.any == nil {
			n.any = map[string]*branch{}
		}
		if n.any[e.Key] == nil {
			n.any[e.Key] = &branch{}
		}
		return n.any[e.Key]
	}
	if n.exact == nil {
		n.exact = map[descriptor.Entry]*branch{}
	}
	if n.exact[e] == nil {
		n.exact[e] = &branch{}
	}
	return n.exact[e]
}

// check says which bindings name a rule that cannot be bound, and how many one that
// is off.
func (b *Bindings) check(find func(name string) *limiter.Policy) (errs rulefile.Errors, off int) {
	if b == nil {
		return nil, 0
	}
	for _, made := range b.all {
		p := find(made.rule)
		if reason := made.flaw(p); reason != "" {
			errs = append(errs, rulefile.Error{File: b.file, At: strict.Error{Pos: made.at, Path: "rule", Reason: reason}})
		} else if p.Mode == rule.Off {
			off++
		}
	}
	return errs, off
}

// write lists the bindings, one a line.
func (b *Bindings) write(w io.Writer) {
	for _, made := range b.all {
		fmt.Fprintf(w, "%q", made.domain)
		for _, e := range made.entries {
			fmt.Fprintf(w, " %q", e.Key)
			if e.Value != "" {
				fmt.Fprintf(w, "=%q", e.Value)
			}
		}
		fmt.Fprintf(w, ": rule %s\n", made.rule)
	}
}
