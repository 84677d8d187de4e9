package explain

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/request/requesttest"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// corpus are the rules in testdata of packages rulediff and rulefile, those of two documents together, as rules that a PoP
// decides by itself.
func corpus(t *testing.T) (sets []*rule.Set) {
	t.Helper()
	var rules []rule.Rule
	texts := regexp.MustCompile(`(?m)^(===|---) .*$`).Split(string(golden.Content(t, "../rulediff/testdata/changes.txt")), -1)
	for _, file := range golden.Files(t, "../rulefile/testdata/good_*.yaml") {
		texts = append(texts, string(golden.Content(t, file)))
	}
	for i, text := range texts {
		parsed, err := rulefile.Parse("rules", []byte(text))
		if err != nil {
			continue // a list of changes
		}
		for j := range parsed.Len() {
			if r := parsed.Rule(j); r.Shed == nil {
				rules = append(rules, local(*r, i))
			}
		}
		for k := range rules {
			rules[k].Exempts = slices.DeleteFunc(rules[k].Exempts, func(name string) bool {
				return !slices.ContainsFunc(rules, func(r rule.Rule) bool { return r.Name == name })
			})
		}
		if i%3 == 2 {
			set, problems := check.Rules(rules, nil, uint64(i%4))
			if set == nil {
				t.Fatal(problems)
			}
			sets, rules = append(sets, set), nil
		}
	}
	return sets
}

// local is a rule of document i, with few units that a PoP decides by itself.
func local(r rule.Rule, i int) rule.Rule {
	one := rule.Rule{Name: fmt.Sprint(r.Name, "-", i), Mode: r.Mode, Match: r.Match, Key: r.Key}
	for _, name := range r.Exempts {
		one.Exempts = append(one.Exempts, fmt.Sprint(name, "-", i))
	}
	if r.Mode == rule.Exempt {
		return one
	}
	if one.Scope = rule.ScopePoP; i%4 == 0 {
		one.Cost = rule.Cost{By: rule.Source{From: rule.FromHeader, Name: "x-cost"}, Max: 2}
	}
	for j, v := range append(slices.Clone(r.Limits), rule.Variant{})[:max(len(r.Limits), 1)] {
		v.Limit = limit.Spec{Algorithm: []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket}[i%3], Count: []int64{2, 3, 0}[i/9%3], Period: limit.Minute}
		if v.Limit.Algorithm == limit.TokenBucket {
			v.Limit.Count, v.Limit.Burst = 2, 2
		}
		if v.Limit.Burst == 0 && j > 0 {
			v.Limit.Count += 1 + int64(j)
		}
		v.Unlimited = v.Unlimited || j > 0 && i%5 == 0
		one.Limits = append(one.Limits, v)
	}
	return one
}

// stated is a request at a time.
type stated struct {
	request.Request
	now limit.Micros
}

func (s *stated) fill(in *rule.Inputs) *rule.Request {
	q := new(rule.Request)
	s.Fill(in, q)
	q.Method, q.PoP, q.Now = s.Method, &rule.PoP{Region: s.Region, Labels: s.Labels}, s.now
	return q
}

// without is the request without an input.
func (s *stated) without(word string) {
	kind, name, _ := strings.Cut(word, " ")
	switch kind {
	case "header":
		delete(s.Headers, name)
	case "claim":
		delete(s.Claims, name)
	case "metadata":
		delete(s.Metadata, name)
	case "label":
		delete(s.Labels, name)
	default:
		*map[string]*string{"method": &s.Method, "host": &s.Host, "path": &s.Path, "client_ip": &s.Client, "san": &s.SAN, "route": &s.Route, "region": &s.Region}[kind] = ""
	}
}

// edgeOf is a worker of a PoP that has a set of rules and no region.
type edgeOf struct {
	*edge.Worker
	now lease.Millis
}

func newEdge(set *rule.Set) *edgeOf {
	return &edgeOf{edge.New(rulebook.Config{Rules: set, PagesLog2: 4, RegionCluster: "none", Hash: 1}, tabletest.New(), [6]uint64{1, 2, 3, 4, 5, 6}, 1000, limit.Second), 1000}
}

// decided is what an edge says of a request.
type decided struct {
	outcome edge.Outcome
	hits    []string         // RULE/OVERRIDE of the enforced rules that apply
	left    map[string]int64 // by RULE
	denied  string           // RULE KEY of the rejection
}

func (e *edgeOf) decide(s *stated) (d decided) {
	var r edge.Request
	d.left = map[string]int64{}
	if !e.Match(s.fill(e.Inputs())) {
		return d
	}
	d.outcome = e.Decide(e.now, &r)
	r.Quotas(func(q *edge.Quota) {
		d.hits, d.left[q.Rule.Name] = append(d.hits, q.Name), q.Remaining
	})
	if d.outcome == edge.Deny {
		d.denied = r.Governing(rule.AnyHeaders).Rule.Name + " " + string(r.DeniedKey())
	}
	e.End(e.now, &r)
	return d
}

// later is a time at which all counters are new.
func (e *edgeOf) later() {
	e.now += 3_600_000
	e.SetClock(e.now, limit.Micros(e.now)*limit.Millisecond)
}

// tally counts what the comparisons met.
type tally map[string]int

func (t tally) add(what string) { t[what]++ }

