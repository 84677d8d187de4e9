package rulesapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/apitest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// world is the operations, with callers: ann and bob are admins, team may only change rules that begin with team-, and
// viewer and operator are what they are called.
type world struct{ *apitest.World }

func newWorld(t *testing.T, trail *versions.Store, c Config) *world {
	t.Helper()
	callers := apitest.NewCallers(t, map[string]string{
		"ann": "role: admin", "bob": "role: admin", "team": "role: admin, prefix: team-", "operator": "role: operator", "viewer": "role: viewer",
	})
	c.InForce = func() v1.InForce { return v1.InForce{Version: "abc", Revision: 7, Problem: "none"} }
	a := api.New(api.Config{
		Loopback: true, Callers: callers.List, Trail: trail, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewRegistry("test"),
	})
	Add(a, c)
	return &world{&apitest.World{Callers: callers, T: t, Handler: a.Handler()}}
}

// put puts a document in force, which has to succeed.
func (w *world) put(who, ifMatch, document, why string) (etag string, applied v1.Applied) {
	w.T.Helper()
	etag, _ = w.Call(who, http.MethodPut, "/v1/rules", ifMatch, v1.Change{Document: document, Why: why}, &applied, 200)
	return etag, applied
}

// fails makes a call that has to be answered with this problem.
func (w *world) fails(who, method, path, ifMatch string, body any, status int, code, text string) (string, v1.Problem) {
	w.T.Helper()
	etag, p := w.Call(who, method, path, ifMatch, body, nil, status)
	if p.Code != code || !strings.Contains(p.Error(), text) {
		w.T.Errorf("%s %s: %+v, want %s with %q", method, path, p, code, text)
	}
	return etag, p
}

// rejected puts a document in force, which has to be rejected with this problem.
func (w *world) rejected(who, ifMatch, document string, status int, code, text string) (etag string, p v1.Problem) {
	w.T.Helper()
	return w.fails(who, http.MethodPut, "/v1/rules", ifMatch, v1.Change{Document: document, Why: "test"}, status, code, text)
}

// document has rules of these names, each with its limit.
func document(limit int, names ...string) string {
	text := "rules:\n"
	for _, name := range names {
		text += fmt.Sprintf("- { name: %s, key: [client_ip], limit: %d/1m }\n", name, limit)
	}
	return text
}

