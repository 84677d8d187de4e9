package response_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/response"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

const wall = 1_800_000_000 * limit.Second

const twoRules = `{"rules":[
	{"name":"all","key":[],"limit":"100/1h","algorithm":"fixed_window","scope":"pop"},
	{"name":"user","key":[{"header":"x-user"}],"limit":"2/1m","algorithm":"fixed_window","scope":"pop","headers":["draft","x-unix"],
	 "overrides":[{"name":"gold","when":{"header":{"x-tier":"gold"}},"limit":"1/1m"}],"rejection":{"grpc_status":7}}]}`

func newWorker(t *testing.T, rules string) *edge.Worker {
	t.Helper()
	set := fatal.Get(read.JSON([]byte(rules)))(t)
	return edge.New(rulebook.Config{Rules: set, RegionCluster: "region", PagesLog2: 4, RulesEvery: 5000, Hash: 1},
		tabletest.New(), [6]uint64{1, 2, 3, 4, 5, 6}, 1000, wall)
}

// decide has a worker decide a request of ann.
func decide(w *edge.Worker, tier string) *edge.Request {
	var in rule.Request
	in.Reset(w.Inputs())
	in.Add(w.Inputs(), "x-user", "ann")
	in.Add(w.Inputs(), "x-tier", tier)
	r := new(edge.Request)
	if w.Match(&in) {
		w.Decide(1000, r)
	}
	return r
}

// show is the response as text, a header a line and then the body.
func show(m *response.Maker, r *edge.Request, grpc bool) string {
	var s strings.Builder
	add := func(name, value string) { fmt.Fprintf(&s, "%s: %s\n", name, value) }
	if r.Outcome == edge.Admit {
		m.Admitted(r, add, add)
		return s.String()
	}
	f := response.Reject(r, grpc)
	m.Rejected(r, &f, add)
	return fmt.Sprintf("%d, gRPC %d, %s\n%s\n%s", f.Status, f.GRPCStatus, m.Decision, s.String(), m.Body)
}

// What clients get of two rules, by a program that is no Envoy: twice admitted, rejected, rejected over gRPC, and with
// ratelimit_headers: false admitted and rejected by an override.
func TestTwoRules(t *testing.T) {
	w := newWorker(t, twoRules)
	m, shown := response.Maker{Headers: true, TimeOfDay: w.DecidedAt}, ""
	for i := range 4 {
		shown += show(&m, decide(w, ""), i == 3) + "\n"
	}
	m.Headers = false
	for range 2 {
		shown += "gold:\n" + show(&m, decide(w, "gold"), false) + "\n"
	}
	golden.Same(t, "testdata/two-rules.golden", shown)
}

// Before there are rules, before_rules rejects, and names nothing.
func TestBeforeRules(t *testing.T) {
	w := edge.New(rulebook.Config{DenyBeforeRules: true, RegionCluster: "region", PagesLog2: 4, Hash: 1}, tabletest.New(), [6]uint64{1}, 1000, wall)
	r := new(edge.Request)
	w.Decide(1000, r)
	m := response.Maker{Headers: true, TimeOfDay: w.DecidedAt}
	if got := show(&m, r, false); !strings.HasPrefix(got, "503, gRPC 14,  denied on_failure\n") || !strings.Contains(got, "temporary-reduced-capacity") ||
		string(m.Details) != "weir-before-rules" {
		t.Errorf("%s, details %s", got, m.Details)
	}
	r.Degraded, r.Blocked = false, true
	if m.Decide("login", r); string(m.Decision) != "login denied block" {
		t.Errorf("a key that is blocked: %s", m.Decision)
	}
}

// What a shed rule rejects states no limit, whatever other rules there are.
func TestShed(t *testing.T) {
	w := newWorker(t, strings.Replace(twoRules, "[", `[{"name":"overload","shed":{"capacity":1}},`, 1))
	m := response.Maker{Headers: true, TimeOfDay: w.DecidedAt}
	if r := decide(w, ""); r.Outcome != edge.Admit {
		t.Fatalf("%+v", r)
	}
	r := decide(w, "")
	r.RetryAfter = 2000 // or 1 or 3 s
	shown := show(&m, r, false) + "\nheaders: off:\n"
	r.Shed = &rule.Rule{Name: "overload", Headers: rule.HeadersOff}
	golden.Same(t, "testdata/shed.golden", shown+show(&m, r, false))
}
