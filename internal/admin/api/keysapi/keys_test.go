package keysapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/apitest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// world is the operations of a region on counters in memory. viewer and operator are what they are called, team is an
// operator who may only change rules that begin with team-.
type world struct {
	*apitest.World
	service   *service.Service
	store     engine.Store
	collector *live.Collector
}

const rules = `rules:
- { name: open, mode: exempt, match: { path: /open }, exempts: [login] }
- name: login
  match: { method: POST, path: [/login, /open] }
  key: [client_ip, { header: x-user }]
  limits: [5/1h, 20/1d]
  consistency: leased
  algorithm: fixed_window
  overrides:
  - { name: gold, when: { header: { x-tier: gold } }, limits: [50/1h, 200/1d] }
  - { name: deal, key: [192.0.2.7, acme], limits: [7/1h, 70/1d], until: 2090-01-01T00:00:00Z }
- { name: hidden, key: [{ header: x-user }], limit: 5/1h, hash: true, cost: { header: x-cost, max: 5 } }
- { name: all, key: [], limit: 100/1h, match: { region: eu, claim: { plan: free }, metadata: { ai:model: large } } }
- { name: pop, key: [client_ip], limit: 5/1m, scope: pop, match: { path: /pop } }
`

func newWorld(t *testing.T, text string, divides bool) *world {
	t.Helper()
	proc.AwaitWindow(time.Hour, 20*time.Second) // or a window of the rules ends within the test
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewRegistry("test")
	w := &world{store: memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 24})}
	w.service = service.NewService(service.Config{Store: w.store, Divides: divides, Metrics: metrics, Log: log})
	fatal.If(t, w.service.SetSecrets([]rule.Secret{{1, 2, 3}}))
	if text != "" {
		fatal.If(t, w.service.SetRules(fatal.Get(rulefile.Parse("rules", []byte(text)))(t)))
	}
	callers := apitest.NewCallers(t, map[string]string{
		"operator": "role: operator", "viewer": "role: viewer", "team": "role: operator, prefix: team-", "admin": "role: admin", "part": "role: admin, prefix: team-",
	})
	kv := local.New(filepath.Join(t.TempDir(), "rules.store"))
	t.Cleanup(func() { _ = kv.Close() })
	a := api.New(api.Config{Loopback: true, Callers: callers.List, Trail: versions.On(kv), Log: log, Metrics: metrics})
	w.collector = live.New(live.Config{Region: "eu", Reports: new(live.Memory), Watches: new(live.Memory)})
	Add(a, Config{Service: w.service, Collector: w.collector, Region: "eu", InForce: func() v1.InForce { return v1.InForce{Version: "abc"} }, Forget: w.forget})
	w.World = &apitest.World{Callers: callers, T: t, Handler: a.Handler()}
	return w
}

// forget takes eu for dead; us called just now.
func (w *world) forget(_ context.Context, region string) error {
	if region != "eu" {
		return fmt.Errorf("%s called just now", region)
	}
	return nil
}

// An admin declares a region dead, unless it is alive, and the audit has that.
func TestForget(t *testing.T) {
	w := newWorld(t, rules, true)
	const path = "/v1/regions:forget"
	for _, who := range []string{"operator", "part"} {
		w.fails(who, path, v1.Region{Region: "eu"}, 403, v1.CodeForbidden, "")
	}
	w.fails("admin", path, v1.Region{Region: "us"}, 409, v1.CodeRegion, "just now")
	w.call("admin", path, v1.Region{Region: "eu"}, nil, 204)
	var audit v1.Audit
	if w.call("admin", "/v1/audit", nil, &audit, 200); len(audit.Items) != 1 || audit.Items[0].What != "region.dead" || audit.Items[0].On != "eu" || audit.Items[0].Who != "admin" {
		t.Errorf("%+v", audit)
	}
}

// call sends a body, or reads.
func (w *world) call(who, path string, body, into any, status int) (p v1.Problem) {
	w.T.Helper()
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	_, p = w.Call(who, method, path, "", body, into, status)
	return p
}

// fails sends a body that has to be answered with this problem.
func (w *world) fails(who, path string, body any, status int, code, text string) {
	w.T.Helper()
	if p := w.call(who, path, body, nil, status); p.Code != code || !strings.Contains(p.Error(), text) {
		w.T.Errorf("%s %+v of %s: %+v, want %s with %q", path, body, who, p, code, text)
	}
}

