package amend

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/wire"
)

// Merge returns the rules of a rules file with the entries that fit them. Each of the others gets a Problem. Without
// entries these are the rules of the file.
func Merge(file *rulefile.Document, d *Document) *rule.Set {
	if len(d.Entries) == 0 {
		return file.Set
	}
	m := newMerge(file.Root())
	var good []item
	for at := range d.Entries {
		e := &d.Entries[at]
		e.Problem = ""
		if i, err := m.alone(e); err != nil {
			e.Problem = err.Error()
		} else {
			good = append(good, i)
		}
	}
	_, good = m.fit(nil, good, true) // what is wrong together shows here already, and reading the whole file takes a second
	set, _ := m.fit(nil, good, false)
	return cmp.Or(set, file.Set)
}

// item is an entry on its way into the tree.
type item struct {
	*Entry
	node strict.Node
}

// merge is the tree of a rules file, which is not changed.
type merge struct {
	root *strict.Node
	bare []strict.Node // its rules, without overrides by key: there may be 100,000
}

func newMerge(root *strict.Node) *merge {
	m := &merge{root, slices.Clone(root.Field("rules").Items)}
	for i := range m.bare {
		r := &m.bare[i]
		r.Fields = slices.Clone(r.Fields)
		list := listOf(r, "overrides")
		list.Items = slices.DeleteFunc(slices.Clone(list.Items), byKey)
	}
	return m
}

// alone makes an item of an entry that fits its rule.
func (m *merge) alone(e *Entry) (item, error) {
	at := slices.IndexFunc(m.bare, func(n strict.Node) bool { return textOf(&n, "name") == e.Rule })
	if at < 0 {
		return item{}, errors.New("the rules file has no rule of this name")
	}
	if e.Kind == Override && e.Hash == "" && !rule.IsHash(e.Key) && textOf(&m.bare[at], "hash") == "true" {
		return item{}, errors.New("the rule has hash: true, and this is a key; write its hash, which weir keys hash prints")
	}
	named, raw := "limit", e.Limit
	if e.Limits != nil {
		named, raw = "limits", e.Limits
	}
	value, err := strict.ParseJSON(raw)
	if err != nil {
		return item{}, fmt.Errorf("limit: %w", err)
	}
	n := strict.Node{Kind: strict.Object, Fields: []strict.Field{{Name: named, Value: *value}}}
	add := func(name, text string) {
		if text != "" {
			n.Fields = append(n.Fields, strict.Field{Name: name, Value: strict.Node{Kind: strict.String, Text: text}})
		}
	}
	add("until", e.Until.Format(time.RFC3339))
	if e.Kind == Candidate {
		add("rule", e.Rule)
	}
	add("name", e.Name)
	add("hash", e.Hash)
	for _, value := range e.Key {
		key := listOf(&n, "key")
		key.Items = append(key.Items, strict.Node{Kind: strict.String, Text: value})
	}
	i := item{e, n}
	set, err := m.read([]item{i}, true)
	if err == nil && e.fresh {
		err = tooHigh(set)
	}
	return i, err
}

// fit adds those of more entries to others that go together with these, and returns the rules with them; nil: there are none.
// It halves what does not go, down to the single ones: each of them goes alone, so that is rare.
func (m *merge) fit(with, more []item, bare bool) (*rule.Set, []item) {
	if len(more) == 0 {
		return nil, with
	}
	all := slices.Concat(with, more)
	set, err := m.read(all, bare)
	switch {
	case err == nil:
		return set, all
	case len(more) == 1:
		more[0].Problem = err.Error()
		return nil, with
	}
	half := len(more) / 2
	first, with := m.fit(with, more[:half], bare)
	second, with := m.fit(with, more[half:], bare)
	return cmp.Or(second, first), with
}

// read reads the rules of the file with entries, or of [merge.bare] just those of the entries. The error is the first mistake.
func (m *merge) read(items []item, bare bool) (*rule.Set, error) {
	set, errs := rulefile.ReadTree(m.tree(items, bare))
	if set == nil {
		first := &strict.Error{Reason: errs[0].Reason}
		if i := strings.LastIndex(errs[0].Path, "]."); i >= 0 {
			first.Path = errs[0].Path[i+2:] // without its place in the tree
		}
		return nil, first
	}
	if n := len(set.Encode()); n > wire.MaxCompiled {
		return nil, fmt.Errorf("with it the rules have %d bytes in compiled form, at most %d fit into one message", n, wire.MaxCompiled)
	}
	return set, nil
}

// tree is what [merge.read] reads. The overrides by key of a rule stand behind those of the entries, which count first.
func (m *merge) tree(items []item, bare bool) *strict.Node {
	root := *m.root
	root.Fields = slices.Clone(root.Fields)
	candidates, rules := listOf(&root, "candidates"), root.Field("rules")
	overrides := map[string][]strict.Node{} // by rule, empty for one of a candidate
	var tried []strict.Node
	for _, i := range items {
		more := overrides[i.Rule]
		if i.Kind == Candidate {
			tried = append(tried, i.node)
		} else {
			more = append(more, i.node)
		}
		overrides[i.Rule] = more
	}
	all := rules.Items
	rules.Items = nil
	for i := range all {
		more, used := overrides[textOf(&all[i], "name")]
		if !used {
			if !bare {
				rules.Items = append(rules.Items, all[i])
			}
			continue
		}
		r := m.bare[i]
		r.Fields = slices.Clone(r.Fields)
		list := listOf(&r, "overrides")
		list.Items = slices.Concat(list.Items, more)
		if own := all[i].Field("overrides"); own != nil && !bare {
			list.Items = append(list.Items, after(own.Items, more)...)
		}
		rules.Items = append(rules.Items, r)
	}
	own := slices.DeleteFunc(slices.Clone(candidates.Items), func(c strict.Node) bool {
		_, used := overrides[textOf(&c, "rule")]
		return bare && !used
	})
	candidates.Items = append(own, tried...)
	return &root
}

// after are the overrides by key that count after others: those of other keys, and those of the same that last longer.
func after(own, others []strict.Node) (all []strict.Node) {
	ends := map[string]limit.Micros{}
	for i := range others {
		ends[keyOf(&others[i])] = end(&others[i])
	}
	for _, o := range own {
		if until := end(&o); byKey(o) && (until == 0 || until > ends[keyOf(&o)]) {
			all = append(all, o)
		}
	}
	return all
}

// byKey reports whether an override is one by key.
func byKey(o strict.Node) bool { return o.Field("key") != nil || o.Field("hash") != nil }

// keyOf is the key of an override, or its hash, as it is written.
func keyOf(n *strict.Node) string {
	key := Amendment{Hash: textOf(n, "hash")}
	if list := n.Field("key"); list != nil {
		for i := range list.Items {
			key.Key = append(key.Key, list.Items[i].Text)
		}
	}
	return key.key()
}

// end is when an override ends; 0: never, or it has a mistake.
func end(n *strict.Node) limit.Micros {
	t, ok := rule.ParseTime(textOf(n, "until"))
	if !ok {
		return 0
	}
	return t
}

// textOf is the text of a field; empty: it is missing.
func textOf(n *strict.Node, name string) string {
	if f := n.Field(name); f != nil {
		return f.Text
	}
	return ""
}

// listOf is the list in a field, which is added if it is missing.
func listOf(n *strict.Node, name string) *strict.Node {
	if n.Field(name) == nil {
		n.Fields = append(slices.Clip(n.Fields), strict.Field{Name: name, Value: strict.Node{Kind: strict.List}})
	}
	return n.Field(name)
}
