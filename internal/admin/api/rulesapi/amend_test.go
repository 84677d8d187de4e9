package rulesapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
)

// inStore is a store that this process keeps.
func inStore(t *testing.T) versions.KV {
	kept := local.New(filepath.Join(t.TempDir(), "rules.store"))
	t.Cleanup(func() { _ = kept.Close() })
	return kept
}

// onStore is a world whose rules and audit are in a store. Its test runs beside others.
func onStore(t *testing.T, kv versions.KV) *world {
	t.Helper()
	t.Parallel()
	s := versions.On(kv)
	return newWorld(t, s, Config{Store: s, Rules: "store:"})
}

const amended = `rules:
- { name: login, key: [{ header: x-user }], limit: 5/1m }
- { name: team-a, key: [{ header: x-user }, method], limit: 5/1m }
- { name: hidden, key: [{ header: x-user }], limit: 5/1m, hash: true }
`

func override(rule, limit string, key ...string) amend.Amendment {
	return amend.Amendment{Rule: rule, Key: key, Limit: json.RawMessage(limit), Until: time.Now().Add(time.Hour), Why: "test"}
}

// Overrides and candidates are set, replaced and ended, each as a version, with what was there before in the audit.
func TestAmend(t *testing.T) {
	w := onStore(t, inStore(t))
	begin, _ := w.put("ann", `"0"`, amended, "begin")
	var done v1.Amended
	etag, _ := w.Call("operator", http.MethodPut, "/v1/overrides", begin, override("login", `"50/1m"`, "acme"), &done, 200)
	if done.Before != "" || !strings.HasPrefix(done.Version.Amends, "override of login acme: 50/1m until ") || fmt.Sprintf("%q", fmt.Sprint(done.Version.Revision)) != etag {
		t.Errorf("%s %+v", etag, done)
	}
	first := done.Version.Amends
	again := override("login", `{"count":70,"per":"1m"}`, "acme")
	again.Why = "more"
	w.Call("operator", http.MethodPut, "/v1/overrides", "", again, &done, 200)
	if done.Before != first {
		t.Errorf("%+v, want %s before", done, first)
	}
	hashed := override("hidden", `"9/1m"`)
	hashed.Hash, hashed.Name = strings.Repeat("0f", 16), "deal"
	w.Call("operator", http.MethodPut, "/v1/overrides", "", hashed, nil, 200)
	w.Call("team", http.MethodPut, "/v1/overrides", "", override("team-a", `"500/1m"`, "a,b", "GET"), nil, 200)
	etag, _ = w.Call("operator", http.MethodPut, "/v1/candidates", "", amend.Amendment{Rule: "login", Limit: json.RawMessage(`"3/1m"`), Until: time.Now().Add(time.Hour), Why: "try"}, nil, 200)

	var set v1.Amendments
	now, _ := w.Call("viewer", http.MethodGet, "/v1/overrides", "", nil, &set, 200)
	if len(set.Items) != 3 || now != etag || string(set.Items[0].Limit) != `{"count":70,"per":"1m"}` || set.Items[0].Why != again.Why || set.Items[0].Who != "operator" || set.Items[0].Problem != "" || set.Items[1].Key[0] != `\h`+hashed.Hash || set.Items[1].Name != "deal" {
		t.Errorf("%s: %+v", now, set.Items)
	}
	var tried v1.Amendments
	w.Call("viewer", http.MethodGet, "/v1/candidates", "", nil, &tried, 200)
	if len(tried.Items) != 1 || tried.Items[0].Rule != "login" || tried.Items[0].Why != "try" || tried.Items[0].When.IsZero() {
		t.Errorf("%+v", tried.Items)
	}

	w.Call("operator", http.MethodDelete, "/v1/overrides?rule=login&key=acme&why=over", "", nil, &done, 200)
	if done.Before == "" || done.Version.Amends != "override of login acme removed" {
		t.Errorf("%+v", done)
	}
	w.Call("team", http.MethodDelete, "/v1/overrides?rule=team-a&key="+url.QueryEscape("a,b")+"&key=GET&why=over", "", nil, nil, 200)
	w.Call("operator", http.MethodDelete, "/v1/overrides?rule=hidden&hash="+hashed.Hash+"&why=over", "", nil, nil, 200)
	w.Call("operator", http.MethodDelete, "/v1/candidates?rule=login&why=over", "", nil, nil, 200)
	w.Call("viewer", http.MethodGet, "/v1/overrides", "", nil, &set, 200)
	w.Call("viewer", http.MethodGet, "/v1/candidates", "", nil, &tried, 200)
	if len(set.Items) != 0 || len(tried.Items) != 0 {
		t.Errorf("%+v, %+v", set, tried)
	}

	var audit v1.Audit
	w.Call("viewer", http.MethodGet, "/v1/audit", "", nil, &audit, 200)
	if e := audit.Items[len(audit.Items)-3]; len(audit.Items) != 10 || e.What != "override.set" || e.On != "login acme" || e.Before != first || !strings.Contains(e.After, "70") || e.Why != "more" || e.Who != "operator" {
		t.Errorf("%d entries: %+v", len(audit.Items), e)
	}
}