// hidden is a key of the rule hidden.
func (w *world) hidden(user string) string {
	set, secret := w.service.InForce()
	i, _ := set.Find("hidden")
	return string(set.Rule(i).HashedKeyOf([]string{user}, secret))
}

// spend spends units of a counter.
func (w *world) spend(rule, key string, units int64) {
	w.T.Helper()
	asks := []engine.Ask{{Policy: w.service.Policy(rule, 0, []byte(key)), Key: []byte(key), Want: lease.Want{Need: units, Waiting: 1, Want: units}}}
	grants := make([]lease.Grant, 1)
	w.store.Acquire(w.T.Context(), asks, grants)
	if grants[0].Granted != units {
		w.T.Fatalf("%+v", grants)
	}
}

// What a counter holds is told, of a rule that hashes its keys by the plain key, and a reset is in the audit with what was
// there. All else about counters is tested in internal/service.
func TestPeekAndReset(t *testing.T) {
	w := newWorld(t, rules, false)
	w.spend("login@1d", "192.0.2.1|bob", 4)
	w.spend("hidden", w.hidden("eve"), 5)
	var got v1.Counters
	w.call("operator", "/v1/keys:peek", v1.Key{Rule: "login", Counted: "192.0.2.1|bob"}, &got, 200)
	if len(got.Items) != 2 || got.Items[0].Remaining != 5 || got.Items[1].Rule != "login@1d" || got.Items[1].Counted != "192.0.2.1|bob" || got.Items[1].Remaining != 16 || got.Items[1].Out != 4 {
		t.Errorf("%+v", got)
	}
	w.call("operator", "/v1/keys:peek", v1.Key{Rule: "hidden", Counted: "eve"}, &got, 200)
	if got.Items[0].Counted != w.hidden("eve") || got.Items[0].Remaining != 0 {
		t.Errorf("%+v", got)
	}
	w.call("operator", "/v1/keys:reset", v1.Reset{Key: v1.Key{Rule: "login@1d", Counted: "192.0.2.1|bob"}, Why: "asked for"}, &got, 200)
	if len(got.Items) != 1 || got.Items[0].Remaining != 20 || got.Items[0].Out != 4 {
		t.Errorf("%+v", got)
	}
	var audit v1.Audit
	w.call("viewer", "/v1/audit", nil, &audit, 200)
	e := audit.Items[0]
	e.ID, e.When = "", time.Time{}
	want := v1.AuditEntry{
		Who: "operator", Role: "operator", What: "key.reset", On: "login@1d 192.0.2.1|bob",
		Before: "login@1d: 16 of 20 left, 4 out", After: "login@1d: 20 of 20 left, 4 out", Why: "asked for",
	}
	if len(audit.Items) != 1 || e != want {
		t.Errorf("%+v, want %+v", e, want)
	}
}

