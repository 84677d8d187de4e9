// Package explain finds out why a rule does not apply to a request. It asks the evaluator itself: each clause of a
// rule's match alone is a rule of its own, and the first of them that does not apply is the clause that failed.
//
// Of a request of which not all inputs are known it says what is so whatever the others are, and which it needs for
// the rest. It never guesses.
//
//	explain.go  what becomes of a request by each rule
//	clause.go   the clauses of a rule
//	refuse.go   which rule refuses it
package explain

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Verdict is what becomes of a request by one rule.
type Verdict struct {
	Rule *rule.Rule
	// Hit is how the rule applies; nil: it does not, or that is not known. Its Variant is -1 and its Cost 0 where these are
	// not known.
	Hit *rule.Hit
	// Failed is the first clause that failed, in the words of the rule language: "path", "header x-tier", "not[0]", "key"
	// if a part of the key is missing, "mode" if the rule is off; empty: none is known to fail.
	Failed string
	// ExemptBy is an exempt rule that lifts this one, of whose clauses none is known to fail; empty: none.
	ExemptBy string
	// Override is the name of the override whose condition holds, or its place, 1 for the first; empty: none, and the
	// rule's own limit counts. If it is Unlimited, nothing does.
	Override  string
	Unlimited bool
	// Own is the override by key that the key has; nil: none. It replaces the rule's own limit.
	Own *rule.KeyLimit
	// Needs are the inputs that are not known and that decide the rest: whether the rule applies, see Unknown; else which
	// override and what cost it has. Each is a word of [request.Known].
	Needs []string
}

// Applies reports whether the rule does what it is for: it counts the request or, if it is exempt, lifts other rules.
func (v *Verdict) Applies() bool {
	return v.Hit != nil || v.Rule.Mode == rule.Exempt && v.Failed == "" && len(v.Needs) == 0
}

// Unknown reports that it is not known whether the rule applies.
func (v *Verdict) Unknown() bool {
	return len(v.Needs) > 0 && v.Hit == nil && !v.Unlimited
}

// Rules explains each rule of a set. stated makes the request for a set with these inputs; what is not known is absent.
func Rules(set *rule.Set, known request.Known, stated func(*rule.Inputs) *rule.Request) []Verdict {
	e := explainer{known: known, seed: set.Seed(), request: stated}
	q := stated(set.Inputs())
	set.Match(q, &e.found)
	all := make([]Verdict, set.Len())
	for i := range all {
		all[i].Rule = set.Rule(i)
		e.explain(i, &all[i])
		if v := &all[i]; v.Hit != nil && v.Hit.Variant == 0 {
			v.Own = own(v.Rule, q, v.Hit.Key)
		}
	}
	return all
}

// explainer explains the rules of a set.
type explainer struct {
	known   request.Known
	seed    uint64
	request func(*rule.Inputs) *rule.Request

	found   rule.Matches
	exempt  []*Verdict // the exempt rules that hold
	perhaps []*Verdict // those of which that is not known
}

func (e *explainer) explain(i int, v *Verdict) {
	r := v.Rule
	at := slices.IndexFunc(e.found.Hits, func(h rule.Hit) bool { return h.Rule == i })
	if at >= 0 && e.known == nil {
		v.Hit = &e.found.Hits[at]
		v.Override = override(r, v.Hit.Variant)
		return
	}
	if r.Mode == rule.Off {
		v.Failed = "mode"
		return
	}
	c := e.clauses(r)
	failed, needs := together(c.match)
	if failed != nil {
		v.Failed = failed.name
		return
	}
	if r.Mode == rule.Exempt {
		if v.Needs = needs; len(needs) > 0 {
			e.perhaps = append(e.perhaps, v)
		} else {
			e.exempt = append(e.exempt, v)
		}
		return
	}
	if by := lifting(e.exempt, r); by != nil {
		v.ExemptBy = by.Rule.Name
		return
	}
	if by := lifting(e.perhaps, r); by != nil {
		needs = append(slices.Clone(by.Needs), needs...)
	}
	if v.Needs = needs; len(needs) > 0 {
		return
	}
	if at >= 0 {
		v.Hit = &e.found.Hits[at]
	}
	e.limit(v, c)
}

// lifting is the first exempt rule that lifts a rule; nil: none does.
func lifting(exempt []*Verdict, r *rule.Rule) *Verdict {
	for _, e := range exempt {
		if len(e.Rule.From) == 0 || slices.Contains(e.Rule.From, rule.Written(r.Name)) {
			return e
		}
	}
	return nil
}

// limit finds which limit and which cost a rule has that applies.
func (e *explainer) limit(v *Verdict, c *clauses) {
	possible, unlimited := []int{}, 0
	for i := range v.Rule.Limits {
		i = (i + 1) % len(v.Rule.Limits) // the rule's own limit is last
		failed, needs := together(c.overrides[i])
		if failed != nil {
			continue
		}
		possible, v.Needs = append(possible, i), append(v.Needs, needs...)
		if v.Rule.Limits[i].Unlimited {
			unlimited++
		}
		if len(needs) == 0 {
			break
		}
	}
	if v.Unlimited = unlimited == len(possible); len(possible) == 1 {
		v.Override = override(v.Rule, possible[0])
	}
	if unlimited > 0 { // perhaps, or surely
		v.Hit = nil
		return
	}
	if len(possible) > 1 {
		v.Hit.Variant = -1
	}
	if h := v.Rule.Cost.Header; h != "" {
		if needs := e.unknown(rule.Source{From: rule.FromHeader, Name: h}); len(needs) > 0 {
			v.Hit.Cost, v.Needs = 0, append(v.Needs, needs...)
		}
	}
}

// override is a variant of a rule for people; empty: it is none.
func override(r *rule.Rule, variant int) string {
	if name := r.Limits[variant].Name; name != "" || variant == 0 {
		return name
	}
	return strconv.Itoa(variant)
}
