// Package rulediff compares two versions of rules by what they do with requests: for which a rule is that it was not for
// before, which have another limit, and which counters begin anew.
//
// Nothing is claimed that is not shown. Conditions that are equal, or of which one is plain to see to cover the other, are
// compared as they stand. For the rest requests are made of values that tell the conditions apart, and an example is one
// that both sets of rules decide so. What neither settles is undecided, which is an answer.
//
//	space.go    the places that conditions look at, and values there
//	search.go   requests of these values, judged by both versions
//	version.go  fields of rules, overrides, and limits of single keys
package rulediff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Renamed   = "renamed"   // it is the same under another name
	Undecided = "undecided" // nothing is known to have changed; also the What of an open question
	Off       = "off"       // before and after, so that no request changes
)

// What changed, beside fields, overrides and keys, which have their own names.
const (
	wider     = "wider"       // counts requests that it did not count
	narrower  = "narrower"    // does not count requests that it counted
	lifted    = "lifted"      // by an exempt rule
	freed     = "not lifted"  // by an exempt rule any more
	requests  = "requests"    // that an added or removed rule counts
	override  = "limit used"  // of the rule or an override
	keyed     = "counted as"  // the key
	costs     = "costs"       // units of the request
	unreached = "unreachable" // no request reaches it any more
)

// Diff is a comparison of two versions. Rules that are the same are not in it.
type Diff struct {
	Rules []Rule `json:"rules"`
	// How many rules became what; a renamed one is changed. Undecided are those with an open question, whatever else changed.
	Changed   int `json:"changed"`
	Added     int `json:"added"`
	Removed   int `json:"removed"`
	Undecided int `json:"undecided"`
}

// Same reports that no request changes.
func (d *Diff) Same() bool { return d.Changed+d.Added+d.Removed+d.Undecided == 0 }

// Rule is what became of a rule of the document. Those that it is expanded into belong to it.
type Rule struct {
	Name    string   `json:"name"`
	Was     string   `json:"was,omitempty"` // its name before, if it was renamed
	Change  string   `json:"change"`
	Changes []Change `json:"changes"`
}

// Change is one difference.
type Change struct {
	Part     string           `json:"part,omitempty"` // of the rule, by its suffix, such as @1d
	What     string           `json:"what"`
	Old      string           `json:"old,omitempty"`
	New      string           `json:"new,omitempty"`
	Counters string           `json:"counters,omitempty"` // "kept" or "anew"
	Example  *request.Request `json:"example,omitempty"`
}

// mostKeys bounds how many limits of single keys are listed.
const mostKeys = 10

// Compare compares two versions. now is when: what has ended by then is over.
func Compare(before, after *rule.Set, now time.Time) *Diff {
	a, b, d := newVersion(before, now), newVersion(after, now), &Diff{Rules: []Rule{}}
	tries := min(max(allTries/max(before.Len(), after.Len(), 1), leastTries), mostTries)
	at, was := limit.Micros(now.UnixMicro()), oldNames(a, b)
	for _, name := range b.names {
		d.add(compare(a, b, was[name], name, tries, at))
		delete(a.parts, was[name])
	}
	for _, name := range a.names {
		if a.parts[name] != nil {
			d.add(compare(a, b, name, "", tries, at))
		}
	}
	return d
}

// oldNames has for the names of b the ones in a; none for an added rule.
func oldNames(a, b *version) map[string]string {
	was, gone := map[string]string{}, map[string][]string{}
	for _, name := range a.names {
		if b.parts[name] != nil {
			was[name] = name
		} else {
			text := a.unnamed(name)
			gone[text] = append(gone[text], name)
		}
	}
	for _, name := range b.names {
		if was[name] == "" && len(gone) > 0 {
			if text := b.unnamed(name); len(gone[text]) > 0 {
				was[name], gone[text] = gone[text][0], gone[text][1:]
			}
		}
	}
	return was
}

// add adds a rule that is not the same.
func (d *Diff) add(r Rule) {
	switch r.Change {
	case "":
		return
	case Added:
		d.Added++
	case Removed:
		d.Removed++
	case Changed, Renamed:
		d.Changed++
	}
	if slices.ContainsFunc(r.Changes, func(c Change) bool { return c.What == Undecided }) {
		d.Undecided++
	}
	d.Rules = append(d.Rules, r)
}