// Rules are read, changed, listed and rolled back, and each change is in the audit.
func TestRules(t *testing.T) {
	w := onStore(t, inStore(t))
	var rules v1.Rules
	none, _ := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, &rules, 200)
	if none != `"0"` || rules.Version != nil || rules.Source != "store" || rules.InForce != (v1.InForce{Version: "abc", Revision: 7, Problem: "none"}) {
		t.Errorf("before the first version: %s, %+v", none, rules)
	}
	first, applied := w.put("ann", none, document(5, "a"), "begin")
	if applied.Before != 0 || applied.Version.Who != "ann" || applied.Version.Why != "begin" || fmt.Sprintf("%q", fmt.Sprint(applied.Version.Revision)) != first {
		t.Errorf("%s, %+v", first, applied)
	}
	second, _ := w.put("bob", first, document(6, "a")+"- { name: login, match: { path: /login }, key: [client_ip], limit: 9/1m }\n", "more")
	if etag, _ := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, &rules, 200); etag != second || rules.Version.Who != "bob" || !strings.Contains(rules.Document, "6/1m") {
		t.Errorf("%s, %+v", etag, rules)
	}
	var back v1.Applied
	third, _ := w.Call("ann", http.MethodPost, "/v1/rules:rollback", second, v1.Rollback{Why: "too much"}, &back, 200)
	if back.Version.RollbackTo != applied.Version.Revision {
		t.Errorf("rolled back: %+v", back)
	}
	w.fails("ann", http.MethodPost, "/v1/rules:rollback", second, v1.Rollback{Why: "again"}, 412, v1.CodeChanged, "")
	if etag, _ := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, &rules, 200); etag != third || rules.Document != document(5, "a") {
		t.Errorf("rolled back: %s, %+v", etag, rules)
	}

	var all []uint64
	for next := uint64(0); ; {
		var page v1.Versions
		w.Call("viewer", http.MethodGet, fmt.Sprint("/v1/rules/versions?limit=2&before=", next), "", nil, &page, 200)
		for _, v := range page.Items {
			all = append(all, v.Revision)
		}
		if next = page.Next; next == 0 {
			break
		}
	}
	if want := []uint64{back.Version.Revision, back.Before, applied.Version.Revision}; fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("versions %v, want %v", all, want)
	}
	var one v1.VersionDocument
	w.Call("viewer", http.MethodGet, fmt.Sprint("/v1/rules/versions/", back.Before), "", nil, &one, 200)
	if one.Version.Why != "more" || !strings.Contains(one.Document, "login") {
		t.Errorf("%+v", one)
	}
	w.fails("viewer", http.MethodGet, "/v1/rules/versions/77", "", nil, 404, v1.CodeNoVersion, "")
	w.Call("viewer", http.MethodGet, "/v1/rules/versions/x", "", nil, nil, 422)

	var audit v1.Audit
	w.Call("viewer", http.MethodGet, "/v1/audit", "", nil, &audit, 200)
	text := ""
	for _, e := range audit.Items {
		text += strings.Join([]string{e.Who, e.What, e.Why, e.Before, e.After}, " ") + "\n"
	}
	revision := func(etag string) string { return "revision " + strings.Trim(etag, `"`) }
	want := "ann rules.rollback too much " + revision(second) + " " + revision(third) + "\n" +
		"bob rules.apply more " + revision(first) + " " + revision(second) + "\n" + "ann rules.apply begin revision 0 " + revision(first) + "\n"
	if text != want {
		t.Errorf("audit\n%swant\n%s", text, want)
	}
}

// What is wrong with a change is told, and changes nothing.
func TestRejected(t *testing.T) {
	w := onStore(t, inStore(t))
	w.rejected("ann", "", document(5, "a"), 428, v1.CodePrecondition, "GET /v1/rules")
	w.rejected("ann", "*", document(5, "a"), 400, v1.CodePrecondition, "one ETag")
	w.rejected("ann", `"0", "1"`, document(5, "a"), 400, v1.CodePrecondition, "one ETag")
	w.rejected("ann", `"7"`, document(5, "a"), 412, v1.CodeChanged, "")
	for _, who := range []string{"viewer", "operator"} {
		w.rejected(who, `"0"`, document(5, "a"), 403, v1.CodeForbidden, "needs the role admin")
		w.Call(who, http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{Why: "test"}, nil, 403)
	}
	w.Call("ann", http.MethodPut, "/v1/rules", `"0"`, v1.Change{Document: document(5, "a")}, nil, 422) // without a reason
	w.Call("ann", http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{}, nil, 422)
	w.fails("ann", http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{Why: "to nothing"}, 404, v1.CodeNoVersion, "")
	_, p := w.rejected("ann", `"0"`, "rules:\n- { name: a, key: [ip], limit: 5/x }\n- { nam: b }\n", 422, v1.CodeWrong, "document:2:")
	if len(p.Findings) < 3 || p.Findings[0].Line != 2 || p.Findings[0].Page == "" || p.Findings[0].Code == "" {
		t.Errorf("%+v", p.Findings)
	}
	w.rejected("ann", `"0"`, "revision: 7\nrules: []\n", 422, v1.CodeWrong, "remove this field")
	if etag, _ := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, nil, 200); etag != `"0"` {
		t.Errorf("something was changed: %s", etag)
	}
	var audit v1.Audit
	if w.Call("viewer", http.MethodGet, "/v1/audit", "", nil, &audit, 200); len(audit.Items) > 0 {
		t.Errorf("the audit has %+v", audit.Items)
	}
}

