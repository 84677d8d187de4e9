package v1

import (
	"encoding/json"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/finding"
)

// A problem is a sentence, and a line for each finding; as JSON it has neither headers nor what it lacks.
func TestProblem(t *testing.T) {
	p := NewProblem(422, CodeWrong, "nothing was changed").With("ETag", `"7"`)
	if text, err := json.Marshal(p); err != nil || string(text) != `{"title":"Unprocessable Entity","status":422,"detail":"nothing was changed","code":"rules-wrong"}` {
		t.Errorf("%s, %v", text, err)
	}
	p.Findings = []finding.Finding{{File: "a.yaml", Line: 2, Column: 3, Path: "rules[0].limit", Reason: "is missing"}}
	if got, want := p.Error(), "nothing was changed\na.yaml:2:3: rules[0].limit: is missing"; got != want || p.GetHeaders().Get("ETag") != `"7"` {
		t.Errorf("%q, %v", got, p.GetHeaders())
	}
}
