// Package rulediff compares two versions of rules by what they do with requests: for which a rule is that it was not for
// before, which have another limit, and which counters begin anew.
//
// A rule is the same only if that is plain to see from what it states. For what is not, requests are made of the values of
// both versions, and each example is one that both have decided so. What neither settles is undecided, which is an answer.
//
//	fields.go  what rules state, but for their match
//	plain.go   what is plain to see of conditions and keys
//	places.go  the places that conditions look at, and values there
//	search.go  requests of these values, judged by both versions
package rulediff

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// What became of a rule.
const (
	Changed   = "changed"
	Added     = "added"
	Removed   = "removed"
	Undecided = "undecided" // nothing is known to have changed; also the What of an open question
)

// What changed, beside what the rule states.
const (
	wider     = "wider"       // counts requests that it did not count
	narrower  = "narrower"    // does not count requests that it counted
	override  = "limit used"  // of the rule or an override
	keyed     = "counted as"  // the key
	unreached = "unreachable" // no request reaches it any more
)

// Diff is a comparison of two versions. Rules that are the same are not in it.
type Diff struct {
	Rules []Rule `json:"rules"`
	// How many rules became what. Undecided are those with an open question, whatever else changed.
	Changed   int `json:"changed"`
	Added     int `json:"added"`
	Removed   int `json:"removed"`
	Undecided int `json:"undecided"`
}

// Same reports that no request changes.
func (d *Diff) Same() bool { return d.Changed+d.Added+d.Removed+d.Undecided == 0 }

// Rule is what became of a rule, by its name in answers and metrics: what a rule of the document is expanded into are several.
type Rule struct {
	Name    string   `json:"name"`
	Change  string   `json:"change"`
	Changes []Change `json:"changes"`
}

// Change is one difference.
type Change struct {
	What     string           `json:"what"`
	Old      string           `json:"old,omitempty"`
	New      string           `json:"new,omitempty"`
	Counters string           `json:"counters,omitempty"` // "kept" or "anew"
	Example  *request.Request `json:"example,omitempty"`
}

// version is a set of rules to compare.
type version struct {
	set      *rule.Set
	fields   []map[string]field   // of each rule
	warnings map[[2]string]string // by the name of a rule and the code
	only     []*rule.Rule         // exempt rules, but for those which one of the other version covers
}

func newVersion(set *rule.Set, now time.Time) *version {
	v := &version{set: set, fields: fieldsOf(set), warnings: map[[2]string]string{}}
	for _, w := range lint.Check(set, now) {
		v.warnings[[2]string{w.Rule, w.Code}] = w.Field + " " + w.Reason
	}
	return v
}

// beside finds the exempt rules that lift what those of another version may not lift.
func (v *version) beside(other *version) {
	theirs := other.exempt()
	for _, e := range v.exempt() {
		if !slices.ContainsFunc(theirs, func(o *rule.Rule) bool { return liftsAll(o, e) }) {
			v.only = append(v.only, e)
		}
	}
}

// exempt are the rules that are exempt, which are the first of a set.
func (v *version) exempt() (all []*rule.Rule) {
	for i := 0; i < v.set.Len() && v.set.Rule(i).Mode == rule.Exempt; i++ {
		all = append(all, v.set.Rule(i))
	}
	return all
}

// liftsAll reports whether it is plain to see that an exempt rule lifts what another one lifts.
func liftsAll(outer, inner *rule.Rule) bool {
	other := func(name string) bool { return !slices.Contains(outer.From, name) }
	from := len(outer.From) == 0 || len(inner.From) > 0 && !slices.ContainsFunc(inner.From, other)
	return from && outer.Match.Until == inner.Match.Until && covers(&outer.Match, &inner.Match)
}