// A caller with a prefix changes rules whose names begin with it, and nothing else.
func TestPrefix(t *testing.T) {
	w := onStore(t, inStore(t))
	w.rejected("team", `"0"`, document(5, "a"), 403, v1.CodeForbidden, "this changes rule a")
	etag, _ := w.put("team", `"0"`, document(5, "team-a"), "mine")
	etag, _ = w.put("ann", etag, document(5, "a", "team-a", "b"), "all")
	for name, text := range map[string]string{
		"changed":  document(5, "a", "team-a") + document(6, "b")[len("rules:\n"):],
		"added":    document(5, "a", "team-a", "b", "c"),
		"removed":  document(5, "a", "team-a"),
		"moved":    document(5, "b", "team-a", "a"),
		"renamed":  document(5, "a", "team-a", "team-b"),
		"regions":  document(5, "a", "team-a", "b") + "regions: { eu: 1, us: 1 }\n",
		"all gone": "rules: []\n",
	} {
		if _, p := w.rejected("team", etag, text, 403, v1.CodeForbidden, "team may change rules whose names begin with team-"); t.Failed() {
			t.Fatalf("%s: %+v", name, p)
		}
	}
	etag, _ = w.put("team", etag, document(5, "a", "b")+document(7, "team-a", "team-b")[len("rules:\n"):], "mine again")
	etag, _ = w.put("ann", etag, document(9, "a", "b"), "all again")
	w.put("team", etag, document(9, "team-c", "a", "b"), "mine at last")
	w.Call("team", http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{Why: "test"}, nil, 403)
}

// With a prefix nobody changes limits of single keys of other rules, or lifts them.
func TestPrefixReach(t *testing.T) {
	w := onStore(t, inStore(t))
	const others = "rules:\n- { name: a, key: [client_ip], limit: 5/1m, overrides: [{ key: [192.0.2.1], limit: %d/1m }] }\n- { name: team-a, key: [client_ip], limit: 5/1m }\n%s"
	etag, _ := w.put("ann", `"0"`, fmt.Sprintf(others, 9, ""), "all")
	w.rejected("team", etag, fmt.Sprintf(others, 900, ""), 403, v1.CodeForbidden, "this changes rule a")
	for _, exempts := range []string{"", ", exempts: [a]", ", exempts: [team-a, a]"} {
		w.rejected("team", etag, fmt.Sprintf(others, 9, "- { name: team-x, mode: exempt, match: { path: / }"+exempts+" }\n"), 403, v1.CodeForbidden, "or what lifts it")
	}
	w.put("team", etag, fmt.Sprintf(others, 9, "- { name: team-x, mode: exempt, match: { path: / }, exempts: [team-a] }\n"), "mine")
}

