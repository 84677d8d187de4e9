package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/sse"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/apitest"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// world is an API with one operation to read and one to change.
type world struct {
	*API
	*apitest.Callers // nil: the API needs no tokens
	t                *testing.T
	done             []string // who has changed something
}

type nothing struct{}

type said struct {
	Body struct {
		Text string `json:"text" maxLength:"5"`
	}
}

func newWorld(t *testing.T, c Config) *world {
	t.Helper()
	w := &world{t: t}
	c.Log, c.Metrics = slog.New(slog.DiscardHandler), telemetry.NewRegistry("test")
	if c.Callers != nil { // one of each role, named as it, and one whose token has ended
		w.Callers = apitest.NewCallers(t, map[string]string{
			"viewer": "role: viewer", "operator": "role: operator, until: 2100-01-01T00:00:00Z", "admin": "role: admin",
			"former": "role: admin, until: 2026-01-01T00:00:00Z", "team": "role: admin, prefix: team-",
		})
		c.Callers = w.List
	}
	w.API = New(c)
	Add(w.API, access.Viewer, huma.Operation{OperationID: "read", Method: http.MethodGet, Path: "/v1/read"},
		func(context.Context, *nothing) (*said, error) { return new(said), nil })
	Add(w.API, access.Operator, huma.Operation{OperationID: "change", Method: http.MethodPost, Path: "/v1/change", MaxBodyBytes: 1000},
		func(ctx context.Context, in *said) (*nothing, error) {
			w.done = append(w.done, Caller(ctx).Name)
			w.Record(ctx, v1.AuditEntry{What: "change", After: in.Body.Text})
			return nil, nil
		})
	return w
}

// call calls as on a loopback address, with headers as names and values.
func (w *world) call(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return apitest.Call(w.t.Context(), h, method, path, body, headers...)
}

// is checks that an answer is the problem that is wanted. Where the status is of a success, the body is the text that is
// wanted, if any.
func (w *world) is(answer *httptest.ResponseRecorder, what string, status int, code, text string) {
	w.t.Helper()
	if body := strings.TrimSpace(answer.Body.String()); answer.Code == status && status/100 == 2 && (text == "" || body == text) {
		return
	}
	var p v1.Problem
	err := json.Unmarshal(answer.Body.Bytes(), &p)
	if kind := answer.Header().Get("Content-Type"); err != nil || kind != v1.ProblemType || answer.Code != status || p.Status != status || p.Code != code ||
		p.Title != http.StatusText(status) || !strings.Contains(p.Error(), text) {
		w.t.Errorf("%s: %d %s %s (%v); want %d %s with %q", what, answer.Code, kind, answer.Body, err, status, code, text)
	}
}

