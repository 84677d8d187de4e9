package rulesapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/rulediff"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A viewer learns which rules a document changes, and an operator what becomes of its tests, before anybody applies it.
func TestTries(t *testing.T) {
	w := onStore(t, inStore(t))
	var d rulediff.Diff
	if w.Call("viewer", http.MethodPost, "/v1/rules:diff", "", v1.Document{Document: document(5, "a")}, &d, 200); d.Added != 1 { // nobody has applied one
		t.Errorf("%+v", d)
	}
	w.put("ann", `"0"`, document(5, "a", "b"), "begin")
	w.Call("viewer", http.MethodPost, "/v1/rules:diff", "", v1.Document{Document: document(6, "a", "c")}, &d, 200)
	if d.Changed != 1 || d.Added != 1 || d.Removed != 1 || d.Rules[0].Changes[0].New != "6/1m" {
		t.Errorf("%+v", d)
	}
	tests := `
regions: { eu: 1, us: 1 }
rules:
- { name: a, key: [client_ip], limit: 1/1m }
- { name: g, match: { path: /g }, key: [], limit: 9/1m, scope: global }
tests:
- { name: right, request: { url: /, client: 192.0.2.1 }, steps: [{ expect: allowed }, { expect: { denied: a } }] }
- { name: wrong, request: { url: /, client: 192.0.2.1 }, steps: [{ expect: allowed }, { expect: allowed }] }
- { name: two regions, pops: { fra1: eu, nyc1: us }, request: { url: /g, client: 192.0.2.1 }, steps: [{ expect: allowed }] }
`
	w.Call("viewer", http.MethodPost, "/v1/rules:test", "", v1.Document{Document: tests}, nil, 403)
	var r Tested
	w.Call("operator", http.MethodPost, "/v1/rules:test", "", v1.Document{Document: tests}, &r, 200)
	if len(r.Items) != 3 || r.Items[0].Failure != nil || r.Items[0].Problem != "" || r.Items[1].Failure == nil || r.Items[1].Failure.Step != 2 ||
		r.Items[2].Failure != nil || r.Items[2].Problem != "" {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{"/v1/rules:diff", "/v1/rules:test"} {
		wrong := v1.Document{Document: "rules: [{ nam: a }]\n"}
		w.fails("operator", http.MethodPost, path, "", wrong, 422, v1.CodeWrong, "rules[0].nam")
	}
}

// A document that is made to take long ends when its time is over, and so does the turn of who hangs up.
func TestTryEnds(t *testing.T) {
	t.Parallel()
	long := "rules: [{ name: a, key: [client_ip], algorithm: concurrency, limit: 9 }]\ntests: [{ name: long, request: { url: /, client: 192.0.2.1 }, " +
		"steps: [{ repeat: every 30s for 300d, lasts: 1d, expect: { count: { allowed: 9 } } }] }]\n"
	suite := fatal.Get(ruletests.Read(documentName, []rulefile.File{{Name: documentName, Data: []byte(long)}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if one := run(ctx, suite, &suite.Tests[0]); one.Failure != nil || !strings.Contains(one.Problem, "no time") {
		t.Errorf("%+v", one)
	}
	rules := fatal.Get(rulefile.Read(documentName, []byte(document(5, "a", "b"))))(t)
	if d, err := rulediff.Compare(ctx, rules.Set, rules.Set, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", d, err)
	}
}