// A check finds all mistakes with their places, and warnings, and takes nothing for that but a viewer.
func TestValidate(t *testing.T) {
	w := onStore(t, inStore(t))
	bad := "rules:\n- { name: a, key: [ip], limit: 5/x }\n- { name: b, limit: 5/1m }\n- nam: c\n"
	var found v1.Validated
	w.Call("viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: bad}, &found, 200)
	_, err := rulefile.Read(documentName, []byte(bad))
	if want := finding.Mistakes(documentName, err); found.OK || len(want) < 4 || fmt.Sprint(found.Findings) != fmt.Sprint(want) {
		t.Errorf("%+v\nwant\n%+v", found, want)
	}
	warned := "rules:\n- { name: login, match: { path: /login }, key: [{ header: x-user }], limit: 5/1m, on_failure: allow }\n"
	w.Call("viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: warned}, &found, 200)
	if !found.OK || found.Rules != 1 || found.Version == "" || len(found.Findings) == 0 || !found.Findings[0].Warning || found.Findings[0].Line != 2 {
		t.Errorf("%+v", found)
	}
	for _, text := range []string{"", "\x00", "{", "rules: []\n---\nrules: []\n", "a: &a [*a]\n", strings.Repeat("[", 100_000)} {
		w.Call("viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: text}, &found, 200)
		if found.OK || len(found.Findings) == 0 {
			t.Errorf("%.20q: %+v", text, found)
		}
	}
}

// Eight megabytes of rules are taken, more than that are rejected with a sentence, and a smaller document passes after it.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	w := onStore(t, inStore(t))
	comment := document(5, "a") + "#" + strings.Repeat("x", rulefile.MaxBytes-100) + "\n"
	etag, _ := w.put("ann", `"0"`, comment, "large")
	var rules v1.Rules
	if w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, &rules, 200); rules.Document != comment {
		t.Errorf("%d bytes came back, of %d", len(rules.Document), len(comment))
	}
	w.rejected("ann", etag, comment+comment, 422, v1.CodeWrong, "make fewer or shorter rules")
	w.Call("ann", http.MethodPut, "/v1/rules", etag, v1.Change{Document: strings.Repeat("x", maxBody), Why: "test"}, nil, 413)
	w.put("ann", etag, document(6, "a"), "small")
}

// hooked is a store whose reads call before.
type hooked struct {
	versions.KV
	before func(ctx context.Context) error
}

func (h *hooked) Get(ctx context.Context, key string) (consul.Pair, error) {
	if err := h.before(ctx); err != nil {
		return consul.Pair{}, err
	}
	return h.KV.Get(ctx, key)
}

func (h *hooked) List(ctx context.Context, prefix string) ([]consul.Pair, error) {
	if err := h.before(ctx); err != nil {
		return nil, err
	}
	return h.KV.List(ctx, prefix)
}

// Of viewers one at a time has the document parsed, whatever it is for. Admins wait for none of them.
func TestTurns(t *testing.T) {
	var inside, most atomic.Int64
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	w := onStore(t, &hooked{inStore(t), func(ctx context.Context) error {
		if api.Caller(ctx).Name == "viewer" {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			began <- struct{}{}
			<-goOn
		}
		return nil
	}})
	etag, _ := w.put("ann", `"0"`, document(5, "a"), "begin")
	var viewers sync.WaitGroup
	for range 3 {
		viewers.Go(func() { w.Call("viewer", http.MethodGet, "/v1/overrides", "", nil, nil, 200) })
	}
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if answer := w.Send(ctx, "viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: document(5, "a")}); answer.Code != 503 {
		t.Errorf("a check that waits for others: %d %s", answer.Code, answer.Body)
	}
	start := time.Now()
	w.put("ann", etag, document(6, "a"), "meanwhile")
	if took := time.Since(start); took > turnTime/2 {
		t.Errorf("an admin waits for viewers: %v", took)
	}
	close(goOn)
	viewers.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d documents at a time", n)
	}
}

// While the store is unavailable, each operation states that and what stays in force. Where Consul rejects, the answer
// states whose token lacks a right.
func TestStoreIsAway(t *testing.T) {
	var away error
	w := onStore(t, &hooked{inStore(t), func(context.Context) error { return away }})
	etag, _ := w.put("ann", `"0"`, document(5, "a"), "begin")
	away = errors.New("consul does not answer")
	for _, c := range []struct {
		method, path, ifMatch string
		body                  any
	}{
		{http.MethodGet, "/v1/rules", "", nil},
		{http.MethodGet, "/v1/rules/versions", "", nil},
		{http.MethodGet, "/v1/rules/versions/7", "", nil},
		{http.MethodGet, "/v1/audit", "", nil},
		{http.MethodPut, "/v1/rules", etag, v1.Change{Document: document(6, "a"), Why: "away"}},
		{http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{Why: "away"}},
		{http.MethodGet, "/v1/candidates", "", nil},
		{http.MethodPut, "/v1/overrides", "", override("a", `"6/1m"`, "192.0.2.1")},
		{http.MethodDelete, "/v1/overrides?rule=a&key=192.0.2.1&why=away", "", nil},
	} {
		w.fails("ann", c.method, c.path, c.ifMatch, c.body, 503, v1.CodeStore, away.Error())
	}
	var found v1.Validated
	if w.Call("viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: document(5, "a")}, &found, 200); !found.OK {
		t.Errorf("a check meanwhile: %+v", found)
	}
	away = &consul.RejectedError{Op: "write", Key: "weir/rules/manifest", Place: "x", Code: 403}
	w.fails("viewer", http.MethodGet, "/v1/rules", "", nil, 503, v1.CodeStore, "the token of the program")
}

