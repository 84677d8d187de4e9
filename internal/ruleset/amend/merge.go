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

// Problem is why an entry is not in force.
type Problem struct {
	Override  *Override  // nil: it is a candidate
	Candidate *Candidate // nil: it is an override
	Reason    string
}

// String is a problem in one line.
func (p *Problem) String() string {
	if p.Override != nil {
		return "override of " + p.Override.On() + ": " + p.Reason
	}
	return "candidate of " + p.Candidate.Rule + ": " + p.Reason
}

// Merge returns the rules of a rules file with the entries that fit them, and the others with what is wrong. Without
// entries these are the rules of the file.
func Merge(file *rulefile.Document, d *Document) (*rule.Set, []Problem) {
	if d.Len() == 0 {
		return file.Set, nil
	}
	m := newMerge(file, d)
	set, errs := m.read()
	if set == nil {
		m.judge()
		set, errs = m.read()
	}
	for _, candidates := range []bool{true, false} { // what is wrong shows only where all come together
		if set == nil {
			m.leaveOut(candidates, errs.Error())
			set, errs = m.read()
		}
	}
	return set, m.problems(d)
}

// entry is an override or a candidate on its way into the tree.
type entry struct {
	candidate bool
	rule      int // in the file
	node      strict.Node
	reason    string // why it is not in force; empty: it is
}

// merge is the tree of a rules file, which is not changed, and what is added to it.
type merge struct {
	root    *strict.Node
	rules   map[string]int // by name
	entries []entry        // overrides, then candidates, in the order of the document
}

func newMerge(file *rulefile.Document, d *Document) *merge {
	m := &merge{root: file.Root(), rules: map[string]int{}}
	items := m.root.Field("rules").Items
	for i := range items {
		m.rules[textOf(&items[i], "name")] = i
	}
	for i := range d.Overrides {
		o := &d.Overrides[i]
		key := field("hash", o.Hash)
		if o.Hash == "" {
			key = strict.Field{Name: "key", Value: strict.Node{Kind: strict.List}}
			for _, value := range o.Key {
				key.Value.Items = append(key.Value.Items, strict.Node{Kind: strict.String, Text: value})
			}
		}
		fields := []strict.Field{key}
		if o.Name != "" {
			fields = append(fields, field("name", o.Name))
		}
		e := m.add(o.Rule, slices.Concat(o.Limit, o.Limits), o.Until, fields...) // one of them is empty
		if e.reason == "" && o.Hash == "" && textOf(&items[e.rule], "hash") == "true" {
			e.reason = "the rule has hash: true, and this is a key; write its hash, which weir key prints"
		}
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		m.add(c.Rule, c.Limit, c.Until, field("rule", c.Rule)).candidate = true
	}
	return m
}

func field(name, text string) strict.Field {
	return strict.Field{Name: name, Value: strict.Node{Kind: strict.String, Text: text}}
}

// add adds an entry for a rule, with a limit and an end beside its fields.
func (m *merge) add(of string, raw []byte, until time.Time, fields ...strict.Field) *entry {
	e := entry{}
	var known bool
	if e.rule, known = m.rules[of]; !known {
		e.reason = "the rules file has no rule of this name"
	}
	own, err := strict.ParseJSON(raw)
	if err != nil {
		e.reason, own = "limit: "+err.Error(), new(strict.Node)
	}
	named := "limit"
	if own.Kind == strict.List {
		named = "limits"
	}
	e.node = strict.Node{Kind: strict.Object, Fields: append(fields, strict.Field{Name: named, Value: *own}, field("until", until.Format(time.RFC3339)))}
	m.entries = append(m.entries, e)
	return &m.entries[len(m.entries)-1]
}

// read reads the rules of the file with the entries that are left.
func (m *merge) read() (*rule.Set, strict.Errors) {
	set, errs := rulefile.ReadTree(m.tree(m.entries, false))
	if set != nil {
		if n := len(set.Encode()); n > wire.MaxCompiled {
			return nil, strict.Errors{{Reason: fmt.Sprintf("with candidates the rules have %d bytes in compiled form, at most %d fit into one message", n, wire.MaxCompiled)}}
		}
	}
	return set, errs
}

