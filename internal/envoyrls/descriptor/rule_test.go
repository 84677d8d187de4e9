package descriptor_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
)

// TestPathsDiffer: what looks the same when joined has different paths.
func TestPathsDiffer(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: "a|b", rate_limit: &any {unlimited: true}}, {key: a, descriptors: [{key: b, rate_limit: *any}]},
		{key: "a=b", rate_limit: *any}, {key: a, value: b, rate_limit: *any}, {key: "a%3Db", rate_limit: *any},
		{key: a, value: "b|c", rate_limit: *any}, {key: a, value: "b=c", rate_limit: *any}]}`)
	var paths []string
	for r := range c.Rules() {
		paths = append(paths, r.Path)
	}
	want := []string{"d|a%7Cb", "d|a|b", "d|a%3Db", "d|a=b", "d|a%253Db", "d|a=b%7Cc", "d|a=b=c"}
	if !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

// TestStatNames: what envoyproxy/ratelimit (f2fb1577) wrote for this configuration and
// these requests into its statistics, and printed as its configuration.
func TestStatNames(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: plain, rate_limit: &any {unit: hour, requests_per_unit: 5}}, {key: plan, value: gold, rate_limit: *any},
		{key: file, value: "*pdf", rate_limit: *any}, {key: shared, value: "a*", share_threshold: true, rate_limit: *any},
		{key: user, value_to_metric: true, rate_limit: *any}, {key: path, value: "x*", value_to_metric: true, rate_limit: *any},
		{key: both, value: "x*", value_to_metric: true, share_threshold: true, rate_limit: *any},
		{key: detail, detailed_metric: true, rate_limit: *any},
		{key: dshare, value: "a*", share_threshold: true, detailed_metric: true, rate_limit: *any},
		{key: l1, value_to_metric: true, descriptors: [{key: l2, descriptors: [{key: l3, rate_limit: *any}]}]},
		{key: m1, value: "w*", share_threshold: true, descriptors: [{key: m2, detailed_metric: true, rate_limit: *any}]},
		{key: h1, value: foo.com, descriptors: [{key: h2, value: 1.2.3.4, rate_limit: *any}]}]}`)
	for _, test := range []struct{ entries, stat, rule string }{
		{"plain=v", "d.plain", "d.plain"}, {"plan=gold", "d.plan_gold", "d.plan_gold"},
		{"file=x.pdf", "d.file_*pdf", "d.file_*pdf"}, {"shared=a:b", "d.shared_a*", "d.shared_a*"},
		{"user=al:ice", "d.user_al:ice", "d.user"}, {"user=", "d.user", "d.user"},
		{"path=xyz", "d.path_xyz", "d.path_x*"}, {"both=xyz", "d.both_x*", "d.both_x*"},
		{"detail=q", "d.detail_q", "d.detail"}, {"detail=", "d.detail_", "d.detail"},
		{"dshare=abc", "d.dshare_a*", "d.dshare_a*"}, {"l1=A, l2=B, l3=C", "d.l1_A.l2.l3", "d.l1.l2.l3"},
		{"m1=wx, m2=Z", "d.m1_w*.m2_Z", "d.m1_w*.m2"}, {"m1=wx, m2=", "d.m1_w*.m2", "d.m1_w*.m2"},
		{"h1=foo.com, h2=1.2.3.4", "d.h1_foo.com.h2_1.2.3.4", "d.h1_foo.com.h2_1.2.3.4"},
	} {
		es := entries(test.entries)
		m := c.Match("d", es)
		if stat, rule := string(m.AppendStatName(nil, es)), string(m.AppendStatName(nil, nil)); stat != test.stat || rule != test.rule {
			t.Errorf("%s: %s and %s, want %s and %s", test.entries, stat, rule, test.stat, test.rule)
		}
	}
}