// Who watches a key sees what each PoP decided last for it, also of a rule that PoPs count alone. Without traffic there is nothing.
func TestPeekByPoP(t *testing.T) {
	w := newWorld(t, rules+"- { name: secret, key: [{ header: x-user }], limit: 5/1m, scope: pop, hash: true }\n", false)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.collector.Run(ctx) })
	running.Go(func() {
		for i := uint64(1); ctx.Err() == nil; i++ {
			for n, pop := range []string{"ham2", "fra1"} {
				holder := []byte(fmt.Sprintf("%-16s", pop))
				m := &quotav1.ReportRequest{Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 1, Pop: pop, Members: []*quotav1.Member{{Kind: quotav1.MemberKind_MEMBER_KIND_POP, Name: pop, Holder: holder, Worker: 1}}}
				m.Decisions = []*quotav1.Decision{
					{Rule: "login", Key: []byte("192.0.2.1|bob"), Outcome: quotav1.Outcome_OUTCOME_ADMITTED, AgeMs: 50},
					{Rule: "login", Key: []byte("192.0.2.1|bob"), Outcome: quotav1.Outcome_OUTCOME_DENIED, RetryAfterMs: uint64(n + 1)},
					{Rule: "login", Key: []byte("192.0.2.1|eve"), Outcome: quotav1.Outcome_OUTCOME_ADMITTED},
					{Rule: "pop", Key: []byte("192.0.2.1"), Outcome: quotav1.Outcome_OUTCOME_ADMITTED, Remaining: 4},
					{Rule: "secret", Key: []byte(`\h1b7eca0b5118a0aaa9b83cb6242a224c`), Outcome: quotav1.Outcome_OUTCOME_ADMITTED},
					{Rule: "secret", Key: []byte("bob"), Outcome: quotav1.Outcome_OUTCOME_DENIED}, // nobody is asked for this
				}
				if _, err := w.collector.Take("192.0.2.1", m); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	var looking sync.WaitGroup
	for key, want := range map[v1.Key]string{
		{Rule: "login", Counted: "192.0.2.1|bob"}: "2: fra1 rejected 2, ham2 rejected 1, ",
		{Rule: "pop", Counted: "192.0.2.1"}:       "0: fra1 admitted 0, ham2 admitted 0, ",
		{Rule: "secret", Counted: "bob"}:          "0: fra1 admitted 0, ham2 admitted 0, ",
		{Rule: "hidden", Counted: "eve"}:          "1: ",
	} {
		looking.Go(func() {
			proc.Await(t, time.Minute, want, func() string {
				var got v1.Counters
				w.call("operator", "/v1/keys:peek", v1.Peek{Key: key, Watch: true}, &got, 200)
				text := fmt.Sprint(len(got.Items), ": ")
				left := strings.TrimPrefix(want, text)
				for _, d := range got.PoPs {
					pop := fmt.Sprint(d.From, " ", d.Outcome, " ", d.RetryAfterMs, ", ")
					text, left = text+pop, strings.Replace(left, pop, "", 1)
				}
				if left != "" && len(text)+len(left) == len(want) { // what is there is right; a report may come late
					return text
				}
				if text != want {
					t.Errorf("%+v: %s, want %s", key, text, want)
				}
				return ""
			})
		})
	}
	looking.Wait()
	w.fails("operator", "/v1/keys:peek", v1.Peek{Key: v1.Key{Rule: "none"}, Watch: true}, 404, v1.CodeNoRule, "")
}

// What cannot be a counter here is told, and nothing is in the audit.
func TestKeysRejected(t *testing.T) {
	w := newWorld(t, rules, false)
	for _, c := range []struct {
		who    string
		key    v1.Key
		status int
		code   string
		text   string
	}{
		{"viewer", v1.Key{Rule: "all"}, 403, v1.CodeForbidden, "needs the role operator"},
		{"operator", v1.Key{Rule: "gone", Counted: "x"}, 404, v1.CodeNoRule, "no such rule"},
		{"operator", v1.Key{Rule: "login"}, 422, v1.CodeKey, "give the key"},
		{"operator", v1.Key{Rule: "login", Counted: strings.Repeat("x", 9000)}, 422, "", "8192"},
		{"operator", v1.Key{Rule: "pop", Counted: "192.0.2.1"}, 409, v1.CodeElsewhere, "scope: pop"},
	} {
		w.fails(c.who, "/v1/keys:peek", c.key, c.status, c.code, c.text)
		w.fails(c.who, "/v1/keys:reset", v1.Reset{Key: c.key, Why: "test"}, c.status, c.code, c.text)
	}
	w.fails("team", "/v1/keys:reset", v1.Reset{Key: v1.Key{Rule: "all"}, Why: "test"}, 403, v1.CodeForbidden, "begin with team-")
	w.call("viewer", "/v1/explain", v1.Request{URL: "/", Headers: map[string]string{"x": strings.Repeat("x", maxRequest)}}, nil, 413)
	w.call("team", "/v1/keys:peek", v1.Key{Rule: "all"}, nil, 200)
	w.call("operator", "/v1/keys:reset", v1.Reset{Key: v1.Key{Rule: "all"}}, nil, 422) // without a reason
	var audit v1.Audit
	if w.call("viewer", "/v1/audit", nil, &audit, 200); len(audit.Items) != 0 {
		t.Errorf("%+v", audit)
	}
	newWorld(t, rules, true).fails("operator", "/v1/keys:peek", v1.Key{Rule: "all"}, 404, v1.CodeNoRule, "ask a region")
}

// Each rule is explained: what applies with its key, override, cost and, for operators, counters.
func TestExplain(t *testing.T) {
	w := newWorld(t, rules, false)
	w.spend("login", "192.0.2.7|acme", 3)
	q := v1.Request{
		Method: "POST", URL: "https://api.example.com/login?x=1", Client: "192.0.2.7:1234", Claims: map[string]string{"plan": "free"}, Metadata: map[string]string{"ai:model": "large"},
		Headers: map[string]string{"X-User": "acme", "x-cost": "4"},
	}
	var got v1.Explanation
	explained := func(who string) map[string]v1.Explained {
		t.Helper()
		w.call(who, "/v1/explain", q, &got, 200)
		all := map[string]v1.Explained{}
		for _, e := range got.Rules {
			all[e.Rule] = e
		}
		return all
	}
	all := explained("operator")
	if got.InForce.Version != "abc" || len(got.Rules) != 6 || all["open"].Failed != "path" || all["pop"].Failed != "path" || all["open"].Mode != "exempt" {
		t.Errorf("%+v", got)
	}
	if e := all["login"]; !e.Applies || e.Counted != "192.0.2.7|acme" || e.Cost != 1 || len(e.Counters) != 1 || e.Counters[0].Remaining != 4 || e.Counters[0].Override != "deal" {
		t.Errorf("%+v", e)
	}
	if e := all["hidden"]; !e.Applies || e.Counted != w.hidden("acme") || e.Cost != 4 || len(e.Counters) != 1 || e.Counters[0].Remaining != 5 {
		t.Errorf("%+v", e)
	}
	if e := all["all"]; !e.Applies || e.Counted != "" || len(e.Counters) != 1 || e.Counters[0].Remaining != 100 {
		t.Errorf("%+v", e)
	}
	all = explained("viewer")
	if e := all["login"]; !e.Applies || len(e.Counters) != 0 || e.Counted != "192.0.2.7|acme" || !all["hidden"].Applies || all["hidden"].Counted != "" {
		t.Errorf("a viewer sees counters, or a hash: %+v", all)
	}
	q.Known = []string{"method", "path", "client_ip", "header x-user", "header x-tier", "claim plan", "metadata ai:model"}
	if all = explained("operator"); all["login"].Unknown || !all["hidden"].Unknown || all["hidden"].Applies || fmt.Sprint(all["hidden"].Needs) != "[header x-cost]" || !all["all"].Applies {
		t.Errorf("%+v", all)
	}
	if q.Known = []string{"path"}; !explained("operator")["login"].Unknown || got.RejectedBy != "" {
		t.Errorf("%+v", got)
	}
	q.Known = nil
	w.spend("login", "192.0.2.7|acme", 4)
	if explained("operator"); got.RejectedBy != "login" {
		t.Errorf("%+v", got)
	}
	if explained("viewer"); got.RejectedBy != "" {
		t.Errorf("a viewer sees what counters hold: %+v", got)
	}
	q.Headers["x-tier"], q.Region = "gold", "us"
	if all = explained("operator"); all["login"].Override != "gold" || len(all["login"].Counters) != 0 || all["all"].Failed != "region" {
		t.Errorf("%+v", all)
	}
	q.URL = "/open"
	if all = explained("operator"); !all["open"].Applies || all["login"].Applies || all["login"].ExemptBy != "open" || all["login@1d"].ExemptBy != "open" {
		t.Errorf("%+v", all)
	}
	q.URL, q.Headers = "/pop", nil
	if all = explained("operator"); !all["pop"].Applies || !strings.Contains(all["pop"].Problem, "scope: pop") || all["hidden"].Failed != "key" {
		t.Errorf("%+v", all)
	}

	for want, bad := range map[string]any{"url: ": v1.Request{URL: "http://a b/%zz"}, "url: must be": v1.Request{URL: "login"}, "client: must be": v1.Request{URL: "/", Client: "foo"}, "expected length >= 1": v1.Request{}, "unexpected property": map[string]any{"url": "/", "what": 1}} {
		w.fails("viewer", "/v1/explain", bad, 422, "", want)
	}
	newWorld(t, "", false).fails("viewer", "/v1/explain", q, 503, v1.CodeNoRule, "")
}
