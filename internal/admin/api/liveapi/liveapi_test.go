package liveapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/api/admin/client"
	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// world is the operations over a collector in memory, at a port.
type world struct {
	t         *testing.T
	api       *api.API
	collector *live.Collector
	server    *httptest.Server
	client    *client.Client
	revision  atomic.Uint64 // in force
}

func newWorld(t *testing.T, c live.Config) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t}
	if c.Watches = new(live.Memory); c.Reports == nil {
		c.Reports = new(live.Memory)
	}
	w.collector = live.New(c)
	w.api = api.New(api.Config{Loopback: true, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewRegistry("test")})
	Add(w.api, Config{
		Collector: w.collector, Rules: func() []string { return []string{"idle", "login", "login@1d", "nokey"} },
		Rule: func(name string) *rule.Rule {
			if name == "idle" {
				return &rule.Rule{Name: name, Mode: rule.Exempt}
			}
			return nil
		},
		InForce: func() v1.InForce { return v1.InForce{Version: "new", Revision: w.revision.Load()} },
	})
	w.server = httptest.NewServer(w.api.Handler())
	w.client = fatal.Get(client.Open("", w.server.Listener.Addr().String()))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.collector.Run(ctx) })
	t.Cleanup(func() { w.api.End(); w.server.Close(); cancel(); running.Wait() })
	return w
}

// feed has workers report twice a second, as make makes their reports, until that is nil or the test ends.
func (w *world) feed(workers int, make func(worker int) *quotav1.ReportRequest) {
	var feeding sync.WaitGroup
	ctx, cancel := context.WithCancel(w.t.Context())
	feeding.Go(func() {
		for ctx.Err() == nil {
			for i := range workers {
				m := make(i)
				if m == nil {
					return
				}
				if _, err := w.collector.Take("192.0.2.1", m); err != nil {
					w.t.Error(err)
				}
			}
			time.Sleep(400 * time.Millisecond)
		}
	})
	w.t.Cleanup(func() { cancel(); feeding.Wait() })
}

// report is that of a PoP with one worker.
func report(pop string, change func(*quotav1.ReportRequest)) *quotav1.ReportRequest {
	holder := []byte(fmt.Sprintf("%-16s", pop))[:16]
	m := &quotav1.ReportRequest{
		Protocol: 1, ProtocolMax: 1, Holder: holder, Worker: 1, Pop: pop,
		Members: []*quotav1.Member{{Kind: quotav1.MemberKind_MEMBER_KIND_POP, Name: pop, Holder: holder, Worker: 1, Keys: 10, Places: 100, RulesVersion: "old", RulesRevision: 6, DegradedMs: 700}},
	}
	change(m)
	return m
}

func (w *world) get(path string, into any) {
	w.t.Helper()
	if _, err := w.client.Do(w.t.Context(), client.Call{Path: path}, into); err != nil {
		w.t.Fatalf("%s: %v", path, err)
	}
}

// One call has members report, waits until they have, and shows them with all rules; the next one need not wait. Two of one
// name have numbers. One that states newer rules than anybody can have puts nobody else in the wrong.
func TestStatus(t *testing.T) {
	w := newWorld(t, live.Config{Region: "eu", PerSecond: func(string, string, []byte) float64 { return 10 }})
	w.revision.Store(7)
	w.feed(3, func(i int) *quotav1.ReportRequest {
		if i == 2 {
			return report("fra1", func(m *quotav1.ReportRequest) { m.Holder = []byte("another instance") })
		}
		return report(fmt.Sprint("fra", i), func(m *quotav1.ReportRequest) {
			m.Members[0].RulesRevision = []uint64{1 << 62, 6}[i]
			m.Rules = []*quotav1.RuleUse{{Rule: "login", Matched: 20, Admitted: 15, Denied: 5, AdmittedRate: 1500, DeniedRate: 500}, {Rule: "login@1d", Matched: 20, NoKey: 5, ShadowDenied: 3}, {Rule: "nokey", NoKey: 9}}
			m.Keys = []*quotav1.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 9000, Over: 1000}}
		})
	})
	var s v1.Status
	began := time.Now()
	proc.Await(t, time.Minute, "all are heard", func() string { // a busy machine may report too late
		w.get("/v1/status?wait=2", &s)
		waited, late := time.Since(began), func(m v1.Member) bool { return m.LastReportMs > v1.MissingAfterMs }
		if waited < 2*time.Second {
			t.Errorf("the first call has waited for %v", waited)
		}
		if s.Of != "region eu" || s.WatchedMs < 2000 || s.InForce.Revision != 7 || len(s.Missing) != 0 || len(s.Members) != 3 || slices.ContainsFunc(s.Members, late) {
			return fmt.Sprintf("after %v: %+v", waited, s)
		}
		return ""
	})
	want := v1.Member{
		Kind: "pop", Region: "eu", Name: "fra1 (2)", Holder: "66726131202020202020202020202020", Workers: 1, RulesVersion: "old", RulesRevision: 6, DegradedMs: 700, Keys: 10, Places: 100,
		Problem: "has rules 6, not 7; its region has not answered for 700ms",
	}
	if len(s.Members) != 3 || s.Members[1].Name != "fra1" || strings.Contains(s.Members[0].Problem, "rules") {
		t.Fatalf("%+v", s.Members)
	}
	if s.Members[2].LastReportMs = 0; s.Members[2] != want {
		t.Errorf("%+v, want %+v", s.Members[2], want)
	}
	rules := []v1.Use{
		{Rule: "idle", Mode: "exempt", Limit: "lifts all other rules", Hint: v1.HintMatchedNothing},
		{Rule: "login", Matched: 40, Admitted: 30, Denied: 10, AdmittedPerSecond: 3, DeniedPerSecond: 1, Used: 1.6},
		{Rule: "login@1d", Matched: 40, NoKey: 10, ShadowDenied: 6},
		{Rule: "nokey", NoKey: 18, Hint: v1.HintKeyMissing},
	}
	if !slices.Equal(s.Rules, rules) {
		t.Errorf("%+v", s.Rules)
	}
	if len(s.Regions) != 1 || s.Regions[0] != (v1.RegionUse{Region: "eu", AdmittedPerSecond: 3, DeniedPerSecond: 1}) {
		t.Errorf("%+v", s.Regions)
	}
	proc.Eventually(t, time.Minute, "a later call does not wait", func() bool {
		began = time.Now()
		w.get("/v1/status?wait=2", &s)
		return time.Since(began) < 2*time.Second
	})
}