func TestReplaced(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: a, rate_limit: {unit: second, requests_per_unit: 1, name: a}},
		{key: b, rate_limit: {unit: second, requests_per_unit: 1, name: b, replaces: [{name: a}, {name: missing}]}},
		{key: c, rate_limit: {unlimited: true, name: c, replaces: [{name: b}]}},
		{key: d, rate_limit: {unit: second, requests_per_unit: 1, name: a}},
		{key: e, rate_limit: {unit: second, requests_per_unit: 1}}]}`)
	for _, test := range []struct{ keys, want string }{
		{"a", "-"}, {"b", "-"}, {"a e -", "-"},
		{"a b", "10"},
		{"b a d", "011"},          // all of that name, wherever they stand
		{"a b c", "110"},          // what is replaced replaces, and so does what is unlimited
		{"a - c b - a", "100101"}, // some without a rule
		{"", "-"},
	} {
		var rules []*descriptor.Rule
		for _, key := range strings.Fields(test.keys) {
			rules = append(rules, c.Match("d", entries(key)))
		}
		got := "-"
		if replaced := descriptor.Replaced(rules); replaced != nil {
			got = ""
			for _, r := range replaced {
				got += map[bool]string{true: "1", false: "0"}[r]
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.keys, got, test.want)
		}
	}
}

// entries reads "key=value, key=value"; a key without = has the empty value.
func entries(text string) []descriptor.Entry {
	var es []descriptor.Entry
	for part := range strings.SplitSeq(text, ", ") {
		key, value, _ := strings.Cut(part, "=")
		es = append(es, descriptor.Entry{Key: key, Value: value})
	}
	return es
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

// TestMatch: the value itself comes before wildcards, these in the order of the file before the key alone, and nothing
// goes back. The key of a counter has the values that the file leaves open.
func TestMatch(t *testing.T) {
	c := parse(t, `{domain: d, descriptors: [
		{key: k, rate_limit: {unlimited: true, name: any}}, {key: k, value: x, rate_limit: {unlimited: true, name: exact}},
		{key: k, value: "a*b*c", rate_limit: {unlimited: true, name: first}}, {key: k, value: "a*", rate_limit: {unlimited: true, name: second}},
		{key: n, value: x, descriptors: [{key: in, value: "y", rate_limit: {unlimited: true, name: inner}}]},
		{key: n, descriptors: [{key: in, rate_limit: {unlimited: true, name: open}}]},
		{key: o, value: "ab**ba", rate_limit: {unlimited: true, name: ends}}, {key: star, value: "*", rate_limit: {unlimited: true, name: all}},
		{key: s, value: "p*", share_threshold: true, rate_limit: {unlimited: true, name: shared}}]}`)
	for _, test := range []struct{ entries, rule, key string }{
		{"k=x", "exact", ""}, {"k=", "any", ""}, {"k=xx", "any", "xx"}, {"k=b|c", "any", `b\|c`}, {"k=abc", "first", "abc"},
		{"k=a-b-b-c", "first", "a-b-b-c"}, {"k=a*b*c", "first", "a*b*c"}, {"k=acb", "second", "acb"}, {"k=ac", "second", "ac"}, {"k=abcb", "second", "abcb"},
		{"n=x, in=y", "inner", ""}, {"n=x, in=z", "", ""}, {"n=z, in=y", "open", "z|y"}, {"n=x", "", ""}, {"n=z, in=y, in=y", "", ""},
		{"o=aba", "", ""}, {"o=abba", "ends", "abba"}, {"o=ab-ba", "ends", "ab-ba"}, {"o=ab-b", "", ""}, {"o=-abba", "", ""},
		{"star=", "all", ""}, {"star=s", "all", "s"}, {"s=pq", "shared", ""}, {"s=q", "", ""}, {"in=y", "", ""},
	} {
		es, rule, key := entries(test.entries), "", ""
		if r := c.Match("d", es); r != nil {
			rule, key = r.Name, string(r.AppendKey(nil, es))
		}
		if rule != test.rule || key != test.key {
			t.Errorf("%s: rule %q, key %q; want %q, %q", test.entries, rule, key, test.rule, test.key)
		}
	}
	if c.Match("e", entries("k=x")) != nil || c.Match("d", nil) != nil {
		t.Error("a rule of another domain, or of no entries")
	}
}
