// Package read turns a document, which may be JSON or YAML, into rules.
//
// It is part of the Envoy filter, see package rule.
package read

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// JSON reads the compiled form of a set, as [rule.Set.Encode] writes it. It is the
// rule language itself as JSON, so JSON takes every rules document written as
// JSON and checks it as strictly as any other. The error is a *[strict.Error] or
// [strict.Errors].
func JSON(text []byte) (*rule.Set, error) {
	node, err := strict.ParseJSON(text)
	if err != nil {
		return nil, err
	}
	var errs strict.Errors
	if set := Document(strict.Root(node, &errs), nil); set != nil {
		return set, nil
	}
	return nil, errs
}

// Document reads a rules document, which may be part of another one. Every mistake is
// reported in doc; the result is nil if there is one. zones knows the calendars of limits; nil: nobody here does, and
// the names of time zones may be wrong.
func Document(doc strict.Value, zones Zones) *rule.Set {
	doc.Require("a mapping with rules")
	r := reader{zones: zones}
	r.document(doc)
	set, problems := check.Rules(r.rules, r.regions, r.seed)
	for _, p := range r.problems(problems, doc) {
		doc.FailAt(p.Path, text(&p, doc))
	}
	switch {
	case set == nil || !doc.Ok():
		return nil
	case r.revision > 0:
		return set.Numbered(r.revision)
	}
	return set
}

// Zones finds the windows of a calendar. The error is what to write instead of its zone.
type Zones func(limit.Calendar) (limit.Windows, error)

// problems returns those that the document is to be told: with their places there, without
// those that follow from others.
func (d *reader) problems(all []check.Problem, doc strict.Value) (out []check.Problem) {
	first := map[string]int{} // the rule for which a place was told
	for _, p := range all {
		var i int
		p.Path, i = d.place(p.Path)
		p.Other, _ = d.place(p.Other)
		for j := range p.Uses {
			p.Uses[j], _ = d.place(p.Uses[j])
		}
		if told, ok := first[p.Path]; ok && told != i || follows(&p, doc) {
			continue // rules that come from one have its mistakes, too
		}
		first[p.Path] = i
		out = append(out, p)
	}
	return out
}

// follows reports whether a problem merely follows from a field that could not be read and
// has been reported.
func follows(p *check.Problem, doc strict.Value) bool {
	return slices.ContainsFunc(append(p.Uses, p.Path), doc.Touched)
}

// text adds to a problem the line of the other field that it is about.
func text(p *check.Problem, doc strict.Value) string {
	if line := doc.Find(p.Other).Line; p.Other != "" && line > 0 {
		return p.Text(p.Other) + " (line " + strconv.Itoa(line) + ")"
	}
	return p.Text(p.Other)
}

// reader reads a document. It checks names, types and the ranges of numbers; package check has the rest.
type reader struct {
	zones    Zones
	client   rule.Source // the default of client_ip in rules
	regions  rule.Regions
	revision uint64 // 0: the document states none
	seed     uint64
	doc      strict.Value
	written  []windows // the rules of the document, before they are divided
	rules    []rule.Rule
	origins  []origin // of the rules, by their index
}

// document reads the rules, and notes what else there is.
func (d *reader) document(doc strict.Value) {
	if d.doc = doc; !doc.Object(documentFields...) {
		return
	}
	d.revision = uint64(integer(doc.Field("revision"), check.RevisionRange))
	d.seed = uint64(integer(doc.Field("seed"), check.SeedRange))
	d.regions = regions(doc.Field("regions"))
	if v := doc.Field("client_ip"); v.Present() {
		d.client = d.clientIP(v)
	}
	v := doc.Field("rules")
	v.Require("a list of rules; [] for none")
	items := v.List(rule.MaxRules, "a list of rules; [] for none")
	if tooMany(v, items) {
		return
	}
	for i, item := range items {
		d.rule(item, i)
	}
	d.candidates(doc.Field("candidates"))
}

// tooMany rejects rules of which there would be too many once they are expanded, before that takes memory.
func tooMany(v strict.Value, items []strict.Value) bool {
	rules, overrides := 0, 0
	for _, item := range items {
		count := func(name string) int {
			if list := item.Node().Field(name); list != nil {
				return len(list.Items)
			}
			return 0
		}
		n := max(1, count("limits")) * max(1, count("variants"))
		if item.Field("percent").Present() {
			n *= 2
		}
		rules, overrides = rules+n, overrides+n*count("overrides")
	}
	switch {
	case rules > rule.MaxRules:
		v.Fail("has " + strconv.Itoa(rules) + " rules, counted once for each limit and variant; write at most " + strconv.Itoa(rule.MaxRules))
	case overrides > rule.MaxKeyLimits+rule.MaxRules*rule.MaxOverrides:
		v.Fail("has " + strconv.Itoa(overrides) + " overrides, counted once for each limit and variant; write at most " + strconv.Itoa(rule.MaxKeyLimits))
	default:
		return false
	}
	return true
}

const regionForms = "regions and their weights, such as { eu: 3, us: 1 }"

// regions reads a mapping of names to weights.
func regions(v strict.Value) (rs rule.Regions) {
	if !v.Is(strict.Object, regionForms) {
		return nil
	}
	if len(v.Names()) == 0 {
		v.Fail("is empty; write " + regionForms + ", or leave it out")
	}
	for _, name := range v.Names() {
		rs = append(rs, rule.Region{Name: name, Weight: integer(v.Field(name), check.WeightRange)})
	}
	return rs
}

// The functions below read a field that may be absent, as its zero value then.

// enum reads a word of the language, which is absent by default.
func enum[T rule.Word](v strict.Value, absent T) T {
	if v.Present() {
		if i, ok := v.Enum(rule.Words[T]()...); ok {
			return T(i)
		}
	}
	return absent
}

// integer reads a whole number.
func integer(v strict.Value, in check.Range) int64 {
	n, _ := v.Int(in.Low, in.High)
	return n
}

// period reads a duration above 0.
func period(v strict.Value, example string) limit.Micros {
	d := Duration(v, example)
	if d == 0 {
		v.Fail(strict.Quote(v.Node().Text) + " is not above 0; write a duration, such as " + example + ", or leave the field out")
	}
	return max(d, 0)
}

// Duration reads a duration; negative: it is absent or a mistake.
func Duration(v strict.Value, example string) limit.Micros {
	want := "a duration with its unit (ms, s, m, h, d), such as " + example
	if v.Kind() == strict.Int {
		v.Fail(v.Node().Text + " has no unit; write " + want)
	} else if v.Is(strict.String, want) {
		if d, ok := rule.ParsePeriod(v.Node().Text); ok {
			return d
		}
		v.Fail(strict.Quote(v.Node().Text) + " is not a duration; write " + want)
	}
	return -1
}