// What somebody has damaged in the store is told, and a version on the newest that is kept repairs it.
func TestDamaged(t *testing.T) {
	kv := inStore(t)
	w := onStore(t, kv)
	w.put("ann", `"0"`, document(5, "a"), "begin")
	for _, key := range []string{"manifest", "chunks/nobodys"} {
		fatal.If(t, kv.Put(t.Context(), versions.Prefix+key, []byte("rules: []")))
	}
	w.fails("viewer", http.MethodGet, "/v1/rules", "", nil, 503, v1.CodeStore, "apply the rules again")
	etag, _ := w.rejected("ann", `"0"`, document(6, "a"), 412, v1.CodeChanged, "ann applied")
	w.rejected("team", etag, document(6, "team-a"), 503, v1.CodeStore, "apply the rules again") // a is nobody's to drop
	w.put("ann", etag, document(6, "a"), "repair")
	w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, nil, 200)
	if left, err := kv.Get(t.Context(), versions.Prefix+"chunks/nobodys"); left.Index != 0 || err != nil {
		t.Errorf("what nobody needs is left: %v, %v", left, err)
	}
}

// Rules in a file are read, and the API states where to change them. Without a file there are none.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	file := proc.WriteFile(t, filepath.Join(dir, "a.yaml"), document(5, "a"))
	proc.WriteFile(t, filepath.Join(dir, "b.yaml"), document(5, "b"))
	for path, want := range map[string]string{file: document(5, "a"), dir: "name: b", "": "rules: []"} {
		w := newWorld(t, nil, Config{Rules: path})
		var rules v1.Rules
		etag, _ := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, &rules, 200)
		if source := map[bool]string{true: "none", false: "file"}[path == ""]; rules.Source != source || !strings.Contains(rules.Document, want) || etag != "" {
			t.Errorf("%s: %s, %+v", path, etag, rules)
		}
		w.rejected("ann", etag, document(6, "a"), 409, v1.CodeReadOnly, path)
		w.Call("ann", http.MethodPost, "/v1/rules:rollback", "", v1.Rollback{Why: "test"}, nil, 409)
		w.Call("viewer", http.MethodGet, "/v1/rules/versions", "", nil, nil, 409)
		w.Call("viewer", http.MethodGet, "/v1/rules/versions/7", "", nil, nil, 409)
		var found v1.Validated
		if w.Call("viewer", http.MethodPost, "/v1/rules:validate", "", v1.Document{Document: "revision: 7\n" + document(5, "a")}, &found, 200); !found.OK {
			t.Errorf("a file may state its revision: %+v", found)
		}
	}
	busy := &operations{Config: Config{Rules: dir, InForce: func() v1.InForce { return v1.InForce{} }}, reads: make(chan struct{})} // never free
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := busy.get(ctx, nil); err == nil || !strings.Contains(err.Error(), "other documents are being checked") {
		t.Errorf("files are merged while another document is parsed: %v", err)
	}
	w := newWorld(t, nil, Config{Rules: filepath.Join(dir, "none.yaml")})
	if _, p := w.Call("viewer", http.MethodGet, "/v1/rules", "", nil, nil, 503); !strings.Contains(p.Detail, "none.yaml") {
		t.Errorf("%+v", p)
	}
}
