package descriptor_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/descriptor"
)

// entries reads "key=value, key=value"; a key without = has the empty value.
func entries(text string) []descriptor.Entry {
	var es []descriptor.Entry
	for part := range strings.SplitSeq(text, ", ") {
		key, value, _ := strings.Cut(part, "=")
		es = append(es, descriptor.Entry{Key: key, Value: value})
	}
	return es
}

// sought is a descriptor and what it should find: the rule's path without the
// domain, the counter's key, and the metric without the domain where that is not
// the path. No path: no rule.
type sought struct{ descriptor, path, key, metric string }

var spec = []struct {
	name, config string
	sought       []sought
}{
	{"the value before the key alone", `
  - {key: user, rate_limit: &any {unit: second, requests_per_unit: 1}}
  - {key: user, value: alice, rate_limit: *any}`, []sought{
		{"user=alice", "user=alice", "", ""},
		{"user=bob", "user", "bob", ""},
		{"user=Alice", "user", "Alice", ""},
		{"user=", "user", "", ""},
		{"User=alice", "", "", ""},
		{"group=alice", "", "", ""},
	}},
	{"as many entries as levels", `
  - key: a
    rate_limit: &any {unit: second, requests_per_unit: 1}
    descriptors:
      - key: b
        descriptors:
          - {key: c, rate_limit: *any}`, []sought{
		{"a=1", "a", "1", ""},
		{"a=1, b=2", "", "", ""},
		{"a=1, b=2, c=3", "a|b|c", "1|2|3", ""},
		{"a=1, b=2, c=3, d=4", "", "", ""},
		{"a=1, a=1", "", "", ""},
		{"b=2", "", "", ""},
		{"a=1, c=3, b=2", "", "", ""},
	}},
	{"no rate_limit: allowed, not counted", `
  - {key: path, rate_limit: &any {unit: second, requests_per_unit: 1}}
  - {key: path, value: /health}
  - {key: path, value: /static/*}`, []sought{
		{"path=/health", "", "", ""},
		{"path=/static/x.css", "", "", ""},
		{"path=/healthy", "path", "/healthy", ""},
	}},
	{"what one level takes is not taken back at the next", `
  - {key: a, value: x, descriptors: [{key: b, value: "1", rate_limit: &any {unit: second, requests_per_unit: 1}}]}
  - {key: a, descriptors: [{key: b, rate_limit: *any}]}`, []sought{
		{"a=x, b=1", "a=x|b=1", "", ""},
		{"a=x, b=2", "", "", ""},
		{"a=y, b=2", "a|b", "y|2", ""},
	}},
	{"wildcards in the order of the file, behind values and before the key alone", `
  - {key: p, rate_limit: &any {unit: second, requests_per_unit: 1}}
  - {key: p, value: /a/*/c, rate_limit: *any}
  - {key: p, value: /a*, rate_limit: *any}
  - {key: p, value: "/a/b/*", rate_limit: *any}
  - {key: p, value: "*.png", rate_limit: *any}
  - {key: p, value: /a/b/c, rate_limit: *any}
  - {key: p, value: "/b/*.png", rate_limit: *any}`, []sought{
		{"p=/a/b/c", "p=/a/b/c", "", ""},
		{"p=/a/x/c", "p=/a/*/c", "/a/x/c", ""},
		{"p=/a/b/d", "p=/a*", "/a/b/d", ""},
		{"p=/a/x.png", "p=/a*", "/a/x.png", ""},
		{"p=/b/x.png", "p=*.png", "/b/x.png", ""},
		{"p=/b/x.gif", "p", "/b/x.gif", ""},
		{"p=/a/b/*", "p=/a/b/*", "/a/b/*", ""}, // the text of the pattern itself
	}},
	{"stars anywhere, each for zero or more bytes", `
  - {key: p, value: "a*b*c", rate_limit: &any {unit: second, requests_per_unit: 1}}
  - {key: q, value: "**", rate_limit: *any}
  - {key: r, value: "*x*", rate_limit: *any}
  - {key: s, value: "ab*ba", rate_limit: *any}
  - {key: t, value: "a**b", rate_limit: *any}`, []sought{
		{"p=abc", "p=a*b*c", "abc", ""},
		{"p=a.b.b.c", "p=a*b*c", "a.b.b.c", ""},
		{"p=acb", "", "", ""},
		{"p=ac", "", "", ""},
		{"p=abcd", "", "", ""},
		{"q=anything", "q=**", "anything", ""},
		{"q=", "q=**", "", ""}, // zero bytes are enough for a star
		{"r=x", "r=*x*", "x", ""},
		{"r=y", "", "", ""},
		{"s=abba", "s=ab*ba", "abba", ""},
		{"s=aba", "", "", ""}, // the b cannot be used twice
		{"t=ab", "t=a**b", "ab", ""},
		{"t=a/b", "t=a**b", "a/b", ""},
	}},
	{"pairs, not joined strings", `
  - {key: a, value: b_c, rate_limit: &any {unit: second, requests_per_unit: 1}}
  - {key: a_b, value: "*", rate_limit: *any}
  - {key: x, value: "*", rate_limit: *any}
  - {key: k_v, rate_limit: *any}
  - {key: star*, rate_limit: *any}`, []sought{
		{"a=b_c", "a=b_c", "", ""},
		{"a_b=c", "a_b=*", "c", ""},
		{"x_y=z", "", "", ""},
		{"k=v", "", "", ""},
		{"k_v=1", "k_v", "1", ""},
		{"starlet=1", "", "", ""},
		{"star*=1", "star*", "1", ""},
	}},
	{"keys of counters never meet", `
  - key: a
    descriptors:
      - {key: b, rate_limit: {unit: second, requests_per_unit: 1}}`, []sought{
		{"a=x, b=y", "a|b", "x|y", ""},
		{"a=x|y, b=", "a|b", `x\|y|`, ""},
		{"a=x, b=y|", "a|b", `x|y\|`, ""},
		{`a=x\, b=y`, "a|b", `x\\|y`, ""},
	}},
	{"paths that would be ambiguous are escaped", `
  - {key: "a|b=c", value: "d=e|f%", rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: "t\t", value: "ü\x7f", rate_limit: {unit: second, requests_per_unit: 1}}`, []sought{
		{"t\t=ü\x7f", "t%09=ü%7F", "", ""},
	}},
	{"share_threshold: one counter for all values of a wildcard", `
  - key: p
    value: /files/*
    share_threshold: true
    rate_limit: &any {unit: second, requests_per_unit: 1}
    descriptors:
      - {key: user, rate_limit: *any}
      - {key: user, value: "svc-*", rate_limit: *any}
      - {key: user, value: "bot-*", share_threshold: true, rate_limit: *any}
  - {key: p, value: /docs/*, rate_limit: *any}`, []sought{
		{"p=/files/x", "p=/files/*", "", ""},
		{"p=/files/y", "p=/files/*", "", ""},
		{"p=/files/y, user=bob", "p=/files/*|user", "bob", ""},
		{"p=/files/y, user=svc-1", "p=/files/*|user=svc-*", "svc-1", ""},
		{"p=/files/y, user=bot-1", "p=/files/*|user=bot-*", "", ""},
		{"p=/docs/y", "p=/docs/*", "/docs/y", ""},
	}},
	{"detailed_metric: the values of all levels", `
  - key: route
    value: api
    descriptors:
      - key: user
        descriptors:
          - {key: verb, detailed_metric: true, rate_limit: &any {unit: second, requests_per_unit: 1}}
          - {key: verb, value: GET, rate_limit: *any}
  - key: file
    value: f*
    share_threshold: true
    value_to_metric: true
    descriptors: [{key: user, detailed_metric: true, rate_limit: *any}]`, []sought{
		{"route=api, user=bob, verb=PUT", "route=api|user|verb", "bob|PUT", "route=api|user=bob|verb=PUT"},
		{"route=api, user=bob, verb=", "route=api|user|verb", "bob|", "route=api|user=bob|verb"},
		{"route=api, user=bob, verb=GET", "route=api|user|verb=GET", "bob", ""},
		{"file=f1, user=a|b", "file=f*|user", "a|b", "file=f*|user=a%7Cb"},
	}},
	{"value_to_metric: the values of its level", `
  - key: route
    value_to_metric: true
    descriptors:
      - key: action
        value: read*
        value_to_metric: true
        descriptors: [{key: id, rate_limit: &any {unit: second, requests_per_unit: 1}}]
      - key: action
        value: write*
        descriptors: [{key: id, rate_limit: *any}]
      - key: action
        value: none
        value_to_metric: true
        rate_limit: *any`, []sought{
		{"route=web, action=readfile, id=7", "route|action=read*|id", "web|readfile|7", "route=web|action=readfile|id"},
		{"route=web, action=writefile, id=7", "route|action=write*|id", "web|writefile|7", "route=web|action=write*|id"},
		{"route=, action=none", "route|action=none", "", "route|action=none"},
	}},
}

