package check_test

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"pgregory.net/rapid"
)

// A path that looks like a pattern is refused: compared letter by letter it would limit nothing.
func TestPatternsAreRefused(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "users", "a:b", "{id}", ":id", "*", "**", "a*", "{id}.json", "x{", "}", ":", "{}", ""})
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")
		op := rapid.SampledFrom([]rule.Op{rule.OpExact, rule.OpPrefix, rule.OpTemplate}).Draw(t, "op")
		legal := true
		for _, s := range segments {
			legal = legal && (s == "" || s == "a" || s == "users" || s == "a:b" || s == "{id}" && op == rule.OpTemplate)
		}
		arg := "/" + strings.Join(segments, "/")
		_, err := check.New([]rule.Rule{{Name: "r", Match: rule.Match{Paths: []rule.Text{{Op: op, Arg: arg}}}, Limits: perMinute(5)}})
		if (err == nil) != legal {
			t.Errorf("%q as op %d: %v", arg, op, err)
		}
	})
}
