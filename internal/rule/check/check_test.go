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
	"github.com/weirlimit/weir/test/kit/golden"
)

// perMinute returns the limits of a rule that has only one.
func perMinute(count int64) []rule.Variant {
	return []rule.Variant{{Limit: limit.Spec{Count: count, Period: limit.Minute}}}
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
			list[i] = rule.Rule{Name: "a" + strconv.Itoa(i), Limits: perMinute(5)}
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

// TestCombinations has the border of every legal combination from both sides.
func TestCombinations(t *testing.T) {
	const legal, illegal = true, false
	for _, test := range []struct {
		rule string
		want bool
	}{
		{`"limit":"5/1s","algorithm":"fixed_window"`, legal},
		{`"limit":"5/999ms","algorithm":"fixed_window"`, illegal},
		{`"limit":"5/999ms","algorithm":"fixed_window","consistency":"exact"`, legal},
		{`"limit":"5/999ms","algorithm":"sliding_window","consistency":"optimistic"`, illegal},
		{`"limit":"5/999ms","algorithm":"fixed_window","scope":"pop"`, legal},
		{`"algorithm":"token_bucket","limit":{"count":100,"per":"1s","burst":15}`, legal},
		{`"algorithm":"token_bucket","limit":{"count":100,"per":"1s","burst":14}`, illegal},
		{`"algorithm":"token_bucket","limit":{"count":100,"per":"1s","burst":14},"consistency":"exact"`, legal},
		{`"algorithm":"token_bucket","limit":{"count":100,"per":"1s","burst":15},"lease":{"interval":"101ms"}`, illegal},
		{`"algorithm":"token_bucket","limit":{"count":4294967295,"per":"1s","burst":644245095}`, legal},
		{`"algorithm":"token_bucket","limit":{"count":4294967295,"per":"1s","burst":644245094}`, illegal},
		{`"algorithm":"token_bucket","limit":"100/150ms"`, legal},
		{`"algorithm":"token_bucket","limit":"100/149ms"`, illegal},
		{`"limit":{"count":5,"per":"1m","burst":5}`, illegal},
		{`"limit":{"count":5,"per":"1m","burst":5},"scope":"global"`, illegal},
		{`"limit":"5/1m","align":"first_request"`, illegal},
		{`"limit":"5/1m","align":"first_request","scope":"global"`, legal},
		{`"limit":"5/1s"`, legal},
		{`"limit":"5/999ms"`, illegal},
		{`"limit":"5/1ms","scope":"pop"`, legal},
		{`"limit":"5/9999ms","scope":"global"`, illegal},
		{`"limit":"0/1m"`, legal},
		{`"limit":"5/1m","cost":5`, legal},
		{`"limit":"5/1m","cost":6`, illegal},
		{`"algorithm":"token_bucket","limit":{"count":5,"per":"1m","burst":6},"cost":6`, legal},
		{`"limit":"0/1m","cost":6`, legal},
		{`"limit":3,"algorithm":"concurrency","cost":4`, illegal},
		{`"limit":"5/1m","count":{"status":[200,599,"2xx"]}`, illegal},
		{`"limit":"5/1m","count":{"status":[200,599,"4xx"],"grpc_status":[0,16]}`, legal},
		{`"limit":"5/1m","count":{"status":[401,403,401]}`, illegal},
		{`"limit":"5/1m","count":{"status":["4xx","4xx"]}`, illegal},
		{`"limit":"5/1m","count":{"grpc_status":[16,16]}`, illegal},
		{`"limit":"5/1m","count":{"status":[401]},"algorithm":"sliding_log"`, illegal},
		{`"limit":5,"count":{"status":[401]},"algorithm":"concurrency"`, illegal},
		{`"limit":"5/1m","count":{"status":[401]},"algorithm":"token_bucket","scope":"global"`, legal},
		{`"limit":"50/1m","on_limit":{"block":"1s"}`, legal},
		{`"limit":"51/1m","on_limit":{"block":"1s"}`, illegal},
		{`"limit":"51/1m","on_limit":{"block":"366d"},"consistency":"exact","scope":"global"`, legal},
		{`"limit":"5/1m","on_limit":{"block":"1s"},"consistency":"leased"`, illegal},
		{`"limit":"5/1m","on_limit":{"block":"1s"},"consistency":"optimistic"`, illegal},
		{`"limit":"5/1m","on_limit":{"block":"999ms"}`, illegal},
		{`"limit":"5/1m","on_limit":{"block":"367d"}`, illegal},
		{`"limit":"500/1m","on_limit":{"block":"10m"},"scope":"pop"`, legal},
		{`"limit":5,"on_limit":{"block":"10m"},"algorithm":"concurrency"`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","on_limit":{"block":"10m"}`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"1s","on_limit":{"block":"10m"}`, illegal},
		{`"limit":"5/1m","cost":{"header":"x","max":5}`, legal},
		{`"limit":"5/1m","cost":{"header":"x","max":6}`, illegal},
		{`"limit":"5/1m","cost":{"header":"x","default":5,"max":5}`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"1m"`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"61s"`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"9s","overrides":[{"when":{"method":"PUT"},"limit":"5/9s"}]`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"9s","overrides":[{"when":{"method":"PUT"},"limit":"5/8s"}]`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","min_interval":"1s"`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","lease":{"ttl":"1200ms"}`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","lease":{"ttl":"1201ms"}`, illegal},
		{`"limit":"5/1m","timeout":"1ms"`, legal},
		{`"limit":"5/1m","timeout":"1s"`, legal},
		{`"limit":"5/1m","timeout":"1001ms"`, illegal},
		{`"limit":"5/366d"`, legal},
		{`"limit":"5/366d1ms"`, illegal},
		{`"limit":"5/1m","lease":{"interval":"100ms","ttl":"100ms"}`, legal},
		{`"limit":"5/1m","lease":{"interval":"99ms"}`, illegal},
		{`"limit":"5/1m","lease":{"ttl":"10m"}`, legal},
		{`"limit":"5/1m","lease":{"ttl":"601s"}`, illegal},
		{`"limit":3,"algorithm":"concurrency","consistency":"exact","lease":{"ttl":"1m"}`, legal},
		{`"limit":3,"algorithm":"concurrency","scope":"pop"`, legal},
		{`"limit":"5/10s","algorithm":"fixed_window","scope":"global"`, legal},
		{`"limit":"5/9999ms","algorithm":"fixed_window","scope":"global"`, illegal},
		{`"limit":"5/9999ms","algorithm":"sliding_window","scope":"global","consistency":"optimistic"`, illegal},
		{`"limit":"5/1s","algorithm":"fixed_window","scope":"global","consistency":"exact"`, legal},
		{`"algorithm":"token_bucket","limit":"500/1s","scope":"global"`, legal},
		{`"limit":3,"algorithm":"concurrency","scope":"global"`, illegal},
		{`"limit":{"count":3},"algorithm":"concurrency"`, legal},
		{`"limit":3`, illegal},
	} {
		_, err := read.JSON([]byte(`{"rules":[{"name":"a","key":[],` + test.rule + `}]}`))
		if (err == nil) != test.want {
			t.Errorf("%s: legal %v, want %v (%v)", test.rule, err == nil, test.want, err)
		}
	}
}

// TestSetsAreBounded: a set has so many rules, and all together so many overrides by key.
func TestSetsAreBounded(t *testing.T) {
	if _, err := checktest.New(slices.Repeat([]rule.Rule{{Limits: perMinute(5)}}, rule.MaxRules+1)); err == nil || !strings.Contains(err.Error(), "rules: has 1001 rules; write at most 1000") {
		t.Errorf("1001 rules: %v", err)
	}
	r := rule.Rule{Name: "a", Key: []rule.Part{{{From: rule.FromHeader, Name: "x"}}}, Limits: perMinute(5)}
	for i := range rule.MaxKeyLimits/2 + 1 {
		r.Keys = append(r.Keys, rule.KeyLimit{Key: []string{fmt.Sprint(i)}, Limit: r.Limits[0].Limit})
	}
	if _, err := checktest.New([]rule.Rule{r}); err != nil {
		t.Fatal(err)
	}
	second := r
	second.Name = "b"
	if _, err := checktest.New([]rule.Rule{r, second}); err == nil || !strings.Contains(err.Error(), "rules: has 100002 overrides with key; write at most 100000") {
		t.Errorf("twice as many: %v", err)
	}
}