// Who has no token, a wrong one, one that has ended or of another role is told so, and changes nothing. Others are told
// their name, role, prefix and end.
func TestTokens(t *testing.T) {
	w := newWorld(t, Config{Secure: true, Callers: new(access.List)})
	h := w.Handler()
	for _, c := range []struct {
		what, path, authorization string
		status                    int
		code, text                string
	}{
		{"none", "/v1/read", "", 401, v1.CodeNobody, "weir admin token"},
		{"wrong", "/v1/read", "Bearer weir_wrong", 401, v1.CodeNobody, "no such token"},
		{"another scheme", "/v1/read", strings.Replace(w.Bearer["admin"], "Bearer", "Basic", 1), 401, v1.CodeNobody, "Bearer TOKEN"},
		{"over", "/v1/read", w.Bearer["former"], 401, v1.CodeOver, "former ended at 2026-01-01"},
		{"none, to nothing", "/v1/nothing", "", 401, v1.CodeNobody, "weir admin token"},
		{"none, to the description", "/v1/openapi.yaml", "", 401, v1.CodeNobody, "weir admin token"},
		{"viewer", "/v1/change", w.Bearer["viewer"], 403, v1.CodeForbidden, "viewer is viewer, and this needs the role operator"},
		{"nothing", "/v1/nothing", w.Bearer["admin"], 404, v1.CodeUnknown, "there is no"},
		{"a field too much", "/v1/change", w.Bearer["admin"], 422, "", "body.more"},
		{"a parameter too much", "/v1/read?x=1", w.Bearer["viewer"], 422, "", "query.x"},
		{"viewer's name", "/v1/whoami", w.Bearer["viewer"], 200, "", `{"name":"viewer","role":"viewer"}`},
		{"operator's end", "/v1/whoami", w.Bearer["operator"], 200, "", `{"name":"operator","role":"operator","until":"2100-01-01T00:00:00Z"}`},
		{"team's name", "/v1/whoami", w.Bearer["team"], 200, "", `{"name":"team","role":"admin","prefix":"team-"}`},
	} {
		method, body := http.MethodGet, ""
		if c.path == "/v1/change" {
			method, body = http.MethodPost, `{"text":"x"}`
			if c.status == 422 {
				body = `{"text":"x","more":"secret"}`
			}
		}
		answer := w.call(h, method, c.path, body, "Authorization", c.authorization)
		w.is(answer, c.what, c.status, c.code, c.text)
		if (c.status == 401) != (answer.Header().Get("WWW-Authenticate") != "") || strings.Contains(answer.Body.String(), "secret") {
			t.Errorf("%s: %v %s", c.what, answer.Header(), answer.Body)
		}
	}
	if len(w.done) > 0 {
		t.Errorf("%v have changed something", w.done)
	}
	for _, name := range []string{"operator", "admin"} {
		w.is(w.call(h, http.MethodPost, "/v1/change", `{"text":"x"}`, "Authorization", w.Bearer[name]), name, 204, "", "")
	}
	answer := w.call(h, http.MethodGet, "/v1/read", "", "Authorization", w.Bearer["viewer"])
	if answer.Code != 200 || len(w.done) != 2 {
		t.Errorf("read: %d %s, %v", answer.Code, answer.Body, w.done)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := answer.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Where others reach the port, too, calls to a loopback address are of this machine if that is wanted.
func TestLocal(t *testing.T) {
	for _, c := range []struct {
		local    bool
		at, host string
		status   int
		code     string
	}{
		{true, "127.0.0.1", "127.0.0.1", 200, ""},
		{true, "::1", "localhost", 200, ""},
		{true, "127.0.0.1", "evil.example.com", 403, v1.CodeHost},
		{true, "192.0.2.1", "127.0.0.1", 403, v1.CodeNotServed},
		{true, "", "127.0.0.1", 403, v1.CodeNotServed},
		{false, "127.0.0.1", "127.0.0.1", 403, v1.CodeNotServed},
	} {
		w := newWorld(t, Config{Local: c.local})
		h := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			at := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.at)})
			w.Handler().ServeHTTP(out, r.WithContext(at))
		})
		answer := w.call(h, http.MethodGet, "/v1/read", "", "Host", c.host)
		w.is(answer, c.at, c.status, c.code, "")
		if reason := w.Closed(); (reason == "") != c.local {
			t.Errorf("closed: %q", reason)
		}
	}
}

