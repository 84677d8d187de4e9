package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// decider finds out which rules apply to requests, and which cannot be decided because the log lacks what they look at. The
// tiers leave such a rule out: in the rules that they get each has one more condition, a header that a request must not have.
type decider struct {
	set    *rule.Set
	with   *rule.Set // the same with these conditions
	header []int     // by rule: the place of its header among the inputs
	inputs []string  // what all rules look at
	region string    // of lines that do not state theirs
	place  rule.PoP  // of which the first line is
	secret rule.Secret
	seen   map[string]*partly
	found  rule.Matches
	scrap  rule.Request
}

// partly is what is known of rules for requests that lack the same inputs.
type partly struct {
	lacks []lack    // rules that cannot be decided
	known *rule.Set // those rules, with the conditions that can
}

func newDecider(set *rule.Set, region string) decider {
	d := decider{set: set, region: region}
	rules := make([]rule.Rule, set.Len())
	name := func(i int) string { return fmt.Sprint("weir-unknown-", i) }
	for i := range rules {
		rules[i] = *set.Rule(i)
		m := &rules[i].Match
		m.Headers = append(slices.Clone(m.Headers), rule.Named{Name: name(i), Text: rule.Text{Op: rule.OpAbsent}})
		slices.SortFunc(m.Headers, func(a, b rule.Named) int { return strings.Compare(a.Name, b.Name) })
		d.inputs = append(d.inputs, lacking(&rule.Rule{}, set.Rule(i), nil)...)
	}
	slices.Sort(d.inputs)
	d.inputs = slices.Compact(d.inputs)
	d.with = rule.NewSet(rules, set.Regions(), set.Seed())
	for i := range rules {
		d.header = append(d.header, d.with.Inputs().Header(name(i)))
	}
	return d
}

// match finds the rules that apply to the request of a line.
func (d *decider) match(e *entry, l *accesslog.Line) {
	d.fill(&e.request, l, d.with, e.at)
	region := cmp.Or(l.Request.Region, d.region)
	if d.seen == nil { // it is the first line
		d.seen, d.place.Region = map[string]*partly{}, region
	}
	l.Known[request.Input(rule.Source{From: rule.FromRegion})] = region != "" && region == d.place.Region
	if p := d.of(l.Known); len(p.lacks) > 0 {
		d.leaveOut(e, l, p)
	}
	d.with.Match(&e.request, &d.found)
	for _, h := range d.found.Hits {
		if d.set.Rule(h.Rule).Limits[0].Limit.Algorithm == limit.Concurrency {
			e.lasts = limit.Micros(l.Duration.Microseconds())
		}
		e.hits = append(e.hits, hit{h.Rule, h.Variant, h.Cost, hashOf(h.Rule, h.Key), string(h.Key)})
	}
}

func (d *decider) fill(q *rule.Request, l *accesslog.Line, set *rule.Set, at limit.Micros) {
	l.Request.Fill(set.Inputs(), q)
	q.Now, q.PoP, q.Secret = at, &d.place, &d.secret
}

// leaveOut takes the rules that cannot be decided out of those of a request, and notes which of them may apply: those whose
// known conditions hold, and those that an exempt rule may lift which may apply.
func (d *decider) leaveOut(e *entry, l *accesslog.Line, p *partly) {
	out := func(i int) { e.request.Headers[d.header[i]].Present = true }
	for _, one := range p.lacks {
		out(one.rule)
	}
	d.fill(&d.scrap, l, p.known, e.at)
	p.known.Match(&d.scrap, &d.found)
	for _, h := range d.found.Hits {
		e.unknown = append(e.unknown, p.lacks[h.Rule])
	}
	for _, by := range e.unknown {
		exempt := d.set.Rule(by.rule)
		if exempt.Mode != rule.Exempt {
			continue
		}
		d.with.Match(&e.request, &d.found)
		for _, h := range d.found.Hits {
			if len(exempt.From) == 0 || slices.Contains(exempt.From, rule.Written(d.set.Rule(h.Rule).Name)) {
				out(h.Rule)
				e.unknown = append(e.unknown, lack{h.Rule, by.missing})
			}
		}
	}
}

