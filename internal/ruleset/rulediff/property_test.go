package rulediff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/shed"
)

var someTexts = []rule.Text{{Arg: "a"}, {Arg: "b"}, {Op: rule.OpPrefix, Arg: "a"}, {Op: rule.OpPrefix, Arg: "ab"}, {Op: rule.OpPresent}, {Op: rule.OpAbsent},
	{Op: rule.OpRegex, Arg: "a|b"}, {Op: rule.OpRegex, Arg: "[ab]+"}, {Op: rule.OpRegex, Arg: ".*"}}

var somePaths = []rule.Text{{Arg: "/a"}, {Arg: "/a/b"}, {Op: rule.OpPrefix, Arg: "/a"}, {Op: rule.OpPrefix, Arg: "/a/"}, {Op: rule.OpPrefix, Arg: "/"},
	{Op: rule.OpTemplate, Arg: "/a/{x}"}, {Op: rule.OpTemplate, Arg: "/{x}/b"}, {Op: rule.OpTemplate, Arg: "/{x}"}, {Op: rule.OpRegex, Arg: "/[ab]"}, {Op: rule.OpRegex, Arg: "/a.*"}}

func pick[T any](t *rapid.T, of ...T) T { return rapid.SampledFrom(of).Draw(t, "pick") }

// list picks one to three.
func list[T comparable](t *rapid.T, of ...T) (out []T) {
	for range pick(t, 1, 1, 2, 3) {
		if one := pick(t, of...); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out
}

// alter draws a clause of a condition anew.
func alter(t *rapid.T, m *rule.Match, more bool) {
	switch rapid.IntRange(0, 9).Draw(t, "clause") {
	case 0:
		m.Methods = list(t, "GET", "PUT", "POST")
	case 1:
		m.Hosts = list(t, "a.b", "*.b", "c")
	case 2, 3:
		m.Paths = list(t, somePaths...)
		m.Ignore = pick(t, rule.Spelling(0), 0, 0, rule.IgnoreCase, rule.IgnoreTrailingSlash)
	case 4, 5:
		f := m.Fields()[rapid.IntRange(0, 4).Draw(t, "kind")]
		*f.List = []rule.Named{{Name: pick(t, "x", "y"), Text: pick(t, someTexts...)}}
	case 6:
		m.Clients, m.TrustedHops = nil, pick(t, 0, 0, 1, 2)
		for _, text := range list(t, "10.0.0.0/8", "10.0.0.0/16", "10.1.0.0/16", "192.0.2.1/32", "2001:db8::/32") {
			p, _ := ip.ParsePrefix(text)
			m.Clients = append(m.Clients, p)
		}
	case 7:
		m.Regions = list(t, "eu", "us")
	case 8:
		if more {
			m.Percent = rule.Percent{From: pick(t, 0, 0, 30), To: pick(t, 50, 80, 100)}
		} else {
			m.Until = limit.Second * pick(t, limit.Micros(1), 2, 3)
		}
	case 9:
		*m = rule.Match{Not: m.Not}
	}
	if more && rapid.IntRange(0, 3).Draw(t, "not") == 0 {
		var not rule.Match
		alter(t, &not, false)
		if m.Not = nil; !not.Empty() {
			m.Not = []rule.Match{not}
		}
	}
}

func condition(t *rapid.T, more bool) (m rule.Match) {
	for range rapid.IntRange(1, 3).Draw(t, "clauses") {
		alter(t, &m, more)
	}
	return m
}

func spec(count int64) limit.Spec {
	return limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: limit.Minute}
}

// draw draws a rule.
func draw(t *rapid.T, name string) rule.Rule {
	r := rule.Rule{Name: name, Match: condition(t, true), Mode: pick(t, rule.Mode(0), 0, 0, 0, 0, rule.Shadow, rule.Off, rule.Exempt, rule.Exempt)}
	if r.Mode == rule.Exempt {
		r.Match.Percent, r.Match.Not = rule.Percent{}, nil
		if r.Match.Empty() {
			r.Match.Methods = []string{"GET"}
		}
		r.From = pick(t, nil, nil, []string{"ra"}, []string{"rb"})
		return r
	}
	if rekey(t, &r); rapid.IntRange(0, 6).Draw(t, "shed") == 0 {
		r.Shed, r.Match.Percent = new(rule.Shed), rule.Percent{}
		reclass(t, &r)
		return r
	}
	r.Limits = []rule.Variant{{Limit: spec(5)}}
	for i := range pick(t, 0, 1, 2, 2) {
		if when := condition(t, rapid.Bool().Draw(t, "not")); !when.Empty() {
			r.Limits = append(r.Limits, rule.Variant{Name: fmt.Sprint("o", i), When: when, Limit: spec(5), Unlimited: pick(t, false, false, true)})
		}
	}
	return r
}