// On this machine everybody may do everything, but not a page in a browser.
func TestLoopback(t *testing.T) {
	w := newWorld(t, Config{Loopback: true})
	h := w.Handler()
	for _, c := range []struct {
		headers []string
		status  int
		code    string
	}{
		{[]string{"Host", "evil.example.com"}, 403, v1.CodeHost},
		{[]string{"Host", "evil.example.com:8090"}, 403, v1.CodeHost},
		{[]string{"Host", "127.0.0.1.evil.example.com"}, 403, v1.CodeHost},
		{[]string{"Origin", "https://evil.example.com"}, 403, v1.CodeOrigin},
		{[]string{"Origin", "null"}, 403, v1.CodeOrigin},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403, v1.CodeOrigin},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403, v1.CodeOrigin},
		{[]string{"Content-Type", "text/plain"}, 415, ""},
		{[]string{"Content-Type", "application/x-www-form-urlencoded"}, 415, ""},
		{[]string{"Host", "localhost:8090"}, 204, ""},
		{[]string{"Host", "[::1]:8090"}, 204, ""},
		{[]string{"Host", "LOCALHOST", "Sec-Fetch-Site", "same-origin"}, 204, ""},
		{[]string{"Origin", "http://127.0.0.1:8090"}, 204, ""},
		{[]string{"Content-Type", "application/json; charset=utf-8"}, 204, ""},
	} {
		answer := w.call(h, http.MethodPost, "/v1/change", `{"text":"x"}`, c.headers...)
		w.is(answer, fmt.Sprint(c.headers), c.status, c.code, "")
	}
	if want := []string{"local", "local", "local", "local", "local"}; fmt.Sprint(w.done) != fmt.Sprint(want) {
		t.Errorf("%v have changed something, want %v", w.done, want)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		w.is(w.call(h, http.MethodGet, "/v1/read", "", "Sec-Fetch-Site", site), "a page reads", 403, v1.CodeOrigin, site)
	}
	page := w.Page(http.NotFoundHandler())
	w.is(w.call(page, http.MethodGet, "/", "", "Host", "evil.example.com:8090"), "the page under another name", 403, v1.CodeHost, "evil.example.com")
	if answer := w.call(page, http.MethodGet, "/", "", "Sec-Fetch-Site", "cross-site"); answer.Code != 404 { // a link to it
		t.Errorf("the page: %d %s", answer.Code, answer.Body)
	}
	w.is(w.call(h, http.MethodPost, "/v1/change", strings.Repeat(" ", 1001)), "large", 413, "", "")
	w.is(w.call(h, http.MethodPost, "/v1/change", "{"), "no JSON", 400, "", "")
}

// Another path that is guarded, such as that of profiles, is open to those alone who have all rights in the API.
func TestGuard(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, Caller(r.Context()).Name) })
	for name, of := range map[string]struct {
		config         Config
		token          string
		status         int
		code, contains string
	}{
		"TLS, and no tokens":           {config: Config{Secure: true}, status: 403, code: v1.CodeNotServed, contains: "--admin-tokens"},
		"this machine":                 {config: Config{Loopback: true}, status: 200, contains: "local"},
		"tokens, and none":             {config: Config{Loopback: true, Callers: new(access.List)}, status: 401, code: v1.CodeNobody},
		"an operator":                  {config: Config{Loopback: true, Callers: new(access.List)}, token: "operator", status: 403, code: v1.CodeForbidden},
		"an admin with a prefix":       {config: Config{Loopback: true, Callers: new(access.List)}, token: "team", status: 403, code: v1.CodeForbidden, contains: "team-"},
		"an admin":                     {config: Config{Loopback: true, Callers: new(access.List)}, token: "admin", status: 200, contains: "admin"},
		"an admin without TLS, others": {config: Config{Callers: new(access.List)}, token: "admin", status: 403, code: v1.CodeNotServed},
	} {
		w := newWorld(t, of.config)
		headers := []string{"X", "x"}
		if of.token != "" {
			headers = append(headers, "Authorization", w.Bearer[of.token])
		}
		answer := w.call(w.Guard(next), http.MethodPost, "/debug/pprof/symbol", "", headers...)
		w.is(answer, name, of.status, of.code, of.contains)
	}
}

// The audit has who changed what, page by page; where none is kept, that is said.
func TestAudit(t *testing.T) {
	const changes = 60
	none := newWorld(t, Config{Loopback: true})
	none.Record(t.Context(), v1.AuditEntry{What: "test"})
	none.is(none.call(none.Handler(), http.MethodGet, "/v1/audit", ""), "no audit", 409, v1.CodeReadOnly, "in its log")
	kept := local.New(filepath.Join(t.TempDir(), "rules.store"))
	t.Cleanup(func() { _ = kept.Close() })
	w := newWorld(t, Config{Loopback: true, Callers: new(access.List), Trail: versions.On(kept)})
	h, operator := w.Handler(), w.Bearer["operator"]
	ctx := context.WithValue(t.Context(), callerKey{}, access.Caller{Name: "ann", Role: access.Admin})
	for i := range changes {
		w.Record(ctx, v1.AuditEntry{What: "test", On: fmt.Sprint(i), Why: strings.Repeat("y", 2000)})
	}
	w.is(w.call(h, http.MethodPost, "/v1/change", `{"text":"x"}`, "Authorization", operator), "change", 204, "", "")
	var all []v1.AuditEntry
	for next := ""; ; {
		answer := w.call(h, http.MethodGet, "/v1/audit?limit=25&before="+next, "", "Authorization", operator)
		var page v1.Audit
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != 200 {
			t.Fatalf("%d %s (%v)", answer.Code, answer.Body, err)
		}
		all = append(all, page.Items...)
		if next = page.Next; next == "" {
			break
		}
	}
	if len(all) != changes+1 || all[0].Who != "operator" || all[0].What != "change" || all[0].After != "x" || all[1].On != "59" || all[1].Who != "ann" || len(all[1].Why) != maxText ||
		all[changes].On != "0" {
		t.Errorf("%d entries, %+v ... %+v", len(all), all[:min(2, len(all))], all[max(0, len(all)-1):])
	}
	w.is(w.call(h, http.MethodGet, "/v1/audit?limit=0", "", "Authorization", operator), "a page of nothing", 422, "", "query.limit")
}

