// Package requesttest makes requests from the texts of rules, so that many of them meet a condition.
package requesttest

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Words are what requests are made of: by source, what conditions of some rules state of it.
type Words struct {
	*rand.Rand
	of map[rule.Source][]string
}

// Of has the words of sets of rules.
func Of(seed uint64, sets ...*rule.Set) *Words {
	w := &Words{rand.New(rand.NewPCG(seed, 1)), map[rule.Source][]string{{From: rule.FromMethod}: {"GET", "PUT"}, {From: rule.FromPath}: {"/", "/a"}}}
	for _, set := range sets {
		for i := range set.Len() {
			r := set.Rule(i)
			w.condition(&r.Match)
			for _, part := range r.Key {
				for _, s := range part {
					w.add(s.From, s.Name, "ann", "bob")
				}
			}
			for j := range r.Limits {
				w.condition(&r.Limits[j].When)
			}
			for _, c := range r.ShedClasses() {
				w.condition(&c.When)
			}
			if r.Cost.By.Name != "" {
				w.add(r.Cost.By.From, r.Cost.By.Name, "1", "2")
			}
		}
	}
	return w
}

func (w *Words) add(from rule.From, name string, words ...string) {
	s := rule.Source{From: from, Name: name}
	w.of[s] = append(w.of[s], words...)
}

// meta are the parts of an expression or a template in whose place a letter is likely to match.
var meta = regexp.MustCompile(`\{\w+\}|\[.*?\]\+?|\.\*|\\.|[()|?*+$^]`)

// condition takes what a condition states, and a little more of it.
func (w *Words) condition(m *rule.Match) {
	w.add(rule.FromMethod, "", m.Methods...)
	w.add(rule.FromHost, "", m.Hosts...)
	w.add(rule.FromRegion, "", m.Regions...)
	for _, p := range m.Paths {
		w.add(rule.FromPath, "", meta.ReplaceAllString(p.Arg, "a"), strings.ToUpper(p.Arg), p.Arg+"a", p.Arg+"/")
	}
	for _, p := range m.Clients {
		address, _, _ := strings.Cut(p.String(), "/")
		w.add(rule.FromClientIP, "", address)
	}
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			w.add(f.From, n.Name, meta.ReplaceAllString(n.Text.Arg, "a"), n.Text.Arg+"a")
		}
	}
	for i := range m.Not {
		w.condition(&m.Not[i])
	}
}

// one draws what a request has of a source: mostly a word of its conditions, at times that of another source or nothing.
func (w *Words) one(s rule.Source) string {
	if w.IntN(6) == 0 {
		return []string{"", "a", "zz", "10.0.0.1", "eu"}[w.IntN(5)]
	}
	words := append(w.of[s], "")
	return strings.Replace(words[w.IntN(len(words))], "*.", "x.", 1)
}

// each draws some values of the names of a kind of sources.
func (w *Words) each(from rule.From) map[string]string {
	all := map[string]string{}
	for _, s := range slices.SortedFunc(maps.Keys(w.of), func(a, b rule.Source) int { return strings.Compare(a.Name, b.Name) }) {
		if s.From == from && w.IntN(4) > 0 {
			all[s.Name] = w.one(s)
		}
	}
	return all
}

// Inputs are the inputs of which requests have something, as [request.Known] has them.
func (w *Words) Inputs() []string {
	all := []string{"header x-forwarded-for"}
	for s := range w.of {
		all = append(all, request.Input(s))
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(word string) bool { return word == "" })
}

// joined are names and words, such as "a=b&c=d".
func joined(all map[string]string, separator string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, name+"="+all[name])
	}
	return strings.Join(pairs, separator)
}

// Request draws a request.
func (w *Words) Request() *request.Request {
	of := func(from rule.From) string { return w.one(rule.Source{From: from}) }
	r := &request.Request{
		Method: of(rule.FromMethod), Host: of(rule.FromHost), Path: of(rule.FromPath) + "?" + joined(w.each(rule.FromQuery), "&"),
		Headers: w.each(rule.FromHeader), Claims: w.each(rule.FromClaim), Metadata: w.each(rule.FromMetadata), Client: of(rule.FromClientIP), SAN: of(rule.FromSAN), Route: of(rule.FromRoute),
		Region: of(rule.FromRegion), Labels: w.each(rule.FromLabel),
	}
	r.Headers["cookie"] = joined(w.each(rule.FromCookie), "; ")
	r.Headers["x-forwarded-for"] = of(rule.FromClientIP) + "," + of(rule.FromClientIP)
	if !ip.Parse(r.Client).Valid() {
		r.Client = "192.0.2.1"
	}
	if r.Region == "" {
		r.Labels = nil
	}
	return r
}