// Compare compares two versions. now is when: what has ended by then is over.
func Compare(before, after *rule.Set, now time.Time) *Diff {
	a, b, d := newVersion(before, now), newVersion(after, now), &Diff{Rules: []Rule{}}
	a.beside(b)
	b.beside(a)
	tries := min(max(allTries/max(before.Len(), after.Len(), 1), leastTries), mostTries)
	tries /= 1 + (len(a.only)+len(b.only))/20 // each takes time
	at := limit.Micros(now.UnixMicro())
	for i := range after.Len() {
		d.compare(a.side(after.Rule(i).Name), b.side(after.Rule(i).Name), tries, at)
	}
	for i := range before.Len() {
		if s := b.side(before.Rule(i).Name); s.rule == nil {
			d.compare(a.side(before.Rule(i).Name), s, tries, at)
		}
	}
	return d
}

// side is the rule with a name.
func (v *version) side(name string) *side {
	s := &side{version: v}
	if i, ok := v.set.Find(name); ok {
		s.at, s.rule = i, v.set.Rule(i)
	}
	return s
}

// compare compares a rule, and adds it if it is not the same. One that is off on both sides is not there.
func (d *Diff) compare(a, b *side, tries int, now limit.Micros) {
	off := func(s *side) bool { return s.rule == nil || s.rule.Mode == rule.Off }
	if off(a) && off(b) {
		return
	}
	r, p := Rule{Change: Changed, Changes: []Change{}}, newPair(a, b, now)
	p.search(tries)
	switch {
	case a.rule == nil:
		r.Name, r.Change = b.rule.Name, Added
	case b.rule == nil:
		r.Name, r.Change = a.rule.Name, Removed
	default:
		r.Name, r.Changes = b.rule.Name, append(r.Changes, stated(a.fields[a.at], b.fields[b.at])...)
	}
	if c := (Change{What: "match", Old: a.match(), New: b.match()}); c.Old+c.New != "" && !sameMatch(a.rule, b.rule) {
		r.Changes = append(r.Changes, c)
	}
	r.Changes = append(r.Changes, p.found...)
	if open := p.undecided(r.Changes); open != "" && r.Change == Changed {
		if len(r.Changes) == 0 {
			r.Change = Undecided
		}
		r.Changes = append(r.Changes, Change{What: Undecided, New: open})
		d.Undecided++
	}
	for _, code := range []string{"never-matches", "always-exempt", "override-unreachable"} {
		warning := [2]string{r.Name, code}
		if reason := b.warnings[warning]; reason != "" && a.warnings[warning] == "" {
			r.Changes = append(r.Changes, Change{What: unreached, New: reason})
		}
	}
	switch r.Change {
	case Added:
		d.Added++
	case Removed:
		d.Removed++
	case Changed:
		if len(r.Changes) == 0 {
			return
		}
		d.Changed++
	}
	d.Rules = append(d.Rules, r)
}

// match is that of an exempt rule. What that of another rule does is found by requests.
func (s *side) match() string {
	if s.rule == nil || s.rule.Mode != rule.Exempt {
		return ""
	}
	return s.fields[s.at]["match"].text
}

func sameMatch(a, b *rule.Rule) bool {
	return a != nil && b != nil && covers(&a.Match, &b.Match) && covers(&b.Match, &a.Match)
}

// String is the comparison for people: a block for each rule, and a line with the counts.
func (d *Diff) String() string {
	out := ""
	for _, r := range d.Rules {
		out += r.Name + ": " + r.Change + "\n"
		for _, c := range r.Changes {
			out += c.String()
		}
		out += "\n"
	}
	return out + fmt.Sprintf("changed %d, added %d, removed %d, undecided %d\n", d.Changed, d.Added, d.Removed, d.Undecided)
}

// String is a line, and one for the example.
func (c *Change) String() string {
	line := "  " + c.What
	switch {
	case c.Old != "" && c.New != "":
		line += ": " + c.Old + " -> " + c.New
	case c.Old != "":
		line += ": was " + c.Old
	case c.New != "":
		line += ": " + c.New
	}
	switch c.Counters {
	case "kept":
		line += "; counters are kept"
	case "anew":
		line += "; counters begin anew"
	}
	if c.Example != nil {
		line += "\n    weir explain " + c.Example.String()
	}
	return line + "\n"
}
