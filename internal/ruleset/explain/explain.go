// Package explain finds out why a rule does not apply to a request. It uses the evaluator: each condition of a rule's match
// becomes a rule of its own, and the first of them that does not apply is the condition that failed.
//
// If a rule needs a part of the request that is not known, its result is unknown, unless another condition fails.
//
//	explain.go  the decision of each rule on a request
//	clause.go   the conditions of a rule
//	reject.go   the rule that rejects the request
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
	// Hit is how the rule applies; nil: it does not, or that is not known.
	Hit *rule.Hit
	// Shed is how a rule that sheds load applies, which never has a Hit; nil likewise.
	Shed *rule.ShedHit
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
	// Needs are the inputs that are not known and that decide whether and how the rule applies, each a word of
	// [request.Known]; empty: that is known.
	Needs []string
}

// Applies reports whether the rule does what it is for: it counts the request, may shed it or, if it is exempt, lifts other
// rules.
func (v *Verdict) Applies() bool {
	return v.Hit != nil || v.Shed != nil || v.Rule.Mode == rule.Exempt && v.Failed == "" && !v.Unknown()
}

// Unknown reports that it is not known whether and how the rule applies.
func (v *Verdict) Unknown() bool { return len(v.Needs) > 0 }

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
	if r.Mode == rule.Off {
		v.Failed = "mode"
		return
	}
	needs := e.known.Missing(r)
	if by := lifting(e.perhaps, r); by != nil {
		needs = append(slices.Clone(by.Needs), needs...)
	}
	at := slices.IndexFunc(e.found.Hits, func(h rule.Hit) bool { return h.Rule == i })
	if at >= 0 && len(needs) == 0 {
		v.Hit = &e.found.Hits[at]
		v.Override = override(r, v.Hit.Variant)
		return
	}
	at = slices.IndexFunc(e.found.Sheds, func(h rule.ShedHit) bool { return h.Rule == i })
	if at >= 0 && len(needs) == 0 {
		v.Shed = &e.found.Sheds[at]
		return
	}
	if v.Failed = e.failed(r); v.Failed != "" {
		return
	}
	if by := lifting(e.exempt, r); by != nil {
		v.ExemptBy = by.Rule.Name
		return
	}
	switch v.Needs = needs; {
	case r.Mode == rule.Exempt && len(needs) > 0:
		e.perhaps = append(e.perhaps, v)
	case r.Mode == rule.Exempt:
		e.exempt = append(e.exempt, v)
	case len(needs) == 0 && r.Shed == nil:
		v.Unlimited, v.Override = true, override(r, e.unlimited(r))
	}
}

// lifting is the first exempt rule that lifts a rule; nil: none does.
func lifting(exempt []*Verdict, r *rule.Rule) *Verdict {
	if r.Mode == rule.Exempt {
		return nil
	}
	for _, e := range exempt {
		if e.Rule.Lifts(r.Name) {
			return e
		}
	}
	return nil
}

// override is a variant of a rule for people; empty: it is none.
func override(r *rule.Rule, variant int) string {
	if name := r.Limits[variant].Name; name != "" || variant == 0 {
		return name
	}
	return strconv.Itoa(variant)
}
