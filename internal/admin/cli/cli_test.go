package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fatih/color"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// Times are printed in the zone of this machine.
func init() { time.Local = time.UTC }

var day = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// status is of two regions. At fra1 not everything is well.
func status() *v1.Status {
	return &v1.Status{
		Seen: v1.Seen{Of: "all regions", WatchedMs: 5000}, InForce: v1.InForce{Version: "abc", Revision: 7},
		Missing: []string{"us"},
		Members: []v1.Member{
			{Kind: "aggregator", Name: "agg-0", Holder: "aa", Workers: 1, Version: "v1", RulesVersion: "abc", RulesRevision: 7, AgeMs: 90_061_000, LastReportMs: 200},
			{Kind: "region", Region: "eu", Name: "eu-0", Holder: "bb", Workers: 1, Version: "v1", RulesVersion: "abc", RulesRevision: 7, AgeMs: 61_000, Redis: "ok", ReservePerMille: 125},
			{Kind: "pop", Region: "eu", Name: "fra1", Holder: "cc", Workers: 4, Version: "v1", RulesVersion: "old", RulesRevision: 6, AgeMs: 61_000, Keys: 99, Places: 100, DegradedMs: 1500, Error: "tls: \x1b[31mno", Problem: "has rules 6, not 7; tls: \x1b[31mno"},
		},
		Rules: []v1.Use{
			{Rule: "login", Matched: 40, Admitted: 30, Denied: 10, AdmittedPerSecond: 1.5, DeniedPerSecond: 0.5, Used: 1.6},
			{Rule: "idle", Hint: v1.HintMatchedNothing},
			{Rule: "nokey", NoKey: 9, Hint: v1.HintKeyMissing},
		},
	}
}

// evil is a key that would clear the screen.
const evil = "a\x1b[2J\u202eb \"c\" é|\\xff"

