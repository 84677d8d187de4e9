package rejection_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/test/kit/golden"
	"pgregory.net/rapid"
)

func TestAppendBody(t *testing.T) {
	golden.Lines(t, "testdata/bodies.golden", func(body string) string {
		f := rejection.Form{Body: body}
		return string(f.AppendBody(nil, rejection.Values{Rule: "login", RetryAfter: 31, Limit: 5}))
	})
}

// What passes the checks is JSON whatever takes the place of the placeholders, and small.
func TestBodyStaysJSON(t *testing.T) {
	legal := 0
	piece := rapid.SampledFrom([]string{
		`{"a":`, `{`, `}`, `"`, `,"b":`, `[`, `]`, `{rule}`, `{limit}`, `{retry_after}`, `\`, `\u00`, `-`, `1`, `.`, `e`, `0`, ` `, `é`,
	})
	legalValue := rapid.SampledFrom([]string{`"{rule}"`, `{limit}`, `1{retry_after}`, `-{limit}`, `1e{limit}`, `"é{limit}"`, `[{limit}]`})
	value := rapid.OneOf(legalValue, rapid.Map(rapid.SliceOfN(piece, 1, 12), func(p []string) string { return strings.Join(p, "") }))
	rapid.Check(t, func(t *rapid.T) {
		f := rejection.Form{ContentType: "application/json", Body: `{"a":` + value.Draw(t, "a") + `,"b":` + legalValue.Draw(t, "b") + `}`}
		r := rule.Rule{Name: "a", Rejection: f, Limits: []rule.Variant{{Limit: limit.Spec{Count: 5, Period: limit.Minute}}}}
		if _, err := checktest.New([]rule.Rule{r}); err != nil {
			return
		}
		legal++
		name := rapid.StringMatching(`[A-Za-z0-9_@/-]{1,195}`).Draw(t, "rule")
		got := f.AppendBody(nil, rejection.Values{
			Rule: name, Limit: rapid.Int64Range(0, limit.MaxCount).Draw(t, "limit"), RetryAfter: rapid.Int64Range(0, int64(lease.Never/1000)).Draw(t, "retry_after"),
		})
		if !json.Valid(got) || len(got) > rejection.MaxBody+rejection.MaxPlaceholders*200 {
			t.Errorf("%s becomes %s (%d bytes)", f.Body, got, len(got))
		}
	})
	if legal == 0 {
		t.Error("no body was legal: this tests nothing")
	}
}
