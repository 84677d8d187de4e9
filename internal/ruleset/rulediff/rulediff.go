// Package rulediff compares two versions of rules by what they state: which fields of which rules differ, whether that rejects more
// or fewer requests, and which counters start again. Examples are requests that both versions have decided.
//
//	effect.go  whether a change rejects more or fewer requests
//	fields.go  the fields of rules
package rulediff

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/describe"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// What became of a rule.
const (
	changed = "changed"
	added   = "added"
	removed = "removed"
)

// Diff is a comparison of two versions. Rules that are the same are not in it.
type Diff struct {
	Rules []Rule `json:"rules"`
	// How many rules became what.
	Changed int `json:"changed"`
	Added   int `json:"added"`
	Removed int `json:"removed"`
	// How many differences reject more requests, and how many fewer.
	Stricter int `json:"stricter"`
	Looser   int `json:"looser"`
}

// Same reports that no rule changes.
func (d *Diff) Same() bool { return len(d.Rules) == 0 }

// Rule is what became of a rule, by its name in answers and metrics: what a rule of the document is expanded into are several.
type Rule struct {
	Name    string       `json:"name"`
	Change  string       `json:"change"`
	Changes []Difference `json:"changes"`
	// Requests to which only the new or only the old version of the rule applies; nil: none was found.
	AppliesTo *request.Request `json:"applies_to,omitempty"`
	AppliedTo *request.Request `json:"applied_to,omitempty"`
}

// Difference is one.
type Difference struct {
	What     string `json:"what"`
	Old      string `json:"old,omitempty"`
	New      string `json:"new,omitempty"`
	Counters string `json:"counters,omitempty"` // "kept" or "anew"
	Effect   string `json:"effect,omitempty"`   // "stricter" or "looser"
}

// Compare compares two versions. now is when: what has ended by then is over. The error is that of ctx, if it ends before.
func Compare(ctx context.Context, before, after *rule.Set, now time.Time) (*Diff, error) {
	a, b, d := newVersion(before, now), newVersion(after, now), &Diff{Rules: []Rule{}}
	for i := range after.Len() {
		d.compare(a.of(after.Rule(i).Name), b.of(after.Rule(i).Name))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	for i := range before.Len() {
		if name := before.Rule(i).Name; b.sides[name] == nil {
			d.compare(a.of(name), b.of(name))
		}
	}
	return d, nil
}

// compare adds what became of a rule, if anything did. One that is off on both sides is not there.
func (d *Diff) compare(a, b *side) {
	if a.rule.Mode == rule.Off && b.rule.Mode == rule.Off {
		return
	}
	r, count := Rule{Name: a.rule.Name, Change: changed, Changes: stated(a, b)}, &d.Changed
	switch {
	case a.fields == nil:
		r.Change, count = added, &d.Added
	case b.fields == nil:
		r.Change, count = removed, &d.Removed
	}
	if b.unreachable != "" && a.unreachable == "" {
		r.Changes = append(r.Changes, Difference{What: "unreachable", New: b.unreachable})
	}
	if len(r.Changes) == 0 {
		return
	}
	r.AppliesTo, r.AppliedTo = only(b, a), only(a, b)
	d.Rules = append(d.Rules, r)
	*count++
	for _, c := range r.Changes {
		switch c.Effect {
		case stricter:
			d.Stricter++
		case looser:
			d.Looser++
		}
	}
}

// only is a request to which a rule applies and its other version does not; nil: none was found.
func only(s, other *side) *request.Request {
	if s.rule.Mode == rule.Off {
		return nil
	}
	for example := range describe.Examples(s.rule) {
		if describe.Applies(s.set, s.rule.Name, example, s.now) && !describe.Applies(other.set, s.rule.Name, example, other.now) {
			return example
		}
	}
	return nil
}

// String is the comparison for people: a block for each rule, and a line with the counts.
func (d *Diff) String() string {
	out := ""
	for _, r := range d.Rules {
		out += r.Name + ": " + r.Change + "\n"
		for _, c := range r.Changes {
			out += c.String()
		}
		if r.AppliesTo != nil {
			out += "  now applies to: weir explain " + r.AppliesTo.String() + "\n"
		}
		if r.AppliedTo != nil {
			out += "  no longer applies to: weir explain " + r.AppliedTo.String() + "\n"
		}
		out += "\n"
	}
	return out + fmt.Sprintf("changed %d, added %d, removed %d; stricter %d, looser %d\n", d.Changed, d.Added, d.Removed, d.Stricter, d.Looser)
}

// String is a line.
func (c *Difference) String() string {
	line := "  " + c.What
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
	return line + map[string]string{"kept": "; counters continue", "anew": "; counters start again"}[c.Counters] + "\n"
}