// serve answers as an installation does. What was asked is in calls.
func serve(t *testing.T, s *v1.Status) (at Installation, calls *[]string) {
	t.Helper()
	calls = new([]string)
	until := day.Add(time.Hour)
	counter := []v1.Counter{{Rule: "login", Counted: evil, Limit: 5, Remaining: 2, Out: 1, OutMS: 1500, ResetMS: 61_000, OwnLimit: true, Until: &until}, {Rule: "login@1d", Unlimited: true}}
	answers := map[string]any{
		"GET /v1/status":      s,
		"GET /v1/top":         v1.Top{Keys: []v1.Rate{{Rule: "login", Override: "vip", Key: evil, From: "fra1", PerSecond: 12.25, Over: 1}}, Rules: s.Rules},
		"POST /v1/keys:peek":  v1.Counters{Items: counter, PoPs: []v1.Decision{{From: "fra1", Rule: "login", Outcome: "rejected", RetryAfterMs: 1500, When: day}, {From: "ham2", Rule: "login", Outcome: "admitted", Remaining: 3, When: day}}},
		"POST /v1/keys:reset": v1.Counters{Items: counter[:1]},
		"POST /v1/explain": v1.Explanation{RejectedBy: "login", Rules: []v1.Explained{
			{Rule: "overload", Mode: "enforce", Applies: true, Class: "critical", Counted: "ann"},
			{Rule: "login", Mode: "enforce", Applies: true, Override: "vip", Counted: "ann", Cost: 2, Counters: counter[:1]}, {Rule: "api", Mode: "enforce", Failed: "header x-tier"},
			{Rule: "open", Mode: "enforce", ExemptBy: "all"}, {Rule: "free", Mode: "enforce", Override: "2", Unlimited: true},
			{Rule: "perhaps", Mode: "enforce", Unknown: true, Needs: []string{"header x-b", "client_ip"}},
		}},
		"GET /v1/overrides":       v1.Amendments{Items: []amend.Entry{{Kind: amend.Override, Amendment: amend.Amendment{Rule: "login", Key: []string{"ann", evil}, Limit: json.RawMessage(`"50/1m"`), Until: until, Why: "sale"}, When: day, Who: "ann"}}},
		"GET /v1/candidates":      v1.Amendments{Items: []amend.Entry{{Kind: amend.Candidate, Amendment: amend.Amendment{Rule: "login", Limit: json.RawMessage(`{"count":5}`), Until: until, Why: "try"}, When: day, Who: "bob", Problem: "no rule login"}}},
		"PUT /v1/overrides":       v1.Amended{Version: v1.Version{Revision: 8, Amends: "override of login ann: 50/1m"}, Before: "override of login ann: 9/1m"},
		"DELETE /v1/overrides":    v1.Amended{Version: v1.Version{Revision: 9, Amends: "override of login ann removed"}},
		"PUT /v1/candidates":      v1.Amended{Version: v1.Version{Revision: 10, Amends: "candidate of login: 5/1m"}},
		"DELETE /v1/candidates":   v1.Amended{Version: v1.Version{Revision: 11, Amends: "candidate of login removed"}},
		"GET /v1/rules":           v1.Rules{Document: "rules: [secret]"},
		"POST /v1/rules:validate": v1.Validated{OK: true, Findings: []finding.Finding{{Path: "rules[0].key", Code: "client-header", Page: "docs/warnings.md#client-header", Reason: "a client can set it", Warning: true}}},
		"GET /metrics":            json.RawMessage("1"),
		"GET /v1/audit":           v1.Audit{Items: []v1.AuditEntry{{ID: "7-x", When: day, Who: "ann", Role: "admin", What: "rules.apply", On: evil, Why: "two\nlines <b>"}}},
		"GET /readyz":             json.RawMessage("2"),
		"GET /v1/stream":          nil,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*calls = append(*calls, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		answer, known := answers[r.Method+" "+r.URL.Path]
		switch {
		case !known:
			t.Errorf("%s %s was called", r.Method, r.URL)
		case r.URL.Path == "/v1/stream":
			text, _ := json.Marshal(v1.Decisions{Items: []v1.Decision{
				{When: day, Rule: "login", Key: evil, From: "fra1", Outcome: "rejected", Override: "vip", RetryAfterMs: 1500}, {When: day, Rule: "login", Key: "ann", From: "fra1", Outcome: "admitted", Remaining: 3},
			}})
			fmt.Fprintf(w, "event: rules\ndata: {}\n\nevent: decisions\ndata: %s\n\nevent: problem\ndata: {\"detail\":\"redis is away\"}\n\n", text)
		default:
			_ = json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(server.Close)
	return Installation{Admin: strings.TrimPrefix(server.URL, "http://")}, calls
}

type command interface{ Run(stdout io.Writer) error }

// on is a command on a kind of entries.
type on struct {
	kind
	command interface{ Run(io.Writer, kind) error }
}

func (o on) Run(stdout io.Writer) error { return o.command.Run(stdout, o.kind) }

// Each command prints what testdata/NAME.golden has.
func TestCommands(t *testing.T) {
	at, calls := serve(t, status())
	list := func(output string) listing { return listing{at, Output{output}} }
	by := change{at, "a sale"}
	login := of{Rule: "login", Values: []string{"ann", "eu"}}
	for name, c := range map[string]command{
		"status": &Status{listing: list("text")}, "status_wide": &Status{listing: list("wide")}, "status_json": &Status{listing: list("json")},
		"top":            &Top{listing: list("text"), By: "key", Limit: 3, EachPop: true},
		"top_rule":       &Top{listing: list("wide"), By: "rule", Limit: 3},
		"tap":            &Tap{Installation: at, Rule: "login", Key: "a&b", Outcome: "rejected", PerSecond: 7, For: Span(time.Minute), Output: "text"},
		"tap_json":       &Tap{Installation: at, PerSecond: 7, For: Span(time.Minute), Output: "json"},
		"explain":        &Explain{URL: "/login?a=b", Method: "POST", Header: []string{"X-A: 1", "X-A:2"}, Client: "192.0.2.1", Claim: map[string]string{"sub": "ann"}, Metadata: map[string]string{"ai:model": "large"}, listing: list("text")},
		"explain_line":   &Explain{Line: `{"path":"/login?a=b","host":"h","headers":{"x-a":null},"client":"192.0.2.1","details":"weir-denied:login","rule":"login","status":429}`, Region: "eu", listing: list("text")},
		"explain_wide":   &Explain{Line: `{"shadow":"a\u001b"}`, listing: list("wide")},
		"explain_header": &Explain{URL: "/", Header: []string{"x-a"}, listing: list("text")},
		"peek":           &Peek{counted{"login", []string{"ann", "eu"}}, true, list("text")}, "peek_counted": &Peek{counted{"login", []string{"ann|eu"}}, false, list("wide")},
		"reset":           &Reset{counted{"login", []string{"ann"}}, by, Output{"text"}},
		"override_set":    on{overrides, &setAmendment{login, by, []string{"50/1m"}, End{day}, "vip", Format{}}},
		"override_limits": on{overrides, &setAmendment{of{Rule: "login", Hash: "h1"}, by, []string{"50/1m", `{"count":5,"per":"1d"}`}, End{day}, "", Format{}}},
		"override_list":   on{overrides, &listAmendments{list("text")}}, "override_rm": on{overrides, &rmAmendment{login, by, Format{}}},
		"candidate_set": on{candidates, &setAmendment{of{Rule: "login"}, by, []string{"5/1m"}, End{day}, "", Format{}}}, "candidate_list": on{candidates, &listAmendments{list("wide")}}, "candidate_rm": on{candidates, &rmAmendment{of{Rule: "login"}, by, Format{}}},
		"override_set_json": on{overrides, &setAmendment{login, by, []string{"50/1m"}, End{day}, "", Format{"json"}}},
		"audit":             &Audit{5, "8-x", list("wide")}, "audit_json": &Audit{listing: list("json")}, "override_list_json": on{overrides, &listAmendments{list("json")}},
	} {
		*calls = nil
		var out bytes.Buffer
		err := c.Run(&out)
		got := fmt.Sprintf("-- asked\n%s\n-- printed\n%s-- error %v\n", strings.Join(*calls, "\n"), &out, err)
		golden.Same(t, filepath.Join("testdata", name+".golden"), strings.ReplaceAll(got, at.Admin, "ADDRESS"))
		if strings.ContainsAny(out.String(), "\x1b\u202e") {
			t.Errorf("%s prints what a terminal obeys", name)
		}
	}
}

// A new version is waited for, and who does not get it is named.
func TestWait(t *testing.T) {
	t.Parallel()
	s := status()
	wait := func() (string, error) {
		at, _ := serve(t, s)
		var out bytes.Buffer
		err := at.follow(10*time.Second, func(ctx context.Context, c *client.Client) error { return Wait(ctx, c, 7, 5*time.Second, &out) })
		return out.String(), err
	}
	if out, err := wait(); !errors.Is(err, ErrUnwell) || out != "Applied. Revision 7 is in force on 1 aggregator replica and 1 region replica. Not in force on: region us (not heard), pop eu fra1 (has rules 6, not 7; tls: \\x1b[31mno).\n" {
		t.Errorf("%s%v", out, err)
	}
	s = status() // the server may still answer with the other one
	s.Missing, s.Members[2].RulesRevision = nil, 8
	if out, err := wait(); err != nil || out != "Applied. Revision 7 is in force on 1 aggregator replica, 1 region replica and 1 PoP.\n" {
		t.Errorf("%s%v", out, err)
	}
}

// lines takes what is printed until it has enough of it.
type lines struct {
	bytes.Buffer
	most int
}

func (l *lines) Write(p []byte) (int, error) {
	if l.most--; l.most == 0 {
		return 0, io.ErrClosedPipe
	}
	return l.Buffer.Write(p)
}

// With --watch a command prints its answer again, problems or not, until it cannot. On a terminal it has colours, in columns
// that are where they are without, and the newest answer alone.
func TestTerminal(t *testing.T) {
	at, _ := serve(t, status())
	var once bytes.Buffer
	show := &Status{listing: listing{at, Output{"text"}}}
	if err := show.Run(&once); !errors.Is(err, ErrUnwell) {
		t.Fatal(err)
	}
	show.Watch = true
	again := &lines{most: 3}
	if err := show.Run(again); !errors.Is(err, io.ErrClosedPipe) || again.String() != once.String()+"\n"+once.String()+"\n" {
		t.Errorf("%v, printed\n%s", err, again)
	}
	color.NoColor = false
	defer func() { color.NoColor = true }()
	again = &lines{most: 2}
	if err := show.Run(again); !errors.Is(err, io.ErrClosedPipe) || !strings.HasPrefix(again.String(), "\x1b[H\x1b[2J") {
		t.Errorf("%v, printed\n%q", err, again.String())
	}
	if !strings.Contains(again.String(), red+`has rules 6, not 7; tls: \x1b[31mno`+plain) {
		t.Errorf("the problem is not red in\n%q", again.String())
	}
	text := regexp.MustCompile(`\x1b\[(\d\dm|H|2J)`).ReplaceAllString(again.String(), "")
	if strings.ReplaceAll(text, " \n", "\n") != strings.ReplaceAll(once.String(), " \n", "\n")+"\n" {
		t.Errorf("without colours\n%s\nwant\n%s", text, &once)
	}
}

// All is well if nothing is wrong.
func TestWell(t *testing.T) {
	s := status()
	s.Missing, s.Members = nil, s.Members[:2]
	at, _ := serve(t, s)
	var out bytes.Buffer
	if err := (&Status{listing: listing{at, Output{"text"}}}).Run(&out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	s.InForce = v1.InForce{}
	at, _ = serve(t, s)
	if _ = (&Status{listing: listing{at, Output{"text"}}}).Run(&out); !strings.Contains(out.String(), ", no rules are in force.\n") {
		t.Errorf("without rules: %s", &out)
	}
	out.Reset()
	if err := (&Status{Strict: true, listing: listing{at, Output{"text"}}}).Run(&out); !errors.Is(err, ErrUnwell) || !strings.Contains(out.String(), "no request matched it") {
		t.Errorf("with warnings and --strict: %v\n%s", err, &out)
	}
}

// The archive has what helps, and neither keys nor secrets.
func TestDebug(t *testing.T) {
	at, _ := serve(t, status())
	file := filepath.Join(t.TempDir(), "x.tar.gz")
	var out bytes.Buffer
	fatal.If(t, (&Debug{file, at}).Run(&out))
	f := fatal.Get(os.Open(file))(t)
	defer func() { _ = f.Close() }()
	z := fatal.Get(gzip.NewReader(f))(t)
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(r)
		names = append(names, strings.TrimPrefix(h.Name, "weir-debug/"))
		if len(text) == 0 || bytes.Contains(text, []byte("secret")) {
			t.Errorf("%s has\n%s", h.Name, text)
		}
	}
	if want := "metrics.txt ready.txt status.json"; strings.Join(names, " ") != want {
		t.Errorf("%q, want %s", names, want)
	}
	nobody, gone := Installation{Admin: "127.0.0.1:1"}, filepath.Join(t.TempDir(), "none.tar.gz")
	if err := (&Debug{gone, nobody}).Run(&out); err == nil || !strings.Contains(err.Error(), "metrics.txt: ") {
		t.Errorf("of a program that does not run: %v", err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an archive of nothing: %v", err)
	}
	if err := (&Debug{file, at}).Run(&out); err == nil || !strings.Contains(err.Error(), "name another file") {
		t.Errorf("an archive that is there: %v", err)
	}
}
