// Package rulediff compares two versions of rules by their decisions on requests: which requests a rule matches now and did not
// match before, which have another limit, and which counters start again.
//
// A rule is equal only if its text shows it. Otherwise the package makes requests from the values of both versions; each example
// was decided by both. If neither settles a condition, the result is undecided.
//
//	effect.go  whether a change rejects more or fewer requests
//	side.go    one version of a rule, and the comparison by text
//	fields.go  the fields of rules except their match
//	places.go  the parts of a request that conditions read, and their values
//	search.go  requests of these values, decided by both versions
package rulediff

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// What became of a rule.
const (
	changed   = "changed"
	added     = "added"
	removed   = "removed"
	undecided = "undecided" // nothing is known to have changed; also the What of an open question
)

// What changed, beside what the rule states.
const (
	wider     = "wider"       // counts requests that it did not count
	narrower  = "narrower"    // does not count requests that it counted
	override  = "limit used"  // of the rule or an override
	keyed     = "counted as"  // the key
	classed   = "class"       // of a request, by a rule that sheds load
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
	// How many differences reject more requests, and how many fewer.
	Stricter int `json:"stricter"`
	Looser   int `json:"looser"`
}

// Same reports that no request changes.
func (d *Diff) Same() bool { return len(d.Rules) == 0 }

// Rule is what became of a rule, by its name in answers and metrics: what a rule of the document is expanded into are several.
type Rule struct {
	Name    string       `json:"name"`
	Change  string       `json:"change"`
	Changes []Difference `json:"changes"`
}

// Difference is one, with an example where that says more.
type Difference struct {
	What     string           `json:"what"`
	Old      string           `json:"old,omitempty"`
	New      string           `json:"new,omitempty"`
	Counters string           `json:"counters,omitempty"` // "kept" or "anew"
	Effect   string           `json:"effect,omitempty"`   // "stricter" or "looser"
	Example  *request.Request `json:"example,omitempty"`
}

// Compare compares two versions. now is when: what has ended by then is over. What has not been compared when ctx ends is
// undecided.
func Compare(ctx context.Context, before, after *rule.Set, now time.Time) *Diff {
	a, b, d := newVersion(before, after, now), newVersion(after, before, now), &Diff{Rules: []Rule{}}
	tries := min(max(allTries/max(before.Len(), after.Len(), 1), leastTries), mostTries)
	compare := func(name string) {
		if ctx.Err() != nil {
			d.Rules = append(d.Rules, Rule{Name: name, Change: undecided, Changes: []Difference{{What: undecided, New: "there was no time to compare it"}}})
			d.Undecided++
			return
		}
		d.compare(newPair(a.side(name), b.side(name), now), tries)
	}
	for i := range after.Len() {
		compare(after.Rule(i).Name)
	}
	for i := range before.Len() {
		if _, stays := after.Find(before.Rule(i).Name); !stays {
			compare(before.Rule(i).Name)
		}
	}
	return d
}

// compare adds what became of a rule, if anything did. One that is off on both sides is not there.
func (d *Diff) compare(p *pair, tries int) {
	a, b := p.a, p.b
	if a.rule.Mode == rule.Off && b.rule.Mode == rule.Off {
		return
	}
	r, count := Rule{Name: a.rule.Name, Change: changed, Changes: []Difference{}}, &d.Changed
	switch {
	case a.fields == nil:
		r.Change, count = added, &d.Added
	case b.fields == nil:
		r.Change, count = removed, &d.Removed
	}
	if r.Change == changed || !a.counts() && !b.counts() { // another one is told by an example
		r.Changes = append(r.Changes, stated(a, b)...)
	}
	p.search(tries)
	r.Changes = append(r.Changes, p.found...)
	if open := p.undecided(r.Changes); open != "" && r.Change == changed {
		if len(r.Changes) == 0 {
			r.Change, count = undecided, new(int)
		}
		r.Changes = append(r.Changes, Difference{What: undecided, New: open})
		d.Undecided++
	}
	if reason := b.unreachable[r.Name]; reason != "" && a.unreachable[r.Name] == "" {
		r.Changes = append(r.Changes, Difference{What: unreached, New: reason})
	}
	for _, c := range r.Changes {
		switch c.Effect {
		case stricter:
			d.Stricter++
		case looser:
			d.Looser++
		}
	}
	if len(r.Changes) > 0 || r.Change != changed {
		d.Rules = append(d.Rules, r)
		*count++
	}
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
	return out + fmt.Sprintf("changed %d, added %d, removed %d, undecided %d; stricter %d, looser %d\n", d.Changed, d.Added, d.Removed, d.Undecided, d.Stricter, d.Looser)
}

// String is a line, and one for the example.
func (c *Difference) String() string {
	line := "  " + cmp.Or(map[string]string{wider: "counts more requests", narrower: "counts fewer requests"}[c.What], c.What)
	switch {
	case c.Old != "" && c.New != "":
		line += ": " + c.Old + " -> " + c.New
	case c.Old != "":
		line += ": was " + c.Old
	case c.New != "":
		line += ": " + c.New
	}
	if c.Effect != "" {
		line += " (" + c.Effect + ")"
	}
	line += map[string]string{"kept": "; counters continue", "anew": "; counters start again"}[c.Counters]
	if c.Example != nil {
		line += "\n    weir explain " + c.Example.String()
	}
	return line + "\n"
}
