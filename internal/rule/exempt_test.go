package rule_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"pgregory.net/rapid"
)

// names are the rules of these indices.
func names(set *rule.Set, rules []int) (out []string) {
	for _, i := range rules {
		out = append(out, set.Rule(i).Name)
	}
	return out
}

// hits are the rules that apply.
func hits(set *rule.Set, m *rule.Matches) (out []string) {
	for _, h := range m.Hits {
		out = append(out, set.Rule(h.Rule).Name)
	}
	return out
}

const exemptions = `{"rules":[
	{"name":"login","match":{"path":"/login"},"key":[],"limit":"5/1m"},
	{"name":"probes","mode":"exempt","match":{"path":["/health","/login"],"header":{"x-probe":{"present":true}}}},
	{"name":"api","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],"limits":["5/1m","20/1d"]},
	{"name":"internal","mode":"exempt","match":{"header":{"x-internal":"1"}},"exempts":["api"]},
	{"name":"all","match":{"method":["GET"]},"key":[],"limit":"5/1m"}]}`

// TestExempt: an exempt rule lifts the others, or those in from, wherever it stands.
func TestExempt(t *testing.T) {
	set := decode(t, exemptions)
	for _, test := range []struct {
		headers               string
		hits, exempt, lacking string
	}{
		{":path /login :method GET", "login all", "", ""},
		{":path /login :method GET x-probe 1", "", "probes", ""},
		{":path /login :method GET x-internal 1", "login all", "", ""},
		{":path /v1/a :method GET x-user ann x-internal 1", "all", "internal", ""},
		{":path /v1/a :method GET x-user ann", "api api@1d all", "", ""},
		{":path /v1/a :method GET", "all", "", "api api@1d"},
		{":path /v1/a :method GET x-internal 1", "all", "internal", ""}, // its key is not looked at
		{":path /v1/a x-internal 1 x-probe 1", "", "internal", ""},
		{":path /health x-probe 1", "", "probes", ""}, // "all" might apply, by its path
	} {
		q, m := request(set, strings.Fields(test.headers)...), rule.Matches{}
		set.Match(q, &m)
		got := [3]string{strings.Join(hits(set, &m), " "), strings.Join(names(set, m.Exempt), " "), strings.Join(names(set, m.MissingKey), " ")}
		if want := [3]string{test.hits, test.exempt, test.lacking}; got != want {
			t.Errorf("%s: hits, exempt and missing key are %q, want %q", test.headers, got, want)
		}
	}
}

// TestExemptByPath: a path to which only exempt rules apply is excluded, without a look at the rest.
func TestExemptByPath(t *testing.T) {
	set := decode(t, `{"rules":[
		{"name":"internal","mode":"exempt","match":{"header":{"x-internal":"1"}}},
		{"name":"api","match":{"path":{"prefix":"/v1/"}},"key":[],"limit":"5/1m"}]}`)
	if !set.Inputs().ByPath {
		t.Error("an exempt rule for all paths costs all requests a look at their headers")
	}
	m := rule.Matches{}
	for path, want := range map[string]bool{"/v1/a": false, "/other": true} {
		q := request(set, ":path", path, "x-internal", "1")
		if got := set.Excludes(q, &m); got != want {
			t.Errorf("%s is excluded: %v", path, got)
		}
		if set.Match(q, &m); len(m.Hits) > 0 || want != (len(m.Exempt) == 0) {
			t.Errorf("%s: %+v", path, m)
		}
	}
}

// TestExemptIsASubtraction: whatever the rules are, a rule applies if it does so without the exempt ones and none that
// holds lifts it.
func TestExemptIsASubtraction(t *testing.T) {
	paths := []string{"/", "/a", "/a/b", "/c"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 130).Draw(t, "rules")
		match := func() string {
			return `{"path":{"prefix":"` + rapid.SampledFrom([]string{"/", "/a", "/a/", "/c"}).Draw(t, "prefix") + `"}}`
		}
		var limited, exempt []string
		for i := range n {
			name := "r" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + string(rune('a'+i/26))
			limited = append(limited, `{"name":"`+name+`","match":`+match()+`,"key":[],"limit":"5/1m"}`)
		}
		of := func(rules []string) *rule.Set { return decode(t, `{"rules":[`+strings.Join(rules, ",")+`]}`) }
		plain := of(limited)
		for i := range rapid.IntRange(0, 3).Draw(t, "exempt") {
			from := ""
			if rapid.Bool().Draw(t, "from") {
				from = `,"exempts":["` + plain.Rule(rapid.IntRange(0, n-1).Draw(t, "lifted")).Name + `"]`
			}
			exempt = append(exempt, `{"name":"`+string(rune('x'+i))+`","mode":"exempt","match":`+match()+from+`}`)
		}
		set := of(append(limited, exempt...))
		for _, path := range paths {
			var before, after rule.Matches
			plain.Match(&rule.Request{Path: path}, &before)
			set.Match(&rule.Request{Path: path}, &after)
			var want []string
			for _, name := range hits(plain, &before) {
				i, _ := set.Find(name)
				lifted := false
				for by := range len(exempt) {
					lifted = lifted || set.Holds(by, &rule.Request{Path: path}) && set.Lifts(by, i)
				}
				if !lifted {
					want = append(want, name)
				}
			}
			if got := hits(set, &after); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
			if len(after.Exempt) == 0 && len(want) < len(before.Hits) {
				t.Errorf("%s: exempt by %v, %d of %d hits", path, after.Exempt, len(want), len(before.Hits))
			}
		}
	})
}