// TestMatch is the specification of matching, of counters and of metrics.
func TestMatch(t *testing.T) {
	for _, group := range spec {
		t.Run(group.name, func(t *testing.T) {
			c := parse(t, "domain: d\ndescriptors:"+group.config+"\n")
			for _, s := range group.sought {
				es := entries(s.descriptor)
				r := c.Match("d", es)
				switch {
				case (r != nil) != (s.path != ""):
					t.Errorf("%s: found %v, want %q", s.descriptor, r, s.path)
				case r != nil:
					checkMatch(t, r, es, s)
				}
			}
		})
	}
}

func checkMatch(t *testing.T, r *descriptor.Rule, es []descriptor.Entry, want sought) {
	t.Helper()
	if want.metric == "" {
		want.metric = want.path
	}
	key, metric := string(r.AppendKey(nil, es)), string(r.AppendMetric(nil, es))
	if r.Path != "d|"+want.path || key != want.key || metric != "d|"+want.metric {
		t.Errorf("%s: path %q key %q metric %q, want %q %q %q", want.descriptor, r.Path, key, metric, "d|"+want.path, want.key, "d|"+want.metric)
	}
}

// TestNoMatch: what is not there is allowed, and nothing that is asked is a mistake.
func TestNoMatch(t *testing.T) {
	c := parse(t, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 0}}]")
	for _, test := range []struct {
		domain  string
		entries []descriptor.Entry
	}{
		{"", nil}, {"d", nil}, {"e", entries("k=1")}, {"d", []descriptor.Entry{{}}}, {"d", make([]descriptor.Entry, 1000)},
		{"d", []descriptor.Entry{{Key: "", Value: "k"}}},
	} {
		if r := c.Match(test.domain, test.entries); r != nil {
			t.Errorf("%q %v: %v", test.domain, test.entries, r)
		}
	}
	r := c.Match("d", entries("k=1"))
	if r == nil || r.RequestsPerUnit != 0 || r.Limit == nil || r.Limit.Spec().Count != 0 {
		t.Errorf("requests_per_unit 0: %v, want a limit that denies everything", r)
	}
	if got := r.AppendKey(r.AppendMetric(nil, nil), nil); string(got) != "d|k" {
		t.Errorf("without the entries: %q", got) // no use, but no panic
	}
}