// reclass draws the classes of a rule that sheds load.
func reclass(t *rapid.T, r *rule.Rule) {
	r.Shed = &rule.Shed{Capacity: pick[int64](t, 9, 9, 10)}
	for range pick(t, 0, 1, 1, 2) {
		when := condition(t, false)
		if when.Percent = (rule.Percent{}); !when.Empty() {
			r.Shed.Classes = append(r.Shed.Classes, rule.ShedClass{Class: pick(t, shed.Bulk, shed.Critical), When: when})
		}
	}
}

func rekey(t *rapid.T, r *rule.Rule) {
	r.Key = nil
	for range pick(t, 1, 1, 2) {
		r.Key = append(r.Key, pick(t, rule.Part{{From: rule.FromClientIP}}, rule.Part{{From: rule.FromHeader, Name: "x"}},
			rule.Part{{From: rule.FromHeader, Name: "k"}, {From: rule.FromClientIP}}, rule.Part{{From: rule.FromQuery, Name: "k"}}, rule.Part{{From: rule.FromPath}},
			rule.Part{{From: rule.FromSegment, Name: "x"}}, rule.Part{{From: rule.FromRegion}, {From: rule.FromMethod}}))
	}
}

// change draws what is another rule, mostly a little.
func change(t *rapid.T, r rule.Rule) rule.Rule {
	if rapid.IntRange(0, 5).Draw(t, "anew") == 0 {
		return draw(t, r.Name)
	}
	r.Limits, r.Match.Not, r.Match.Paths = slices.Clone(r.Limits), slices.Clone(r.Match.Not), slices.Clone(r.Match.Paths)
	switch what := rapid.IntRange(0, 10).Draw(t, "change"); {
	case what > 3 && r.Shed != nil:
		reclass(t, &r)
	case what < 3:
		alter(t, &r.Match, r.Limited())
	case r.Mode == rule.Exempt:
		r.From = pick(t, nil, []string{"ra"}, []string{"rb"})
	case what == 3:
		rekey(t, &r)
	case what > 5 && len(r.Limits) > 1:
		if slices.Reverse(r.Limits[1:]); what < 9 {
			alter(t, &r.Limits[1].When, rapid.Bool().Draw(t, "not"))
		}
	case what == 4:
		r.Match.Ignore ^= rule.IgnoreCase
	case what == 5:
		r.Cost = pick(t, rule.Cost{Default: 2}, rule.Cost{Header: "x", Max: 9})
	default:
		slices.Reverse(r.Match.Paths)
	}
	return r
}

