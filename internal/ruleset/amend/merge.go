package amend

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
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
	for round := 0; m.left() > 0; round++ {
		set, errs := rulefile.ReadTree(m.tree())
		if set == nil {
			m.blame(errs, round)
			continue
		}
		if n := len(set.Encode()); n > wire.MaxCompiled {
			reason := fmt.Sprintf("with candidates the rules have %d bytes in compiled form, at most %d fit into one message", n, wire.MaxCompiled)
			m.blameAll(reason, func(e *entry) bool { return e.candidate })
			continue
		}
		return set, m.problems(d)
	}
	return file.Set, m.problems(d)
}

// entry is an override or a candidate on its way into the tree.
type entry struct {
	candidate bool
	rule      int // in the file; a candidate's is checked there
	node      strict.Node
	at        int    // its index in overrides of the rule or in candidates, as the tree last had it
	reason    string // why it is not in force; empty: it is
}

// merge is the tree of a rules file, which is not changed, and what is added to it.
type merge struct {
	root    *strict.Node
	entries []entry // overrides, then candidates, in the order of the document
}

func newMerge(file *rulefile.Document, d *Document) *merge {
	m := &merge{root: file.Root()}
	rules := map[string]int{}
	for i, item := range m.root.Field("rules").Items {
		if name := item.Field("name"); name != nil {
			rules[name.Text] = i
		}
	}
	add := func(name string, e entry, raw []byte, until time.Time, fields ...strict.Field) {
		var known bool
		if e.rule, known = rules[name]; !known {
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
	}
	items := m.root.Field("rules").Items
	for i := range d.Overrides {
		o, e := &d.Overrides[i], entry{}
		if of, known := rules[o.Rule]; known && o.Hash == "" {
			if hashed := items[of].Field("hash"); hashed != nil && hashed.Text == "true" {
				e.reason = "the rule has hash: true, and this is a key; write its hash, which weir key prints"
			}
		}
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
		add(o.Rule, e, slices.Concat(o.Limit, o.Limits), o.Until, fields...) // one of them is empty
	}
	for i := range d.Candidates {
		c := &d.Candidates[i]
		add(c.Rule, entry{candidate: true}, c.Limit, c.Until, field("rule", c.Rule))
	}
	return m
}

func field(name, text string) strict.Field {
	return strict.Field{Name: name, Value: strict.Node{Kind: strict.String, Text: text}}
}

// left is how many entries are not known to be wrong.
func (m *merge) left() (n int) {
	for i := range m.entries {
		if m.entries[i].reason == "" {
			n++
		}
	}
	return n
}

// tree is the tree of the file with the entries that are left. An override stands before those by key of the rule: it
// counts first.
func (m *merge) tree() *strict.Node {
	root := *m.root
	root.Fields = slices.Clone(root.Fields)
	rules := root.Field("rules")
	rules.Items = slices.Clone(rules.Items)
	overrides := map[int][]*entry{}
	for i := range m.entries {
		switch e := &m.entries[i]; {
		case e.reason != "":
		case e.candidate:
			list := listOf(&root, "candidates")
			e.at = len(list.Items)
			list.Items = append(slices.Clip(list.Items), e.node)
		default:
			overrides[e.rule] = append(overrides[e.rule], e)
		}
	}
	for i, more := range overrides {
		item := &rules.Items[i]
		item.Fields = slices.Clone(item.Fields)
		list := listOf(item, "overrides")
		first := slices.IndexFunc(list.Items, func(n strict.Node) bool { return n.Field("key") != nil || n.Field("hash") != nil })
		if first < 0 {
			first = len(list.Items)
		}
		items := make([]strict.Node, 0, len(list.Items)+len(more))
		items = append(items, list.Items[:first]...)
		ends := map[string]limit.Micros{}
		for _, e := range more {
			e.at = len(items)
			items = append(items, e.node)
			ends[keyOf(&e.node)] = end(&e.node)
		}
		for _, own := range list.Items[first:] {
			if until := end(&own); until == 0 || until > ends[keyOf(&own)] {
				items = append(items, own)
			}
		}
		list.Items = items
	}
	return &root
}

// keyOf is the key of an override, or its hash, as it is written.
func keyOf(n *strict.Node) string {
	if hash := n.Field("hash"); hash != nil {
		return hash.Text
	}
	var key []byte
	if list := n.Field("key"); list != nil {
		for i := range list.Items {
			key = strict.AppendString(key, list.Items[i].Text)
		}
	}
	return string(key)
}

// end is when an override ends; 0: never, or it has a mistake.
func end(n *strict.Node) limit.Micros {
	if until := n.Field("until"); until != nil {
		t, _ := rule.ParseTime(until.Text)
		return t
	}
	return 0
}

// listOf is the list in a field, which is added if it is missing.
func listOf(n *strict.Node, name string) *strict.Node {
	if n.Field(name) == nil {
		n.Fields = append(slices.Clip(n.Fields), strict.Field{Name: name, Value: strict.Node{Kind: strict.List}})
	}
	return n.Field(name)
}

var (
	// itemPath is where an error is: an override of a rule, a rule, or a candidate, and a field there.
	itemPath = regexp.MustCompile(`^(rules|candidates)\[(\d+)\](?:\.overrides\[(\d+)\])?\.?(.*)$`)
	// otherPath is the other override that an error is about.
	otherPath = regexp.MustCompile(`rules\[(\d+)\]\.overrides\[(\d+)\]`)
)

// precise is in how many rounds only the entries that have a mistake are taken out. A reader reports some mistakes at a
// time, and a thousand entries may have one each.
const precise = 3

// blame takes out entries because of mistakes, of which the file itself has none: those that have them, else all of the
// rule, else the candidates, else all.
func (m *merge) blame(errs strict.Errors, round int) {
	found := false
	for _, wrong := range errs {
		if p := itemPath.FindStringSubmatch(wrong.Path); p != nil && round < precise {
			reason := (&strict.Error{Path: p[4], Reason: wrong.Reason}).Error()
			if p[1] == "candidates" {
				found = m.blameAll(reason, func(e *entry) bool { return e.candidate && number(p[2]) == e.at }) || found
				continue
			}
			its := m.blameAll(reason, overrideAt(p[2], p[3]))
			if other := otherPath.FindStringSubmatch(wrong.Reason); other != nil && !its {
				its = m.blameAll(reason, overrideAt(other[1], other[2]))
			}
			found = found || its
		}
	}
	coarse := !found
	for _, wrong := range errs {
		if p := itemPath.FindStringSubmatch(wrong.Path); p != nil && coarse && p[1] == "rules" {
			found = m.blameAll(wrong.Reason, func(e *entry) bool { return !e.candidate && e.rule == number(p[2]) }) || found
		}
	}
	found = found || m.blameAll(errs[0].Error(), func(e *entry) bool { return e.candidate })
	if !found {
		m.blameAll(errs[0].Error(), func(*entry) bool { return true })
	}
}

// overrideAt finds the override of a rule by indices in a path; an empty index is none.
func overrideAt(of, at string) func(*entry) bool {
	return func(e *entry) bool { return !e.candidate && at != "" && e.rule == number(of) && e.at == number(at) }
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1 // is no index
	}
	return n
}

// blameAll takes out those entries that are left, and reports whether there were any.
func (m *merge) blameAll(reason string, which func(*entry) bool) (found bool) {
	for i := range m.entries {
		if e := &m.entries[i]; e.reason == "" && which(e) {
			e.reason, found = reason, true
		}
	}
	return found
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