// What explain says of a request is what a PoP decides on: which rules apply, with which override and key, and which one
// rejects it, with new counters and with spent ones. Where not all of the request is known, what it says is so whatever the
// rest is.
func TestEdge(t *testing.T) {
	each, count, sets := 1000, tally{}, corpus(t)
	if testing.Short() {
		each = 100
	}
	for i, set := range sets {
		if compare(t, set, each, count); t.Failed() {
			t.Fatalf("set %d", i)
		}
	}
	t.Logf("%d sets: %v", len(sets), count)
	for _, what := range []string{"applies", "failed", "exempt", "unlimited", "override", "costly", "new", "spent", "unknown", "known applies", "known failed", "known exempt", "known unlimited"} {
		if count[what] == 0 {
			t.Errorf("nothing is %s: %v", what, count)
		}
	}
}

func compare(t *testing.T, set *rule.Set, requests int, count tally) {
	e, w, dice := newEdge(set), requesttest.Of(1, set), rand.New(rand.NewPCG(1, 2))
	for range requests {
		s := &stated{*w.Request(), limit.Second * limit.Micros(dice.IntN(2)*2_000_000_000)}
		part, known := *s, request.Known{}
		part.Headers, part.Claims, part.Metadata, part.Labels = maps.Clone(s.Headers), maps.Clone(s.Claims), maps.Clone(s.Metadata), maps.Clone(s.Labels)
		for _, word := range w.Inputs() {
			if known[word] = dice.IntN(5) > 0; !known[word] {
				part.without(word)
			}
		}
		whole := Rules(set, nil, s.fill)
		for _, v := range Rules(set, known, part.fill) {
			holds(t, &v, whole, s, set.Seed(), count)
		}
		e.agrees(t, s, whole, count)
		if t.Failed() {
			t.Fatalf("rules %s\nrequest %+v, known %v", set.Encode(), s, known)
		}
	}
}

// holds checks what is said of a rule by a part of a request against what is so of the whole.
func holds(t *testing.T, p *Verdict, whole []Verdict, s *stated, seed uint64, count tally) {
	i := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.Rule.Name })
	w, right, what := &whole[i], true, ""
	switch {
	case p.Unknown():
		what = "unknown"
	case p.Failed != "":
		what = "known failed"
		if right = w.Failed == p.Failed; !right {
			for _, c := range clauses(p.Rule) {
				e := explainer{seed: seed, request: s.fill}
				right = right || c.name == p.Failed && len(e.match([]rule.Rule{c.alone})) == 0
			}
		}
	case p.ExemptBy != "":
		what = "known exempt"
		by := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.ExemptBy })
		right = whole[by].Applies() && (w.ExemptBy != "" || w.Failed != "")
	case p.Unlimited:
		what = "known unlimited"
		right = w.Unlimited && w.Override == p.Override
	case p.Hit == nil:
		what = "known applies"
		right = w.Applies()
	default:
		what = "known applies"
		right = w.Hit != nil && slices.Equal(w.Hit.Key, p.Hit.Key) && p.Hit.Variant == w.Hit.Variant && p.Override == w.Override && p.Hit.Cost == w.Hit.Cost
	}
	if count.add(what); !right {
		t.Errorf("%s: %+v, and of the whole request %+v", what, p, w)
	}
}

// agrees checks what is said of a request against what the edge decides.
func (e *edgeOf) agrees(t *testing.T, s *stated, whole []Verdict, count tally) {
	e.later()
	var hits []string
	exempt := false
	for i := range whole {
		v := &whole[i]
		switch {
		case v.Hit != nil && v.Rule.Mode != rule.Shadow:
			name := v.Rule.Name
			if n := v.Hit.Variant; n > 0 {
				name += "/" + cmp.Or(v.Rule.Limits[n].Name, fmt.Sprint("override-", n))
				count.add("override")
			}
			if hits = append(hits, name); v.Hit.Cost > 1 {
				count.add("costly")
			}
			count.add("applies")
		case v.ExemptBy != "":
			exempt = true
			count.add("exempt")
		case v.Unlimited:
			count.add("unlimited")
		case v.Failed != "":
			count.add("failed")
		}
	}
	left := map[string]int64{}
	for turn := range 9 {
		rejecter := Rejecter(whole, func(i int) int64 {
			if n, found := left[whole[i].Rule.Name]; found {
				return n
			}
			return -1
		})
		denied := ""
		if rejecter >= 0 {
			denied = whole[rejecter].Rule.Name + " " + string(whole[rejecter].Hit.Key)
		}
		got := e.decide(s)
		if by := e.Exempt(); exempt && !slices.ContainsFunc(whole, func(v Verdict) bool { return v.Rule.Name == by && v.Applies() }) {
			t.Errorf("the edge exempts by %q: %+v", by, whole)
		}
		if got.denied != denied || !slices.Equal(got.hits, hits) || (got.outcome == edge.Deny) != (rejecter >= 0) {
			t.Errorf("in turn %d the edge says %+v, want %q by %q, with %v left", turn, got, hits, denied, left)
		}
		switch {
		case denied != "" && turn == 0:
			count.add("new")
			return
		case denied != "":
			count.add("spent")
			return
		case len(hits) == 0:
			return
		}
		left = got.left
	}
	t.Errorf("nothing rejects it: %+v", whole)
}
