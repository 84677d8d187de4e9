package check_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// perMinute returns the limits of a rule that has only one.
func perMinute() []rule.Variant {
	return []rule.Variant{{Limit: limit.Spec{Count: 5, Period: limit.Minute}}}
}

// TestMistakes: each mistake in the files of package rulefile has its message, to the letter.
func TestMistakes(t *testing.T) {
	for _, file := range golden.Files(t, "../../ruleset/rulefile/testdata/bad_*.yaml") {
		if _, err := rulefile.Parse(filepath.Base(file), golden.Content(t, file)); err == nil {
			t.Errorf("%s is taken", file)
		} else if want := string(golden.Content(t, strings.TrimSuffix(file, ".yaml")+".txt")); err.Error()+"\n" != want {
			t.Errorf("%s:\n%v\nwant\n%s", file, err, want)
		}
	}
}

// TestExpressionsAreBounded: no rule takes the memory of a PoP's workers, or a second of a request, by its regular
// expressions; what is too large is not compiled.
func TestExpressionsAreBounded(t *testing.T) {
	rules := func(n int, expression string) []rule.Rule {
		list := make([]rule.Rule, n)
		for i := range list {
			list[i] = rule.Rule{Name: "a" + strconv.Itoa(i), Limits: perMinute()}
			list[i].Match.Cookies = []rule.Named{{Name: "c", Text: rule.Text{Op: rule.OpRegex, Arg: expression}}}
		}
		return list
	}
	for _, c := range []struct {
		n                int
		expression, want string
	}{
		{1, `.{1000}[a-z]{999}`, ""}, // and one for both
		{1, `.{1000}[a-z]{1000}`, `rules[0].match.cookie.c: ".{1000}[a-z]{1000}" has 2001 steps, counted without repetitions such as x{100}; write at most 2000`},
		{1, strings.Repeat(`(?i:k){1000}`, 80), "steps"},
		{1, `((a|bc)*){300,}`, "has 2100 steps"},
		{1, `[a-z0-9_.-]{660}`, ""},
		{1, `\pL{10}`, ""},
		{1, `(\pL{5}){5}`, "steps"}, // some hundred ranges each
		{1, strings.Repeat("a", 1024), ""},
		{250, `.{1000}`, ""},
		{251, `.{1000}`, "rules[250].match.cookie.c: is one regular expression too many: those of all rules have at most 250000 steps; write exact, prefix or template"},
	} {
		_, err := checktest.New(rules(c.n, c.expression))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d of %.30s: %v, want %q", c.n, c.expression, err, c.want)
		}
	}
}

// TestCombinations: testdata/combinations.golden has the border of every legal combination from both sides, and what is wrong beyond it.
func TestCombinations(t *testing.T) {
	golden.Lines(t, "testdata/combinations.golden", func(fields string) string {
		if _, err := read.JSON([]byte(`{"rules":[{"name":"a","key":[],` + fields + `}]}`)); err != nil {
			return err.Error()
		}
		return "legal"
	})
}

// TestSetsAreBounded: a set has so many rules, and all together so many overrides by key.
func TestSetsAreBounded(t *testing.T) {
	_, err := checktest.New(slices.Repeat([]rule.Rule{{Limits: perMinute()}}, rule.MaxRules+1))
	if err == nil || !strings.Contains(err.Error(), "rules: has 1001 rules; write at most 1000") {
		t.Errorf("1001 rules: %v", err)
	}
	r := rule.Rule{Name: "a", Key: []rule.Part{{{From: rule.FromHeader, Name: "x"}}}, Limits: perMinute()}
	for i := range rule.MaxKeyLimits/2 + 1 {
		r.Keys = append(r.Keys, rule.KeyLimit{Key: []string{fmt.Sprint(i)}, Limit: r.Limits[0].Limit})
	}
	fatal.Get(checktest.New([]rule.Rule{r}))(t)
	second := r
	second.Name = "b"
	if _, err := checktest.New([]rule.Rule{r, second}); err == nil || !strings.Contains(err.Error(), "rules: has 100002 overrides with key; write at most 100000") {
		t.Errorf("twice as many: %v", err)
	}
}
