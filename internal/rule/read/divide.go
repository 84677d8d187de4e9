package read

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// parts divides the keys of a rule, by percent or into variants.
func (d *reader) parts(v strict.Value, w windows) {
	d.written = append(d.written, w)
	percent, variants := v.Field("percent"), v.Field("variants")
	divided := percent.Present() || variants.Present()
	switch {
	case percent.Present() && variants.Present():
		v.FailName("percent", "does not go together with variants, which divide the keys, too; remove one of them")
	case divided && w.rules[0].Match.Percent != rule.Percent{}:
		v.Field("match").FailName("percent", "does not go together with percent or variants of the rule; remove one of them")
	}
	switch {
	case variants.Present():
		d.variants(variants, w)
	case percent.Present():
		to := int(integer(percent, check.PercentRange))
		d.add(w, "", rule.Percent{To: to})
		w.rules = slices.Clone(w.rules)
		w.shadow()
		d.add(w, "@shadow", rule.Percent{From: to, To: 100})
	default:
		d.add(w, "", rule.Percent{})
	}
}

// shadow has the rules reject nothing.
func (w *windows) shadow() {
	for i := range w.rules {
		if r := &w.rules[i]; r.Mode != rule.Off {
			r.Mode = rule.Shadow
		}
	}
}

const variantForms = "a list of variants, such as [{ name: a, weight: 90 }, { name: b, weight: 10, limit: 6/1m }]"

// variants reads what the keys of a rule are divided into.
func (d *reader) variants(list strict.Value, w windows) {
	sum := 0
	for i, v := range list.List(rule.MaxVariants, variantForms) {
		if !v.Object(variantFields...) {
			continue
		}
		own := d.variant(v, w)
		own.own = strict.Index(strict.Index("rules", w.rule)+".variants", i)
		name := v.Field("name")
		name.Require("a name such as a, which becomes the end of the rule's")
		suffix, ok := name.String("a name")
		if flaw := check.NameFlaw(suffix, rule.MaxSuffix); flaw != "" {
			if suffix = strconv.Itoa(i); ok {
				name.Fail(flaw)
			}
		}
		weight := v.Field("weight")
		weight.Require("how many percent of the keys it has")
		from := sum
		sum += int(integer(weight, check.PercentRange))
		d.add(own, "@"+suffix, rule.Percent{From: from, To: sum})
	}
	if sum != 100 && list.Ok() {
		list.Fail("has weights that add up to " + strconv.Itoa(sum) + "; write weights that add up to 100")
	}
}

// variant returns the rules of a variant: those of the rule but for what it states itself.
func (d *reader) variant(v strict.Value, w windows) windows {
	spec := w.rules[0].Limits[0].Limit
	spec.Algorithm = enum(v.Field("algorithm"), spec.Algorithm)
	one, list := v.Field("limit"), v.Field("limits")
	own := w
	own.rules = slices.Clone(w.rules)
	if one.Present() || list.Present() {
		if len(w.rules[0].Limits)+len(w.rules[0].Keys) > 1 {
			v.Fail("has a limit of its own, and the rule has overrides, which are relative to the rule's; remove one of them")
		}
		spec.Count, spec.Period, spec.Burst = 0, 0, 0
		own.set(w.rules[0], d.limits(v, spec), list.Present())
	}
	stated := v.Field("consistency")
	consistency := enum(stated, w.rules[0].Consistency)
	for i := range own.rules {
		r := &own.rules[i]
		r.Consistency, r.SmallExact = consistency, r.SmallExact && !stated.Present()
		r.Limits, r.Keys = slices.Clone(r.Limits), slices.Clone(r.Keys)
		for s := range r.Specs() {
			s.Algorithm = spec.Algorithm
		}
	}
	return own
}

// candidates reads limits that are counted beside those of a rule, and reject nothing.
func (d *reader) candidates(list strict.Value) {
	var seen []string
	for i, v := range list.List(rule.MaxCandidates, "a list of candidates, such as [{ rule: login, limit: 3/1m }]") {
		if !v.Object(candidateFields...) {
			continue
		}
		of := v.Field("rule")
		if !of.Require("the name of the rule") {
			continue
		}
		name, ok := of.String("the name of the rule")
		at := slices.IndexFunc(d.written, func(w windows) bool { return w.rules[0].Name == name })
		switch {
		case !ok:
			continue
		case at < 0:
			of.Fail(strict.Quote(name) + " is no rule with a limit; write the name of a rule")
			continue
		case slices.Contains(seen, name):
			of.Fail(strict.Quote(name) + " has a candidate; write one for each rule")
			continue
		}
		seen = append(seen, name)
		candidate := d.candidate(v, d.written[at])
		candidate.own = strict.Index("candidates", i)
		d.add(candidate, "@candidate", rule.Percent{})
	}
}

// candidate returns the rule of a candidate. Its overrides are those of the window that has its
// period, else of the first.
func (d *reader) candidate(v strict.Value, w windows) windows {
	spec := w.rules[0].Limits[0].Limit
	spec.Count, spec.Period, spec.Burst = 0, 0, 0
	spec = d.ownLimit(v.Field("limit"), spec)
	window := max(0, slices.IndexFunc(w.rules, func(r rule.Rule) bool { return samePeriod(r.Limits[0].Limit, spec) }))
	if w.window >= 0 {
		w.window = window
	}
	r := w.rules[window]
	if own := r.Limits[0].Limit; len(r.Keys) > 0 && !samePeriod(own, spec) && v.Ok() {
		v.Field("limit").Fail("has another period than the rule, which the overrides with key of the rule have, too; write " + windowName(own, 0))
	}
	r.Limits = slices.Clone(r.Limits)
	r.Limits[0].Limit = spec
	if end := Time(v.Field("until")); end > 0 && (r.Match.Until == 0 || end < r.Match.Until) {
		r.Match.Until = end
	}
	w.rules = []rule.Rule{r}
	w.shadow()
	return w
}
