package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// decider finds out which rules apply to requests, and which cannot be decided because the log lacks what they look at. Such a
// rule is left out: each has one more condition, a header that a request must not have.
type decider struct {
	set      *rule.Set
	with     *rule.Set // the same with these conditions
	header   []int     // by rule: the place of its header among the inputs
	where    *rule.Set // each rule for all requests with its methods and paths
	looks    [][]string
	unknown  []int64    // by rule: requests
	missing  [][]string // by rule: inputs
	noKey    []int64    // by rule: requests that lack a part of the key
	exempted []int64    // by rule: requests for which it lifts others
	request  rule.Request
	place    rule.PoP
	secret   rule.Secret
	found    rule.Matches
}

func newDecider(set *rule.Set, region string) decider {
	d := decider{set: set, place: rule.PoP{Region: region}, unknown: make([]int64, set.Len()), missing: make([][]string, set.Len()), noKey: make([]int64, set.Len()), exempted: make([]int64, set.Len())}
	rules, where := make([]rule.Rule, set.Len()), make([]rule.Rule, set.Len())
	name := func(i int) string { return fmt.Sprint("weir-unknown-", i) }
	for i := range rules {
		r := set.Rule(i)
		rules[i] = *r
		m := &rules[i].Match
		m.Headers = append(slices.Clone(m.Headers), rule.Named{Name: name(i), Text: rule.Text{Op: rule.OpAbsent}})
		slices.SortFunc(m.Headers, func(a, b rule.Named) int { return strings.Compare(a.Name, b.Name) })
		where[i] = rule.Rule{
			Name: r.Name, Match: rule.Match{Methods: r.Match.Methods, Paths: r.Match.Paths, Ignore: r.Match.Ignore},
			Limits: []rule.Variant{{Limit: limit.Spec{Algorithm: limit.FixedWindow, Period: limit.Minute}}},
		}
		if r.Mode == rule.Off {
			where[i].Mode = rule.Off
		}
		d.looks = append(d.looks, request.Known{}.Lacks(r))
	}
	d.with, d.where = rule.NewSet(rules, set.Regions(), set.Seed()), rule.NewSet(where, nil, 0)
	for i := range rules {
		d.header = append(d.header, d.with.Inputs().Header(name(i)))
	}
	return d
}

// match finds the rules that apply to the request of a line, and counts those that are unknown for it.
func (d *decider) match(e *entry, l *accesslog.Line) {
	q := &d.request
	l.Request.Fill(d.with.Inputs(), q)
	q.Now, q.PoP, q.Secret = e.at, &d.place, &d.secret
	l.Known["region"] = d.place.Region != ""
	d.where.Match(q, &d.found)
	for _, h := range d.found.Hits {
		q.Headers[d.header[h.Rule]].Present = d.lacks(h.Rule, l.Known)
	}
	d.with.Match(q, &d.found)
	for _, h := range d.found.Hits {
		if d.set.Rule(h.Rule).Limits[0].Limit.Algorithm == limit.Concurrency {
			e.lasts = limit.Micros(l.Duration.Microseconds())
		}
		e.hits = append(e.hits, hit{rule: h.Rule, variant: h.Variant, cost: h.Cost, hash: hashOf(h.Rule, h.Key), key: string(h.Key)})
	}
	for _, i := range d.found.MissingKey {
		d.noKey[i]++
	}
	for _, i := range d.found.Exempt {
		d.exempted[i]++
	}
}

// lacks reports that a rule looks at something that is not known, and counts that.
func (d *decider) lacks(i int, known request.Known) bool {
	lacks := false
	for _, word := range d.looks[i] {
		if known[word] {
			continue
		}
		if lacks = true; !slices.Contains(d.missing[i], word) {
			d.missing[i] = append(d.missing[i], word)
		}
	}
	add(&d.unknown[i], lacks)
	return lacks
}