// of is what is known of rules for a request of which these inputs are known.
func (d *decider) of(known request.Known) *partly {
	var buf [128]byte
	signature := buf[:0]
	for _, word := range d.inputs {
		signature = append(signature, '0')
		if known[word] {
			signature[len(signature)-1] = '1'
		}
	}
	p := d.seen[string(signature)]
	if p != nil {
		return p
	}
	if p = new(partly); len(d.seen) > 256 {
		clear(d.seen)
	}
	d.seen[string(signature)] = p
	var rules []rule.Rule
	for i := range d.set.Len() {
		var part rule.Rule
		if missing := lacking(&part, d.set.Rule(i), known); len(missing) > 0 {
			p.lacks, rules = append(p.lacks, lack{i, missing}), append(rules, part)
		}
	}
	p.known = rule.NewSet(rules, nil, d.set.Seed())
	return p
}

// lacking are the inputs of a rule that are not known, each once. It makes part a rule that applies where the rule may.
func lacking(part, r *rule.Rule, known request.Known) (missing []string) {
	if r.Mode == rule.Off {
		return nil
	}
	lacks := func(s rule.Source) bool {
		before := len(missing)
		for _, word := range []string{request.Input(s), request.HeaderInput("x-forwarded-for")}[:1+min(s.TrustedHops, 1)] {
			if word != "" && !known[word] {
				missing = append(missing, word)
			}
		}
		return len(missing) > before
	}
	*part = rule.Rule{Name: r.Name, Match: reduced(r.Match, lacks), Key: r.Key, Limits: []rule.Variant{{
		Limit: limit.Spec{Algorithm: limit.FixedWindow, Period: limit.Minute},
	}}}
	plain := len(missing)
	for _, sources := range r.Key {
		for _, s := range sources {
			lacks(s)
		}
	}
	if len(missing) > plain || r.Mode == rule.Exempt {
		part.Key, part.Match.Percent = nil, rule.Percent{}
		part.Match.Not = slices.DeleteFunc(part.Match.Not, func(n rule.Match) bool { return n.Percent != rule.Percent{} })
	}
	for i := range r.Limits {
		reduced(r.Limits[i].When, lacks)
	}
	if r.Cost.Header != "" {
		lacks(rule.Source{From: rule.FromHeader, Name: r.Cost.Header})
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// reduced is a match without the conditions on inputs that are lacking.
func reduced(m rule.Match, lacks func(rule.Source) bool) rule.Match {
	if len(m.Methods) > 0 && lacks(rule.Source{From: rule.FromMethod}) {
		m.Methods = nil
	}
	if len(m.Hosts) > 0 && lacks(rule.Source{From: rule.FromHost}) {
		m.Hosts = nil
	}
	if len(m.Paths) > 0 && lacks(rule.Source{From: rule.FromPath}) {
		m.Paths = nil
	}
	if len(m.Regions) > 0 && lacks(rule.Source{From: rule.FromRegion}) {
		m.Regions = nil
	}
	if len(m.Clients) > 0 && lacks(rule.Source{From: rule.FromClientIP, TrustedHops: m.TrustedHops}) {
		m.Clients, m.TrustedHops = nil, 0
	}
	for _, f := range m.Fields() {
		*f.List = slices.DeleteFunc(slices.Clone(*f.List), func(n rule.Named) bool { return lacks(rule.Source{From: f.From, Name: n.Name}) })
	}
	m.Not = slices.DeleteFunc(slices.Clone(m.Not), func(n rule.Match) bool {
		lack := false
		reduced(n, func(s rule.Source) bool { one := lacks(s); lack = lack || one; return one })
		return lack
	})
	return m
}
