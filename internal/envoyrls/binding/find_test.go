package binding_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const some = `
bindings:
  - { domain: d, descriptor: [{ key: user }], rule: any }
  - { domain: d, descriptor: [{ key: user, value: ann }, { key: path }], rule: ann }
  - { domain: d, descriptor: [{ key: user, value: bob }], unbound: true }
  - { domain: d, descriptor: [{ key: user }, { key: path }], rule: both }
  - { domain: d, descriptor: [{ key: user }, { key: path, value: / }], unbound: true }
  - { domain: d, descriptor: [{ key: old }], rule: gone }
`

func entries(pairs ...string) (es []descriptor.Entry) {
	for i := 0; i < len(pairs); i += 2 {
		es = append(es, descriptor.Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return es
}

func TestFind(t *testing.T) {
	s := fatal.Get(binding.Parse("f", []byte(some)))(t)
	header, path := rule.Part{{From: rule.FromHeader, Name: "x"}}, rule.Part{{From: rule.FromPath}}
	for _, c := range []struct {
		entries []descriptor.Entry
		key     []rule.Part
		want    string // the rule, and the key of its counter
	}{
		{entries("user", "x"), []rule.Part{header}, "any x"},
		{entries("user", ""), nil, ""}, // a part of the key that the descriptor has not
		{entries("user", "ann"), nil, ""},
		{entries("user", "ann", "path", "/?q"), []rule.Part{path}, "ann /"},
		{entries("user", "bob"), nil, ""},
		{entries("user", "bob", "path", "/a"), nil, ""}, // no way back
		{entries("user", "x|y", "path", "/a"), []rule.Part{header, path}, `both x\|y|/a`},
		{entries("user", "x", "path", "/"), nil, ""},
		{entries("path", "/"), nil, ""},
		{nil, nil, ""},
	} {
		got := ""
		if b := s.Find("d", c.entries); b != nil {
			got = b.Rule + " " + string(b.AppendKey(nil, c.key, c.entries))
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.entries, got, c.want)
		}
	}
	if s.Find("e", entries("user", "x")) != nil || s.Domain("e") || !s.Domain("d") {
		t.Error("bindings of a domain that has none")
	}
}

// limited is a rule with a key of one part.
func limited(mode rule.Mode, a limit.Algorithm) *rule.Rule {
	return &rule.Rule{Mode: mode, Key: []rule.Part{{{From: rule.FromPath}}}, Limits: []rule.Variant{{Limit: limit.Spec{Algorithm: a}}}}
}

// TestCheck: what is unbound needs no rule.
func TestCheck(t *testing.T) {
	s := fatal.Get(binding.Parse("f.yaml", []byte(some)))(t)
	errs, off := s.Check(func(name string) []*rule.Rule {
		return map[string][]*rule.Rule{
			"any": {limited(rule.Off, limit.SlidingWindow)}, "ann": {limited(rule.Off, limit.SlidingWindow), limited(0, limit.Concurrency)}, "both": {limited(0, limit.SlidingWindow)},
		}[name]
	})
	const want = `f.yaml:4:80: rule: rule "ann" limits concurrency; clients of this protocol do not release slots; bind a rule with another algorithm
f.yaml:6:68: rule: rule "both" has a key of parts: 1, entries without value here: 2; leave the value out of one entry for each part, in their order
f.yaml:8:52: rule: rule "gone" is not in the rules file`
	if errs.Error() != want || off != 1 {
		t.Errorf("off %d, mistakes\n%s\nwant\n%s", off, errs, want)
	}
	counting := limited(0, limit.SlidingWindow)
	counting.Cost.Actual = settle.Actual{Name: "x-cost"}
	for b := range s.All() {
		if flaw := b.Flaw([]*rule.Rule{counting}); b.Rule != "" && !strings.Contains(flaw, "has count or cost.actual, which need the response") {
			t.Errorf("a rule that counts responses: %q", flaw)
		}
	}
	var text strings.Builder
	s.Write(&text)
	if !strings.Contains(text.String(), "\"d\" \"user\"=\"ann\" \"path\": rule ann\n\"d\" \"user\"=\"bob\": unbound\n") {
		t.Errorf("listed as\n%s", text.String())
	}
}
