package convert_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/convert"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// check holds a conversion to what is promised of all: both files are in order, and
// each rate limit has a rule and a binding, or is in the list.
func check(t testing.TB, c *descriptor.Config, r *convert.Result) {
	t.Helper()
	rules, err := rulefile.Parse("rules.yaml", r.Rules)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Rules)
	}
	bindings, err := binding.Parse("bindings.yaml", r.Bindings)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Bindings)
	}
	if rules.Len() != r.RuleCount || bindings.Len() != r.BoundCount || rules.Len() != len(r.Names) {
		t.Errorf("rules %d, bindings %d, names %d; the result states %d, %d", rules.Len(), bindings.Len(), len(r.Names), r.RuleCount, r.BoundCount)
	}
	if errs, _ := bindings.Check(rules.Named); len(errs) > 0 {
		t.Errorf("%v\n%s\n%s", errs, r.Rules, r.Bindings)
	}
	bound := map[string]int{}
	for b := range bindings.All() {
		bound[b.Rule]++
	}
	noRule := map[string]bool{}
	for _, m := range r.Remarks {
		if m.Kind.Left || m.Kind.What == "unlimited" || m.Kind.What == "never matched" {
			noRule[m.Path] = true
		}
	}
	for l := range c.Rules() {
		name, converted := r.Names[l.Path]
		if converted == noRule[l.Path] || converted && bound[name] != 1 {
			t.Errorf("%s: rule %q with bindings: %d; without a rule in the list: %t", l.Path, name, bound[name], noRule[l.Path])
		}
		if !converted {
			continue
		}
		i, found := rules.Find(name)
		if !found {
			t.Fatalf("%s: no rule %s", l.Path, name)
		}
		if text := fmt.Sprintf("%+v%+v", rules.Rule(i).Match, rules.Rule(i).Key); !strings.Contains(text, "x-descriptor-") {
			t.Errorf("%s: PoPs apply rule %s as it is: %s", l.Path, name, text)
		}
		got, want := rules.Rule(i).Limits[0].Limit, l.Limit.Spec()
		if got.Algorithm != want.Algorithm || got.Align != want.Align || got.Count != want.Count || got.Period != want.Period {
			t.Errorf("%s: limit %+v, want %+v", l.Path, got, want)
		}
	}
}

// TestNames: names are legal, each once, and what comes behind changes none.
func TestNames(t *testing.T) {
	long := strings.Repeat("long-", 20)
	const limit = "rate_limit: { unit: hour, requests_per_unit: 5"
	lines := []string{
		"domain: d", "descriptors:",
		"- { key: a_b, " + limit + " } }",              // d-a_b
		"- { key: 'a b', " + limit + " } }",            // d-a-b
		"- { key: a, value: b, " + limit + " } }",      // the same but for its hash
		"- { key: é, " + limit + " } }",                // d
		"- { key: ü, " + limit + ", name: d-a_b } }",   // its own is taken
		"- { key: ö, " + limit + ", name: 'd a b' } }", // its own is not legal
		"- { key: x, " + limit + ", name: own } }",     //
		"- { key: " + long + ", " + limit + " } }",     //
		"- { key: " + long + "x, " + limit + " } }",    //
		"- { key: own, value: y, " + limit + ", name: own } }",
	}
	var names map[string]string
	for n := 3; n <= len(lines); n++ {
		c := fatal.Get(descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte(strings.Join(lines[:n], "\n") + "\n")}}, descriptor.Options{}))(t)
		r := fatal.Get(convert.Config(c, convert.Options{}))(t)
		check(t, c, r)
		for path, name := range names {
			if r.Names[path] != name {
				t.Errorf("%s is called %s, was %s without what comes behind", path, r.Names[path], name)
			}
		}
		names = r.Names
	}
	for path, want := range map[string]string{"d|a_b": "d-a_b", "d|a b": "d-a-b", "d|é": "d", "d|x": "own", "d|own=y": "d-own-y"} {
		if names[path] != want {
			t.Errorf("%s is called %s, want %s", path, names[path], want)
		}
	}
}

// FuzzConfig: whatever is a configuration can be converted, in the same way each time.
func FuzzConfig(f *testing.F) {
	const descriptors = "../descriptor/testdata/"
	for _, pattern := range []string{descriptors + "example/*.yaml", descriptors + "warn_*.yaml", "../../../cmd/weir/testdata/ratelimit/*/*.yaml"} {
		for _, file := range golden.Files(f, pattern) {
			f.Add(golden.Content(f, file))
		}
	}
	for _, value := range []string{`*`, `a*`, `\0\x7f\uFEFF\u2028`, `"*'#: {}[],&!|>`, `:path`, `x-forwarded-for`, `host`, `GET`, `/a/:b/*`, `/{x}`, `é`, `null`, `1e3`, `~`, ` `, `{}`} {
		quoted := `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
		for _, shape := range []string{
			"domain: %[1]s\ndescriptors: [{ key: %[1]s, value: %[1]s, rate_limit: &l { unit: day, requests_per_unit: 1, name: %[1]s } }, { key: %[1]s, rate_limit: *l }]",
			"domain: d\ndescriptors: [{ key: path, value: %[1]s, rate_limit: &l { unit: day, requests_per_unit: 1 } }, { key: method, value: %[1]s, descriptors: [{ key: method, value: %[1]s, rate_limit: *l }, { key: x-a, value: %[1]s, rate_limit: *l }] }]",
		} {
			f.Add(fmt.Appendf(nil, shape, quoted))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := descriptor.Parse([]descriptor.File{{Name: "f\n\x00.yaml", Data: data}}, descriptor.Options{})
		if err != nil {
			return
		}
		r, err := convert.Config(c, convert.Options{})
		if err != nil {
			return // too large
		}
		check(t, c, r)
		again, err := convert.Config(c, convert.Options{})
		if err != nil || !bytes.Equal(r.Rules, again.Rules) || !bytes.Equal(r.Bindings, again.Bindings) {
			t.Fatalf("converted again (%v):\n%s\n%s\nbefore\n%s\n%s", err, again.Rules, again.Bindings, r.Rules, r.Bindings)
		}
		var list, other bytes.Buffer
		r.WriteList(&list)
		again.WriteList(&other)
		if list.String() != other.String() || strings.ContainsRune(list.String(), 0) {
			t.Errorf("the list\n%s\nthen\n%s", &list, &other)
		}
	})
}
