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
	for fields, want := range map[string]string{"5/1m": "5", "1/1m, count: { status: [401] }": "1 response (401)"} {
		if got := Limit(ruleOf(t, "key: [client_ip], limit: "+fields)); got != want+" per minute per client IP" {
			t.Errorf("%s, want %s per minute per client IP", got, want)
		}
	}
}

func ruleOf(t *testing.T, fields string) *rule.Rule {
	t.Helper()
	return fatal.Get(rulefile.Parse("rules.yaml", []byte("rules: [{ name: a, "+fields+" }]\n")))(t).Rule(0)
}
