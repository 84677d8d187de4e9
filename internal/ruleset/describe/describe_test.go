package describe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestRule: a rule is told in the words that people have for it, and by a request that it counts or sheds, with each source that it
// looks at.
func TestRule(t *testing.T) {
	golden.Lines(t, "testdata/rules.golden", func(fields string) string {
		r := ruleOf(t, fields)
		return strings.Join(Rule(r), " · ") + "\n" + string(fatal.Get(json.Marshal(Example(r, 0, time.Now())))(t))
	})
	if got := Limit(ruleOf(t, "key: [client_ip], limit: 1/1m, count: { status: [401] }")); got != "1 response (401) per minute per client IP" {
		t.Error(got)
	}
	if got := Limit(ruleOf(t, "key: [client_ip], limit: 5/1m")); got != "5 per minute per client IP" {
		t.Error(got)
	}
}

func ruleOf(t *testing.T, fields string) *rule.Rule {
	t.Helper()
	d := fatal.Get(rulefile.Read("rules.yaml", []byte("rules: [{ name: a, "+fields+" }]\n")))(t)
	return d.Set.Rule(0)
}