// What is not well about a member is told in words, and nothing about one that is well.
func TestProblems(t *testing.T) {
	newest := v1.InForce{Version: "new", Revision: 7}
	if got := problems(&v1.Member{RulesVersion: "new", RulesRevision: 6}, newest); got != "" { // from a file of its own
		t.Error(got)
	}
	for want, m := range map[string]v1.Member{
		"":                      {RulesVersion: "new", RulesRevision: 7, Redis: "ok", Keys: 94, Places: 100, LastReportMs: v1.MissingAfterMs, Error: "old", ErrorAgeMs: 1},
		"not heard for 3s":      {RulesVersion: "new", RulesRevision: 7, LastReportMs: v1.MissingAfterMs + 1},
		"has no rules":          {},
		"has rules 6, not 7":    {RulesVersion: "old", RulesRevision: 6},
		"its table is full":     {RulesVersion: "new", RulesRevision: 7, Keys: 95, Places: 100},
		"redis: away; tls: bad": {RulesVersion: "new", RulesRevision: 7, Redis: "away", Error: "tls: bad"},
	} {
		if got := problems(&m, newest); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}

// An aggregator names regions that it does not hear. No rule has a hint before a PoP was heard.
func TestMissingRegion(t *testing.T) {
	w := newWorld(t, live.Config{Regions: true, Expected: func() []string { return []string{"eu", "us"} }})
	w.feed(1, func(int) *quotav1.ReportRequest {
		return report("", func(m *quotav1.ReportRequest) { m.Region, m.Members = "eu", nil })
	})
	proc.Await(t, time.Minute, "one of two regions is missing", func() string {
		var s v1.Status
		if w.get("/v1/status", &s); s.Of != "all regions" || !slices.Equal(s.Missing, []string{"us"}) || len(s.Members) != 0 || len(s.Rules) != 4 || s.Rules[0].Hint != "" {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// Keys come with the error of their rates, of all PoPs or of each, rejected ones by themselves, whatever bytes they have.
func TestTop(t *testing.T) {
	w := newWorld(t, live.Config{Region: "eu"})
	wild := "</script>\x00\x1b[31m\"\u2028"
	w.feed(2, func(i int) *quotav1.ReportRequest {
		return report(fmt.Sprint("fra", i), func(m *quotav1.ReportRequest) {
			m.Keys = []*quotav1.KeyRate{{Rule: "login", Override: "gold", Key: []byte(wild), Count: 4000, Over: 100}, {Rule: "login", Key: []byte("é\xff\xfe|"), Count: 3000}}
			m.Denied = []*quotav1.KeyRate{{Rule: "login", Key: []byte(m.Pop), Count: uint64(i+1) * 1000}}
			m.Rules = []*quotav1.RuleUse{{Rule: "nokey", Matched: 1}}
		})
	})
	for query, want := range map[string]string{
		"":                                fmt.Sprintf("[{login gold %s  8 0.2} {login  é\ufffd\ufffd|  6 0}]", wild),
		"&limit=1&each_pop=true":          fmt.Sprintf("[{login gold %s fra0 4 0.1}]", wild),
		"&by=denied":                      "[{login  fra1  2 0} {login  fra0  1 0}]",
		"&by=denied&each_pop=true":        "[{login  fra1 fra1 2 0} {login  fra0 fra0 1 0}]",
		"&by=rule&limit=4&each_pop=false": "[]",
	} {
		proc.Await(t, time.Minute, fmt.Sprintf("%s shows %q", query, want), func() string {
			var top v1.Top
			w.get("/v1/top?wait=2"+query, &top)
			if got := fmt.Sprint(top.Keys); got != want || top.Of != "region eu" || (len(top.Rules) != 0) != strings.Contains(query, "rule") {
				return fmt.Sprintf("%q; rules %+v", got, top.Rules)
			}
			return ""
		})
	}
}

// follow hands events to do until that returns true.
func (w *world) follow(query string, do func(event string, data []byte) bool) error {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	return w.client.Events(ctx, api.StreamPath+query, func(event string, data []byte) error {
		if do(event, data) {
			return errEnough
		}
		return nil
	})
}

var errEnough = errors.New("enough")

func read[T any](t *testing.T, data []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(data, &v); err != nil {
		t.Errorf("%v: %.200q", err, data)
	}
	return v
}

// A stream has the status, what comes most, the decisions that are tapped and the rules in force, again when they change.
func TestStream(t *testing.T) {
	w := newWorld(t, live.Config{Region: "eu"})
	made := uint64(0)
	w.feed(1, func(int) *quotav1.ReportRequest {
		if made++; made > 6 && w.revision.Load() == 8 { // all was seen; what was sent is not sent again
			return nil
		}
		return report("fra1", func(m *quotav1.ReportRequest) {
			m.Denied = []*quotav1.KeyRate{{Rule: "login", Key: []byte("ann"), Count: 1000}}
			for _, d := range []*quotav1.Decision{{Rule: "login@1d", Outcome: quotav1.Outcome_OUTCOME_DENIED, AgeMs: 1 << 52}, {Rule: "idle", Outcome: quotav1.Outcome_OUTCOME_DENIED}, {Rule: "login", Outcome: quotav1.Outcome_OUTCOME_ADMITTED}} {
				d.Key, d.RetryAfterMs, d.Remaining = []byte("a<b"), 5, made
				m.Decisions = append(m.Decisions, d)
			}
		})
	})
	events, denied, decided, before, changed := map[string]int{}, 0, v1.Decision{}, uint64(0), false
	err := w.follow("?top=denied&tap=true&rule=login&outcome=rejected&key=a%3Cb", func(event string, data []byte) bool {
		events[event]++
		switch event {
		case v1.EventTop:
			denied = max(denied, len(read[v1.Top](t, data).Keys))
		case v1.EventDecisions:
			for _, decided = range read[v1.Decisions](t, data).Items {
				if decided.Rule != "login@1d" || decided.Outcome != "rejected" || decided.Key != "a<b" || decided.From != "fra1" || decided.RetryAfterMs != 5 || decided.Remaining <= before || time.Since(decided.When) > 2*time.Hour {
					t.Errorf("%+v", decided)
				}
				before = decided.Remaining
			}
			if denied > 0 {
				w.revision.Store(8)
			}
		case v1.EventRules:
			changed = read[v1.InForce](t, data).Revision == 8
		}
		return changed && events[v1.EventStatus] >= 3
	})
	if !errors.Is(err, errEnough) || denied != 1 || events[v1.EventStatus] < 2 || events[v1.EventTop] < 2 || events[v1.EventRules] != 2 || events[v1.EventDecisions] == 0 {
		t.Errorf("%v, %d denied, %v", err, denied, events)
	}

	// What is not in force cannot be tapped, and says so.
	var p v1.Problem
	err = w.follow("?tap=true&rule=logni", func(event string, data []byte) bool { p = read[v1.Problem](t, data); return false })
	if err == nil || errors.Is(err, errEnough) || p.Code != v1.CodeNoRule || !strings.Contains(p.Detail, "logni") {
		t.Errorf("%v, %+v", err, p)
	}
	for _, query := range []string{"?tap=true&outcome=denied", "?per_second=0", "?per_second=1001", "?top=pop", "?taps=true", "?limit=513"} {
		if err := w.follow(query, func(string, []byte) bool { return true }); err == nil || errors.Is(err, errEnough) || !strings.Contains(err.Error(), "query.") {
			t.Errorf("%s: %v", query, err)
		}
	}

	// Nothing but what was asked for; and the end of the process ends it.
	err = w.follow("?status=false", func(event string, _ []byte) bool {
		w.api.End()
		return event != v1.EventRules
	})
	if err == nil || errors.Is(err, errEnough) {
		t.Errorf("%v", err)
	}
}

// away is a store of notes that does not answer.
type away struct{ live.Memory }

func (*away) All(context.Context) ([]live.Note, int64, error) {
	return nil, 0, errors.New("redis is away")
}

// While the store that replicas share is away, people are told so, and a stream goes on.
func TestStoreIsAway(t *testing.T) {
	w := newWorld(t, live.Config{Reports: new(away)})
	for _, path := range []string{"/v1/status", "/v1/top"} {
		_, err := w.client.Do(t.Context(), client.Call{Path: path}, nil)
		if p := new(v1.Problem); !errors.As(err, &p) || p.Status != 503 || p.Code != v1.CodeStore || !strings.Contains(p.Detail, "redis is away") {
			t.Errorf("%s: %v", path, err)
		}
	}
	problems := 0
	err := w.follow("?tap=true", func(event string, data []byte) bool {
		if event == v1.EventProblem && read[v1.Problem](t, data).Code == v1.CodeStore {
			problems++
		}
		return problems == 2
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("%v", err)
	}
}
