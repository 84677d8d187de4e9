package check_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"pgregory.net/rapid"
)

var suggested = regexp.MustCompile(`write (\{ (?:prefix|template|regex): .* \})$`)

// Whatever path is refused for what it looks like: what the message asks to write is
// legal, and holds for what was meant.
func TestSuggestionsAreLegal(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "users", "{id}", ":id", "*", "**", "a*", "{id}.json", "x{", "}", ":", "{}", ""})
	rapid.Check(t, func(t *rapid.T) {
		arg := "/" + strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments"), "/")
		op := rapid.SampledFrom([]rule.Op{rule.OpExact, rule.OpPrefix, rule.OpTemplate}).Draw(t, "op")
		_, err := checktest.New([]rule.Rule{{Name: "r", Match: rule.Match{Paths: []rule.Text{{Op: op, Arg: arg}}}, Limits: perMinute(5)}})
		if err == nil {
			if strings.ContainsAny(arg, "*") || op != rule.OpTemplate && strings.ContainsAny(arg, "{}") {
				t.Errorf("%q is taken as op %d", arg, op)
			}
			return
		}
		found := suggested.FindStringSubmatch(err.Error())
		if found == nil {
			t.Fatalf("no suggestion: %v", err)
		}
		form := regexp.MustCompile(`: '?([^' ]*)'? }`).FindStringSubmatch(found[1])[1]
		again := map[string]rule.Op{"{ p": rule.OpPrefix, "{ t": rule.OpTemplate, "{ r": rule.OpRegex}[found[1][:3]]
		if _, err := checktest.New([]rule.Rule{{Name: "r", Match: rule.Match{Paths: []rule.Text{{Op: again, Arg: form}}}, Limits: perMinute(5)}}); err != nil {
			t.Errorf("%q: it asks to write %s, which is refused: %v", arg, found[1], err)
		}
	})
}