// sets draws two versions of rules.
func sets(t *rapid.T) (sets [2]*rule.Set) {
	var before, after []rule.Rule
	for i := range rapid.IntRange(2, 5).Draw(t, "rules") {
		r := draw(t, "r"+string(rune('a'+i)))
		before = append(before, r)
		switch rapid.IntRange(0, 8).Draw(t, "what") {
		case 0: // it is gone
		case 1:
			r.Name += "2"
			after = append(after, r)
		case 2, 3, 4, 5, 6:
			after = append(after, change(t, r))
		default:
			after = append(after, r)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "another") == 0 {
		after = append(after, draw(t, "rz"))
	}
	for i, rules := range [][]rule.Rule{before, after} {
		set, problems := check.Rules(rules, nil, pick(t, uint64(0), 0, 0, 1))
		if set == nil {
			t.Skip(problems)
		}
		sets[i] = set
	}
	return sets
}

// requestOf draws a request.
func requestOf(t *rapid.T) *request.Request {
	text := func() string { return pick(t, "", "a", "b", "ab", "abc", "c", "aa") }
	r := &request.Request{Method: pick(t, "GET", "PUT", "POST", "put"), Host: pick(t, "", "a.b", "x.b", "b", "c", "C."), Headers: map[string]string{}, Claims: map[string]string{}}
	r.Path = pick(t, "/", "/a", "/A", "/a/", "/b", "/c", "/a/b", "/a/b/", "/a/c", "/c/b", "/ab", "/a//", "*")
	r.Path += pick(t, "", "", "?x=a", "?x=&k=1", "?y=b&x=ab", "?k=2")
	for _, name := range []string{"x", "y", "k"} {
		if rapid.Bool().Draw(t, "header") {
			r.Headers[name] = text()
		}
		if rapid.Bool().Draw(t, "claim") {
			r.Claims[name] = text()
		}
	}
	if rapid.Bool().Draw(t, "cookie") {
		r.Headers["cookie"] = "x=" + text() + "; y=" + text()
	}
	address := func() string {
		return pick(t, "", "10.0.0.1", "10.0.7.7", "10.1.0.0", "10.2.0.0", "10.255.255.255", "192.0.2.1", "9.9.9.9", "2001:db8::1", "2001:db9::")
	}
	if r.Client = address(); rapid.Bool().Draw(t, "forwarded") {
		r.Headers["x-forwarded-for"] = address() + "," + address()
	}
	if r.Region = pick(t, "", "eu", "us", "ap"); r.Region != "" {
		r.Labels = map[string]string{"x": text()}
	}
	return r
}

// decided is what a set does with a request by one rule, found without package rulediff.
type decided struct {
	hit      bool
	override uint64
	key      string
	cost     int64
	class    string // of a rule that sheds load, whose key decides about no single request
}

func decide(set *rule.Set, name string, r *request.Request, now limit.Micros) (d decided) {
	var q rule.Request
	var m rule.Matches
	r.Fill(set.Inputs(), &q)
	q.Now, q.Secret = now, new(rule.Secret)
	set.Match(&q, &m)
	for _, h := range m.Hits {
		if set.Rule(h.Rule).Name == name {
			d = decided{true, set.Override(h.Rule, h.Variant), string(h.Key), h.Cost, ""}
		}
	}
	for _, h := range m.Sheds {
		if set.Rule(h.Rule).Name == name {
			d = decided{hit: true, class: h.Class.String()}
		}
	}
	return d
}

// TestSound: of two versions of rules each example is as stated; each request that they treat differently is of a rule
// that is not the same; the way back is the mirror image; and what is compared with itself is the same.
func TestSound(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		versions := sets(t)
		d := Compare(t.Context(), versions[0], versions[1], time.UnixMicro(0))
		differ := map[string]Rule{}
		for _, r := range d.Rules {
			differ[r.Name] = r
			seen[r.Change]++
			for _, c := range r.Changes {
				seen[c.What]++
				if c.Example != nil {
					confirm(t, versions, &r, &c)
				}
			}
		}
		for range 30 {
			q, now := requestOf(t), limit.Second*pick(t, limit.Micros(0), 0, 1, 2)
			for _, set := range versions {
				for i := range set.Len() {
					name := set.Rule(i).Name
					a, b := decide(versions[0], name, q, now), decide(versions[1], name, q, now)
					if _, ok := differ[name]; a != b && !ok {
						t.Fatalf("%s is the same, and at %d %s is %+v before and %+v after:\n%s\n%s\n%s", name, now, q, a, b, versions[0].Encode(), versions[1].Encode(), d)
					}
				}
			}
		}
		if back := Compare(t.Context(), versions[1], versions[0], time.UnixMicro(0)); sketch(back, true) != sketch(d, false) {
			t.Fatalf("%s\nand back:\n%s\n%s\n%s", d, back, versions[0].Encode(), versions[1].Encode())
		}
		if same := Compare(t.Context(), versions[0], versions[0], time.UnixMicro(0)); !same.Same() || same.Changed+same.Undecided > 0 {
			t.Fatalf("the same rules:\n%s", same)
		}
	})
	for _, what := range []string{changed, added, removed, undecided, wider, narrower, override, keyed, classed} {
		if seen[what] == 0 && !testing.Short() {
			t.Errorf("%v: it compares too little", seen)
		}
	}
}

// confirm checks an example.
func confirm(t *rapid.T, versions [2]*rule.Set, r *Rule, c *Difference) {
	a, b := decide(versions[0], r.Name, c.Example, 0), decide(versions[1], r.Name, c.Example, 0)
	ok := false
	switch c.What {
	case wider:
		ok = !a.hit && b.hit
	case narrower:
		ok = a.hit && !b.hit
	case override:
		ok = a.hit && b.hit && a.override != b.override
	case classed:
		ok = a.hit && b.hit && a.class != b.class && a.class == c.Old && b.class == c.New
	case keyed:
		ok = a.hit && b.hit && a.key != b.key && (a.key == c.Old && b.key == c.New || strings.HasPrefix(a.key+b.key, `\h`))
	}
	if !ok {
		t.Fatalf("%s %s is %+v before and %+v after for %s:\n%s\n%s", r.Name, c.What, a, b, c.Example, versions[0].Encode(), versions[1].Encode())
	}
}

// sketch is a comparison without what depends on its direction, turned round or not.
func sketch(d *Diff, turn bool) string {
	turned := map[string]string{}
	if turn {
		turned = map[string]string{added: removed, removed: added, wider: narrower, narrower: wider}
	}
	var rules []string
	for _, r := range d.Rules {
		var changes []string
		for _, c := range r.Changes {
			if turn {
				c.Old, c.New = c.New, c.Old
			}
			switch c.What {
			case unreached:
			case undecided:
				changes = append(changes, c.What)
			default:
				changes = append(changes, fmt.Sprintf("%q %q %q %v", cmp.Or(turned[c.What], c.What), c.Old, c.New, c.Example))
			}
		}
		slices.Sort(changes)
		rules = append(rules, fmt.Sprintln(r.Name, cmp.Or(turned[r.Change], r.Change), changes))
	}
	slices.Sort(rules)
	return fmt.Sprint(rules)
}