// compare compares a rule by its names as they are written; an empty one: there is none.
func compare(a, b *version, was, name string, tries int, now limit.Micros) Rule {
	r, off := Rule{Name: name, Change: Changed, Changes: []Change{}}, true
	suffixes := maps.Clone(a.parts[was])
	if suffixes == nil {
		suffixes = map[string]int{}
	}
	maps.Copy(suffixes, b.parts[name])
	for _, suffix := range slices.Sorted(maps.Keys(suffixes)) {
		sides := [2]*side{{version: a}, {version: b}}
		for i, written := range []string{was, name} {
			s := sides[i]
			if at, ok := s.parts[written][suffix]; ok {
				s.at, s.rule = at, s.set.Rule(at)
				off = off && s.rule.Mode == rule.Off
			}
		}
		r.part(suffix, sides, tries, now)
	}
	switch {
	case was == "":
		r.Change = Added
	case name == "":
		r.Name, r.Change = was, Removed
	case was != name:
		r.Was, r.Change = was, Renamed
	case len(r.Changes) == 0:
		r.Change = ""
	case !slices.ContainsFunc(r.Changes, func(c Change) bool { return c.What != Undecided }):
		r.Change = Undecided
	}
	for code, reason := range b.unreached[name] {
		if r.Change != "" && r.Change != Undecided && a.unreached[was][code] == "" {
			r.Changes = append(r.Changes, Change{What: unreached, New: reason})
		}
	}
	if off && r.Change != "" {
		r.Change = Off
	}
	return r
}

// part adds the changes of a part of the rule, but for those that another part has, too.
func (r *Rule) part(suffix string, sides [2]*side, tries int, now limit.Micros) {
	a, b := sides[older], sides[newer]
	p := newPair(a, b, now)
	undecided := p.search(tries / (1 + (len(a.only)+len(b.only))/100)) // each takes time
	var all []Change
	if a.rule != nil && b.rule != nil {
		all = fields(a, b)
	} else if len(p.found) == 0 {
		all = []Change{{What: "match", Old: a.field("match"), New: b.field("match")}}
	}
	all = append(all, p.found...)
	if len(undecided) > 0 {
		all = append(all, Change{What: Undecided, New: strings.Join(undecided, ", ")})
	}
	for _, c := range all {
		if (a.rule == nil || b.rule == nil) && c.Example != nil {
			c.What = requests
		}
		if !slices.ContainsFunc(r.Changes, func(o Change) bool {
			return o.What == c.What && o.Old == c.Old && o.New == c.New && o.Counters == c.Counters
		}) {
			c.Part = suffix
			r.Changes = append(r.Changes, c)
		}
	}
}

// fields are the differences between what two versions state.
func fields(a, b *side) (all []Change) {
	add := func(what, was, is string, keeps bool) {
		counters := map[bool]string{true: "kept", false: "anew"}[keeps]
		if !slices.Contains(counted, what) && !strings.Contains(what, " ") {
			counters = ""
		}
		if was != is {
			all = append(all, Change{What: what, Old: was, New: is, Counters: counters})
		}
	}
	exempt := a.rule.Mode == rule.Exempt || b.rule.Mode == rule.Exempt
	for _, s := range settings {
		if !exempt || s.field == "mode" || s.field == "from" {
			add(s.field, a.setting(s.field, s.def), b.setting(s.field, s.def), s.field == "limit" && a.set.Limit(a.at, 0).Shape() == b.set.Limit(b.at, 0).Shape())
		}
	}
	if exempt {
		if x, y := &a.rule.Match, &b.rule.Match; !lint.Covers(x, y) || !lint.Covers(y, x) {
			add("match", a.field("match"), b.field("match"), true)
		}
		return all
	}
	x, y := a.overrides(), b.overrides()
	for _, name := range names(x, y) {
		add(name, x[name].text, y[name].text, x[name].shape == y[name].shape)
	}
	x, y, start := a.keys(), b.keys(), len(all)
	for _, name := range names(x, y) {
		add(name, x[name].text, y[name].text, true)
	}
	if more := len(all) - start - mostKeys; more > 0 {
		all = append(all[:start+mostKeys], Change{What: "keys", New: fmt.Sprint("and ", more, " more")})
	}
	return all
}

// counted are the fields that name counters.
var counted = []string{"limit", "algorithm", "align", "scope", "hash", "key"}

func names(x, y map[string]own) []string {
	all := maps.Clone(x)
	maps.Copy(all, y)
	return slices.Sorted(maps.Keys(all))
}

// String is the comparison for people: a block for each rule, and a line with the counts.
func (d *Diff) String() string {
	out := ""
	for _, r := range d.Rules {
		switch out += r.Name + ": " + r.Change; r.Change {
		case Renamed:
			out += " from " + r.Was + "; counters begin anew"
		case Off:
			out += ", so no request changes"
		}
		out += "\n"
		for _, c := range r.Changes {
			out += c.String()
		}
		out += "\n"
	}
	return out + fmt.Sprintf("changed %d, added %d, removed %d, undecided %d\n", d.Changed, d.Added, d.Removed, d.Undecided)
}

// String is a line, and one for the example.
func (c *Change) String() string {
	line := "  " + strings.TrimSpace(c.Part+" "+c.What)
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