// Streams end when the process does, or the token of the caller; other calls do not.
func TestEnd(t *testing.T) {
	for _, want := range []string{StreamPath + " context canceled", "/v1/slow <nil>"} {
		for _, revoked := range []bool{false, true} {
			w := newWorld(t, Config{Loopback: true, Callers: new(access.List)})
			path, _, _ := strings.Cut(want, " ")
			ended := make(chan string)
			Add(w.API, access.Viewer, huma.Operation{OperationID: path, Method: http.MethodGet, Path: path}, func(ctx context.Context, _ *nothing) (*nothing, error) {
				ended <- "began"
				wait := 3 * admitEvery / 2
				if path == StreamPath {
					wait = time.Minute // a fault must not hang the test
				}
				repeat.Sleep(ctx, wait)
				ended <- fmt.Sprint(path, " ", ctx.Err())
				return nil, nil
			})
			go w.call(w.Handler(), http.MethodGet, path, "", "Authorization", w.Bearer["viewer"])
			<-ended
			if revoked {
				w.Revoke()
			} else {
				w.End()
			}
			if got := <-ended; got != want {
				t.Errorf("revoked: %v: %s, want %s", revoked, got, want)
			}
		}
	}
}

// A stream in which nothing happens for longer than an event may take goes on, over HTTP/2 as well. One whose client
// reads nothing ends.
func TestSlowStreams(t *testing.T) {
	const most = 2 * time.Second // what comes to a client that reads has this time, on a busy machine too
	before := sse.WriteTimeout
	sse.WriteTimeout = most
	t.Cleanup(func() { sse.WriteTimeout = before })
	serve := func(do func(ctx context.Context, send sse.Sender)) *httptest.Server {
		w := newWorld(t, Config{Loopback: true})
		AddStream(w.API, access.Viewer, huma.Operation{OperationID: "stream", Method: http.MethodGet, Path: StreamPath}, map[string]any{"text": ""},
			func(ctx context.Context, _ *nothing, send sse.Sender) { do(ctx, send) })
		server := httptest.NewUnstartedServer(w.Handler())
		server.EnableHTTP2 = true
		t.Cleanup(server.Close)
		return server
	}
	quiet := serve(func(ctx context.Context, send sse.Sender) {
		_ = send.Data("one") // the client reads what came
		repeat.Sleep(ctx, most*5/4)
		_ = send.Data("two")
	})
	quiet.StartTLS()
	answer := fatal.Get(quiet.Client().Get(quiet.URL + StreamPath))(t)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.ProtoMajor != 2 || !strings.Contains(string(text), "two") {
		t.Errorf("HTTP/%d: %q, %v", answer.ProtoMajor, text, err)
	}

	ended := make(chan struct{})
	unread := serve(func(_ context.Context, send sse.Sender) {
		for {
			if send.Data(strings.Repeat("x", 1<<20)) != nil {
				close(ended)
				return
			}
		}
	})
	unread.Start()
	client := fatal.Get(net.Dial("tcp", unread.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = client.Close() })
	_, err = io.WriteString(client, "GET "+StreamPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
	fatal.If(t, err)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the stream has not ended")
	}
}