// What is wrong with an override or a candidate is told, and changes nothing.
func TestAmendRejected(t *testing.T) {
	w := onStore(t, inStore(t))
	put := func(who string, o amend.Amendment, status int, code, text string) {
		t.Helper()
		w.fails(who, http.MethodPut, "/v1/overrides", "", o, status, code, text)
	}
	good := override("login", `"50/1m"`, "acme")
	put("operator", good, 422, v1.CodeAmendment, "there are no rules to amend")
	begin, _ := w.put("ann", `"0"`, amended, "begin")
	over, silent := good, good
	over.Until, silent.Why = time.Now().Add(-time.Hour), ""
	put("viewer", good, 403, v1.CodeForbidden, "needs the role operator")
	put("team", good, 403, v1.CodeForbidden, "whose names begin with team-")
	put("operator", over, 422, v1.CodeAmendment, "until is missing or in the past")
	put("operator", silent, 422, "", "why")
	for why, text := range map[string]string{" \n": "the reason is missing", strings.Repeat("é", 1001): "at most 2000"} {
		silent.Why = why
		put("operator", silent, 422, v1.CodeAmendment, text)
		w.fails("ann", http.MethodPut, "/v1/rules", begin, v1.Change{Document: amended, Why: why}, 422, v1.CodeAmendment, text)
	}
	put("operator", override("login", `"50/2m"`, "acme"), 422, v1.CodeAmendment, "2m")
	w.fails("operator", http.MethodPut, "/v1/overrides", `"7"`, good, 412, v1.CodeChanged, "ann applied")
	w.fails("operator", http.MethodPut, "/v1/overrides", `x`, good, 400, v1.CodePrecondition, "one ETag")
	w.fails("operator", http.MethodDelete, "/v1/overrides?rule=login&key=acme&why=x", "", nil, 404, v1.CodeNoEntry, "login acme")
	w.fails("operator", http.MethodDelete, "/v1/overrides?rule=login&key=acme", "", nil, 422, "", "why")
	w.fails("team", http.MethodDelete, "/v1/candidates?rule=login&why=x", "", nil, 403, v1.CodeForbidden, "team-")
	if now, _ := w.Call("viewer", http.MethodGet, "/v1/overrides", "", nil, nil, 200); now != begin {
		t.Errorf("something was changed: %s", now)
	}

	w = newWorld(t, nil, Config{Rules: "rules.yaml"})
	for _, path := range []string{"/v1/overrides", "/v1/candidates"} {
		w.fails("viewer", http.MethodGet, path, "", nil, 409, v1.CodeReadOnly, "rules.yaml")
	}
	put("operator", good, 409, v1.CodeReadOnly, "rules.yaml")
	w.fails("operator", http.MethodDelete, "/v1/candidates?rule=login&why=x", "", nil, 409, v1.CodeReadOnly, "rules.yaml")
}