// judge leaves out the entries that do not fit. Each is read with those before it that fit, and with its rule alone.
func (m *merge) judge() {
	beside := map[int][]entry{} // by rule; -1: candidates
	for i := range m.entries {
		e := &m.entries[i]
		of := e.rule
		if e.candidate {
			of = -1
		}
		if e.reason != "" {
			continue
		}
		with := append(slices.Clip(beside[of]), *e)
		if set, errs := rulefile.ReadTree(m.tree(with, true)); set == nil {
			field := ""
			if i := strings.LastIndex(errs[0].Path, "]."); i >= 0 {
				field = errs[0].Path[i+2:]
			}
			e.reason = (&strict.Error{Path: field, Reason: errs[0].Reason}).Error()
			continue
		}
		beside[of] = with
	}
}

// leaveOut leaves out the candidates that are left, or everything.
func (m *merge) leaveOut(candidates bool, reason string) {
	for i := range m.entries {
		if e := &m.entries[i]; e.candidate || !candidates {
			e.reason = cmp.Or(e.reason, reason)
		}
	}
}

// tree is the tree of the file with the entries that are left. An override stands before those by key of the rule: it
// counts first. With alone the rules are those of the entries, without overrides by key of their own, and with candidates
// those of all candidates.
func (m *merge) tree(entries []entry, alone bool) *strict.Node {
	root := *m.root
	root.Fields = slices.Clone(root.Fields)
	candidates := slices.Clone(listOf(&root, "candidates").Items)
	used := map[int]bool{}
	if !alone || entries[0].candidate {
		for i := range candidates {
			used[m.rules[textOf(&candidates[i], "rule")]] = true
		}
	} else {
		candidates = nil
	}
	overrides := map[int][]strict.Node{}
	for i := range entries {
		switch e := &entries[i]; {
		case e.reason != "":
			continue
		case e.candidate:
			candidates = append(candidates, e.node)
		default:
			overrides[e.rule] = append(overrides[e.rule], e.node)
		}
		used[entries[i].rule] = true
	}
	listOf(&root, "candidates").Items = candidates
	rules := root.Field("rules")
	all := rules.Items
	rules.Items = nil
	for i := range all {
		if alone && !used[i] {
			continue
		}
		rules.Items = append(rules.Items, amended(all[i], overrides[i], alone))
	}
	return &root
}

// amended is a rule with more overrides by key, instead of its own of these keys that do not last longer; with alone instead of
// all its own but those that take a name of them.
func amended(of strict.Node, more []strict.Node, alone bool) strict.Node {
	if len(more) == 0 && !alone {
		return of
	}
	of.Fields = slices.Clone(of.Fields)
	list := listOf(&of, "overrides")
	ends, names := map[string]limit.Micros{}, map[string]bool{}
	for i := range more {
		ends[keyOf(&more[i])] = end(&more[i])
		names[textOf(&more[i], "name")] = true
	}
	delete(names, "")
	var byKey, items []strict.Node
	for _, own := range list.Items {
		switch until := end(&own); {
		case own.Field("key") == nil && own.Field("hash") == nil:
			items = append(items, own)
		case alone && !names[textOf(&own, "name")]:
		case until == 0 || until > ends[keyOf(&own)]:
			byKey = append(byKey, own)
		}
	}
	list.Items = slices.Concat(items, more, byKey)
	return of
}

// keyOf is the key of an override, or its hash, as it is written.
func keyOf(n *strict.Node) string {
	key := []byte(textOf(n, "hash"))
	if list := n.Field("key"); list != nil {
		for i := range list.Items {
			key = strict.AppendString(key, list.Items[i].Text)
		}
	}
	return string(key)
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

func (m *merge) problems(d *Document) (all []Problem) {
	for i := range m.entries {
		e := &m.entries[i]
		switch {
		case e.reason == "":
		case e.candidate:
			all = append(all, Problem{Candidate: &d.Candidates[i-len(d.Overrides)], Reason: e.reason})
		default:
			all = append(all, Problem{Override: &d.Overrides[i], Reason: e.reason})
		}
	}
	return all
}

// Fit is the error of a document whose entries that were set at this time do not fit the rules file, or make others that
// did no longer fit it.
func (d *Document) Fit(file *rulefile.Document, when time.Time) error {
	older := &Document{
		slices.DeleteFunc(slices.Clone(d.Overrides), func(o Override) bool { return o.When.Equal(when) }),
		slices.DeleteFunc(slices.Clone(d.Candidates), func(c Candidate) bool { return c.When.Equal(when) }),
	}
	if older.Len() == d.Len() {
		return nil
	}
	_, problems := Merge(file, d)
	if len(problems) == 0 {
		return nil
	}
	_, before := Merge(file, older)
	for _, p := range problems {
		text := p.String()
		if !slices.ContainsFunc(before, func(known Problem) bool { return known.String() == text }) {
			return errors.New(text)
		}
	}
	return nil
}