// TestMatchAllocates nothing, whatever the level is found by.
func TestMatchAllocates(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [{key: a, value: x, descriptors: [{key: b, value: "y*z*", descriptors: [
		{key: c, detailed_metric: true, rate_limit: {unit: second, requests_per_unit: 1}}]}]}]}`)
	es, dst := entries("a=x, b=yzz, c=w"), make([]byte, 0, 100)
	allocs := testing.AllocsPerRun(100, func() {
		r := c.Match("d", es)
		if r == nil {
			t.Fatal("no rule")
		}
		dst = r.AppendMetric(r.AppendKey(dst[:0], es), es)
	})
	if allocs != 0 || string(dst) != "yzz|wd|a=x|b=yzz|c=w" {
		t.Errorf("%v allocations, %q", allocs, dst)
	}
}

// TestMatchTogether: a configuration needs no lock.
func TestMatchTogether(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [{key: a, value: "x*", rate_limit: {unit: second, requests_per_unit: 1}}]}`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if c.Match("d", entries("a=xy")) == nil {
					t.Error("no rule")
				}
			}
		})
	}
	all.Wait()
}

// TestManyWildcards: neither a pattern that others would try in countless ways nor
// a great number of them makes a look-up long. It would take longer than a test may.
func TestManyWildcards(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n  - {key: k, value: '" + strings.Repeat("a*", 1000) + "b', rate_limit: &any {unit: second, requests_per_unit: 1}}\n")
	for i := range 10_000 {
		b.WriteString("  - {key: k, value: '/" + strings.Repeat("x", i%100) + "/" + string(rune('a'+i/100%26)) + string(rune('a'+i/2600)) + "/*', rate_limit: *any}\n")
	}
	c := parse(t, b.String())
	hard := []descriptor.Entry{{Key: "k", Value: strings.Repeat("a", 100_000)}}
	last := []descriptor.Entry{{Key: "k", Value: "/" + strings.Repeat("x", 99) + "/vd/y"}}
	for range 1000 {
		if c.Match("d", hard) != nil {
			t.Fatal("matches without the b")
		}
		if c.Match("d", last) == nil {
			t.Fatal("no rule")
		}
	}
}
