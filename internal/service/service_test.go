package service_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

const rulesText = `
rules:
  - { name: page, key: [client_ip], limit: 10/1h, algorithm: fixed_window, consistency: exact }
  - { name: all, key: [], limit: 100/1h, algorithm: fixed_window, consistency: exact,
      overrides: [{ when: { header: { x-tier: gold } }, limit: 200/1h }] }
  - { name: upload, key: [client_ip], limit: 2, algorithm: concurrency }
`

func rulesOf(t testing.TB, text string) *rule.Set {
	t.Helper()
	return fatal.Get(rulefile.Parse("rules.yaml", []byte(text)))(t)
}

// region is a service on a memory store with a clock of its own, behind HTTP.
type region struct {
	t       testing.TB
	clock   atomic.Int64
	store   *memory.Store
	service *service.Service
	handler *service.Handler
	metrics *telemetry.Registry
	seq     uint64
}

func newRegion(t testing.TB, change ...func(*service.Config)) *region {
	t.Helper()
	r := &region{t: t, metrics: telemetry.NewRegistry("test")}
	r.clock.Store(int64(20_000*limit.Day + limit.Hour/2))
	now := func() limit.Micros { return limit.Micros(r.clock.Load()) }
	r.store = memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30, Now: now})
	c := service.Config{Store: r.store, Metrics: r.metrics, Now: now}
	for _, change := range change {
		change(&c)
	}
	r.service = service.NewService(c)
	r.setRules(rulesText)
	r.handler = service.NewHandler(r.service, r.metrics)
	return r
}

func (r *region) setRules(text string) {
	r.t.Helper()
	fatal.If(r.t, r.service.SetRules(rulesOf(r.t, text)))
}

func (r *region) advance(d limit.Micros) { r.clock.Add(int64(d)) }

var holderA, holderB = bytes.Repeat([]byte{'a'}, 16), bytes.Repeat([]byte{'b'}, 16)

// call is a request of holder A with the next seq.
func (r *region) call(wants ...wire.Want) *wire.Request {
	r.seq++
	return &wire.Request{Protocol: 1, Holder: holderA, Seq: r.seq, Ack: r.seq - 1, Wants: wants}
}

// post sends a request as the filter does. The response is nil if it was rejected, with the reply's body beside it.
func (r *region) post(req *wire.Request) (*wire.Response, string) {
	r.t.Helper()
	return r.from("192.0.2.1:1234", "", req)
}

// from sends a request from an address, over TLS with a certificate unless that is empty.
func (r *region) from(addr, certificate string, req *wire.Request) (*wire.Response, string) {
	r.t.Helper()
	body := bytes.NewReader(req.Append(nil))
	w := r.send(quotav1connect.QuotaServiceAcquireProcedure, "application/proto", body, func(h *http.Request) {
		if h.RemoteAddr = addr; certificate != "" {
			h.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(certificate)}}}
		}
	})
	if w.Code != http.StatusOK {
		return nil, w.Body.String()
	}
	out := new(wire.Response)
	fatal.If(r.t, out.Decode(w.Body.Bytes()))
	if len(out.Grants) != len(req.Wants) || out.Seq != req.Seq || out.Protocol != 1 {
		r.t.Fatalf("answer %+v to %+v", out, req)
	}
	return out, ""
}

// raw sends a body to Acquire with headers: names and values in turn.
func (r *region) raw(contentType string, body []byte, headers ...string) *httptest.ResponseRecorder {
	return r.send(quotav1connect.QuotaServiceAcquireProcedure, contentType, bytes.NewReader(body), func(q *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
		}
	})
}

// send sends a body to a procedure.
func (r *region) send(procedure, contentType string, body io.Reader, change func(*http.Request)) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, procedure, body)
	q.Header.Set("Content-Type", contentType)
	change(q)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q)
	return w
}

// grants sends wants and returns their grants.
func (r *region) grants(wants ...wire.Want) []wire.Grant {
	r.t.Helper()
	out, rejected := r.post(r.call(wants...))
	if out == nil {
		r.t.Fatalf("rejected: %s", rejected)
	}
	return out.Grants
}

func want(rule, key string, units int64) wire.Want {
	return wire.Want{Rule: rule, Key: []byte(key), Want: lease.Want{Need: units, Waiting: units, Want: units}}
}

func TestAcquire(t *testing.T) {
	r := newRegion(t)
	shape, _ := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: limit.Hour})
	g := r.grants(want("page", "10.0.0.1", 4), want("nosuch", "k", 1), wire.Want{Rule: "all", Variant: 7, Want: lease.Want{Want: 1}}, want("page", "10.0.0.1", 7))
	if g[0].Status != lease.OK || g[0].Granted != 4 || g[0].Limit != 10 || g[0].Remaining != 6 || g[0].Reset != 1_800_000 {
		t.Errorf("4 of 10: %+v", g[0])
	}
	if g[0].Shape != shape.Fingerprint() || g[0].Lease != shape.PeriodID(limit.Micros(20_000)*limit.Day) {
		t.Errorf("lease %x of %x, want the limit's shape and the window's start", g[0].Lease, g[0].Shape)
	}
	if g[1].Status != lease.UnknownRule || g[2].Status != lease.UnknownRule {
		t.Errorf("unknown rule and variant: %+v", g[1:3])
	}
	if g[3].Status != lease.Denied || g[3].RetryAfter != 1_800_000 || g[3].AskAfter == 0 || g[3].AskAfter > 1000 {
		t.Errorf("7 of the 6 that are left: %+v", g[3])
	}
	if g := r.grants(want("page", "10.0.0.1", 11)); g[0].RetryAfter != lease.Never {
		t.Errorf("11 of 10: %+v, want never", g[0])
	}
	if g := r.grants(wire.Want{Rule: "all", Variant: 1, Override: 77, Want: lease.Want{Want: 1}}); g[0].Status != lease.UnknownRule {
		t.Errorf("an override that the rule does not have: %+v", g[0])
	}
}

// A long key and the hash that newer filters send in its place are one counter.
func TestLongKeyIsItsHash(t *testing.T) {
	r := newRegion(t)
	for _, n := range []int{rule.MaxKey, rule.MaxKey + 1, 150, 4096} {
		long := strings.Repeat("k", n)
		r.grants(want("page", long, 4))
		short := string(rule.ShortKey([]byte(long)))
		if g := r.grants(want("page", short, 1)); g[0].Remaining != 5 {
			t.Errorf("%d bytes: %+v, want the 4 units counted", n, g[0])
		}
	}
}

func TestGroupsMayBeScattered(t *testing.T) {
	r := newRegion(t)
	in := func(group uint32, w wire.Want) wire.Want { w.Group = group; return w }
	g := r.grants(
		in(2, want("page", "b", 1)), in(1, want("page", "a", 11)), want("page", "c", 1),
		in(2, want("all", "", 1)), in(1, want("all", "other", 1)))
	var got []int64
	for i := range g {
		got = append(got, g[i].Granted)
	}
	if !slices.Equal(got, []int64{1, 0, 1, 1, 0}) || g[1].Status != lease.Denied || g[4].Status != lease.OK {
		t.Errorf("granted %v: %+v; want group 2 and the lone one granted, group 1 not", got, g)
	}
}

func TestConcurrencyTellsWorkersApart(t *testing.T) {
	r := newRegion(t)
	slot := func(worker uint64, holding, need int64) wire.Want {
		w := wire.Want{Rule: "upload", Key: []byte("k"), Want: lease.Want{Holding: holding, Need: need, Waiting: need, Want: holding + need}}
		w.SetWorker(1<<40 + worker)
		return w
	}
	for i, c := range []struct {
		worker uint64
		need   int64
		status lease.Status
	}{{1, 1, lease.OK}, {2, 1, lease.OK}, {3, 1, lease.Denied}, {1, 0, lease.OK}, {3, 1, lease.OK}} { // the fourth gives back
		if g := r.grants(slot(c.worker, 0, c.need))[0]; g.Status != c.status || i == 0 && (g.Granted != 1 || g.Shape != 1<<8 || g.Lease != 1) {
			t.Fatalf("step %d, worker %d: %+v", i, c.worker, g)
		}
	}
	late := r.call(slot(2, 1, 0))
	r.grants(slot(2, 0, 0))
	if out, _ := r.post(late); out.Grants[0].Status != lease.Unavailable {
		t.Errorf("a statement that was overtaken: %+v", out.Grants)
	}
}

func TestHoldersAreCountedAndBounded(t *testing.T) {
	r := newRegion(t, func(c *service.Config) { c.MaxHolders = 3 })
	as := func(who byte) (*wire.Response, string) {
		req := r.call()
		req.Holder = bytes.Repeat([]byte{who}, 16)
		return r.post(req)
	}
	for i, who := range []byte("abc") {
		if out, _ := as(who); out.Holders != uint32(i+1) {
			t.Errorf("holder %c: %d holders, want %d", who, out.Holders, i+1)
		}
	}
	if _, rejected := as('d'); !strings.Contains(rejected, "resource_exhausted") || !strings.Contains(rejected, "max_holders") {
		t.Errorf("a fourth holder: %q", rejected)
	}
	r.advance(11 * limit.Second)
	if out, _ := as('d'); out == nil || out.Holders != 1 {
		t.Errorf("a fourth holder when the others are silent: %+v", out)
	}
}

// Whoever makes up workers takes the places of its own.
func TestWorkersOfOneHolderAreBounded(t *testing.T) {
	r := newRegion(t, func(c *service.Config) { c.MaxHolders, c.MaxHoldersPerAddress = 1000, 1000 })
	as := func(who byte, worker, seq uint64) *wire.Response {
		out, _ := r.post(&wire.Request{Protocol: 1, Holder: bytes.Repeat([]byte{who}, 16), Worker: worker, Seq: seq, Wants: []wire.Want{{Rule: "page"}}})
		return out
	}
	as('b', 1, 7)
	for n := range uint64(5000) {
		r.advance(limit.Millisecond)
		if out := as('a', n+1, 1); out == nil || out.Grants[0].Status != lease.OK || out.Holders != 2 {
			t.Fatalf("worker %d: %+v", n+1, out)
		}
	}
	if as('b', 1, 7).Grants[0].Status != lease.Unavailable {
		t.Error("a repeated call of another holder was applied")
	}
	for who := byte('c'); who != 0; who++ {
		if as(who, 1, 1) == nil {
			t.Fatalf("holder %d found no place", who)
		}
	}
	if as('a', 5000, 1).Grants[0].Status != lease.Unavailable {
		t.Error("a repeated call of its last worker was applied")
	}
}

// A call of a broken caller is rejected as a whole, and the message names the field.
func TestRejections(t *testing.T) {
	r := newRegion(t)
	for newest := range uint32(4) { // a filter of the next release supports this protocol, too, and is answered in it
		q := r.call(want("all", "", 1))
		q.ProtocolMax = newest
		if out, rejected := r.post(q); out == nil || out.Protocol != 1 || out.Grants[0].Granted != 1 {
			t.Errorf("1 to %d: %+v, %s", newest, out, rejected)
		}
	}
	with := func(change func(*wire.Request)) *wire.Request {
		req := r.call(want("page", "k", 1))
		change(req)
		return req
	}
	for name, c := range map[string]struct {
		request *wire.Request
		want    []string
	}{
		"protocol":    {with(func(q *wire.Request) { q.Protocol = 9 }), []string{"failed_precondition", "supports 9", "supports 1"}},
		"newer":       {with(func(q *wire.Request) { q.Protocol, q.ProtocolMax = 2, 3 }), []string{"failed_precondition", "supports 2 to 3", "region supports 1;", "update the older one"}},
		"no protocol": {with(func(q *wire.Request) { q.Protocol = 0 }), []string{"failed_precondition", "supports 0"}},
		"holder":      {with(func(q *wire.Request) { q.Holder = q.Holder[:15] }), []string{"invalid_argument", "holder: 15 bytes", "16"}},
		"seq":         {with(func(q *wire.Request) { q.Seq = 0 }), []string{"seq: 0"}},
		"ack":         {with(func(q *wire.Request) { q.Ack = q.Seq }), []string{"ack: ", "less than seq"}},
		"wants":       {with(func(q *wire.Request) { q.Wants = make([]wire.Want, 1025) }), []string{"invalid_argument", "list is longer"}},
	} {
		out, rejected := r.post(c.request)
		if out != nil {
			t.Errorf("%s: answered %+v", name, out)
			continue
		}
		for _, text := range c.want {
			if !strings.Contains(rejected, text) {
				t.Errorf("%s: %s; want %q in it", name, rejected, text)
			}
		}
	}
	if g := r.grants(want("page", "k", 10)); g[0].Granted != 10 {
		t.Errorf("a rejected call was charged: %+v", g[0])
	}
}

// Every reply states the revision of the rules, and a holder that has newer ones is counted.
func TestRevisionTravels(t *testing.T) {
	r := newRegion(t)
	set := rulesOf(t, rulesText).Dated(7)
	fatal.If(t, r.service.SetRules(set))
	const behind = "weir_acquire_newer_rules_total "
	for i, c := range []struct {
		version  string
		revision uint64
		behind   string
	}{
		{"", 0, "0"}, {"older", 6, "0"}, {"of the same time", 7, "0"}, {set.Version, 8, "0"}, {"newer", 8, "1"},
	} {
		q := r.call(want("page", "k", 1))
		q.RulesVersion, q.RulesRevision = c.version, c.revision
		out, rejected := r.post(q)
		if out == nil || out.RulesVersion != set.Version || out.RulesRevision != 7 {
			t.Errorf("call %d: %+v, %s", i, out, rejected)
		}
		measure.Has(t, r.metrics.Handler(), behind+c.behind)
	}
	client := r.client()
	for _, have := range []string{"", set.Version} {
		m, err := client.Rules(t.Context(), connect.NewRequest(&quotav1.RulesRequest{Protocol: 1, ProtocolMax: 3, HaveVersion: have}))
		if err != nil || m.Msg.GetProtocol() != 1 || m.Msg.GetRulesVersion() != set.Version || m.Msg.GetRulesRevision() != 7 || (len(m.Msg.GetRules()) == 0) != (have != "") {
			t.Fatalf("rules for one that has %q: %v, %v", have, m, err)
		}
		if got, err := read.JSON(m.Msg.GetRules()); have == "" && (err != nil || got.Version != set.Version || got.Len() != 3) {
			t.Errorf("rules do not come back: %v, %v", m, err)
		}
	}
	if _, err := client.Rules(t.Context(), connect.NewRequest(&quotav1.RulesRequest{Protocol: 2})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("another protocol: %v", err)
	}
}

// client calls the region without a network.
func (r *region) client() quotav1connect.QuotaServiceClient {
	return quotav1connect.NewQuotaServiceClient(&http.Client{Transport: local{r.handler}}, "http://region")
}

// local is a handler as a transport.
type local struct{ handler http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// Every encoding of the QuotaService gives the same answers.
func TestEncodings(t *testing.T) {
	r := newRegion(t)
	server := httptest.NewUnstartedServer(r.handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	for name, options := range map[string][]connect.ClientOption{
		"connect":  nil,
		"json":     {connect.WithProtoJSON()},
		"grpc":     {connect.WithGRPC()},
		"grpc-web": {connect.WithGRPCWeb()},
	} {
		client := quotav1connect.NewQuotaServiceClient(server.Client(), server.URL, options...)
		r.seq++
		req := &quotav1.AcquireRequest{Protocol: 1, Holder: holderA, Seq: r.seq, TraceParent: []string{"x"},
			Wants: []*quotav1.Want{{Rule: "page", Key: []byte(name), Need: 3, Waiting: 3, Want: 3}, {Rule: "nosuch"}}}
		out, err := client.Acquire(t.Context(), connect.NewRequest(req))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g := out.Msg.GetGrants()
		if len(g) != 2 || g[0].GetGranted() != 3 || g[0].GetRemaining() != 7 || g[1].GetStatus() != quotav1.Status_STATUS_UNKNOWN_RULE {
			t.Errorf("%s: %v", name, out.Msg)
		}
		req.Seq = 0
		_, err = client.Acquire(t.Context(), connect.NewRequest(req))
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "seq: 0") {
			t.Errorf("%s: without a number: %v", name, err)
		}
		if _, typed := errors.AsType[*connect.Error](err); !typed {
			t.Errorf("%s: %T is not a typed error", name, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	r := newRegion(t)
	w := want("page", "secret-key", 4)
	w.Unused, w.Overdrawn, w.Denied = 0, 2, 5
	r.grants(w, want("page", "secret-key", 9), want("nosuch", "", 1))
	r.post(&wire.Request{Protocol: 1, Holder: holderA, Seq: 1})
	r.post(&wire.Request{Protocol: 2})
	r.raw("application/proto", []byte{0x3a, 0x7f})
	measure.Has(t, r.metrics.Handler(),
		`weir_wants_total{override="",rule="page"} 2`,
		`weir_grants_total{override="",rule="page",status="ok"} 1`,
		`weir_grants_total{override="",rule="page",status="denied"} 1`,
		`weir_units_granted_total{override="",rule="page"} 4`,
		`weir_units_overdrawn_total{rule="page"} 2`,
		`weir_edge_denials_total{rule="page"} 5`,
		`weir_wants_unknown_rule_total 1`,
		`weir_acquire_duplicates_total 1`,
		`weir_acquire_rejected_total 2`,
		`weir_holders 1`,
		`weir_wants_total{override="",rule="all"} 0`)
	if got := measure.Page(r.metrics.Handler()); strings.Contains(got, "secret") || strings.Contains(got, "nosuch") {
		t.Error("a key or a name out of a request is in a label")
	}
	r.setRules(`rules: [{ name: other, key: [], limit: 1/1h }]`)
	if got := measure.Page(r.metrics.Handler()); strings.Contains(got, `rule="page"`) || !strings.Contains(got, `rule="other"`) {
		t.Error("a rule that is gone still has series, or a new one has none")
	}
}

// Overrides with a name are counted apart, others with their rule, and no key has a series.
func TestMetricsOfOverrides(t *testing.T) {
	r := newRegion(t)
	const rules = `rules: [{ name: page, key: [{ header: u }], limit: 5/1h, overrides: [
		{ name: gold, when: { header: { t: gold } }, limit: 9/1h }, { when: { header: { t: tin } }, limit: 2/1h }, { key: [ann], limit: 7/1h }] }]`
	r.setRules(rules)
	set := rulesOf(t, rules)
	for variant := range 3 {
		w := want("page", "ann", 1)
		w.Variant, w.Override, w.Shape = uint32(variant), set.Override(0, variant), set.Limit(0, variant).Fingerprint()
		r.grants(w)
	}
	measure.Has(t, r.metrics.Handler(),
		`weir_wants_total{override="gold",rule="page"} 1`, `weir_wants_total{override="",rule="page"} 2`,
		`weir_grants_total{override="gold",rule="page",status="ok"} 1`, `weir_units_granted_total{override="",rule="page"} 2`)
	got := measure.Page(r.metrics.Handler())
	if n := strings.Count(got, `override="`) - strings.Count(got, `override=""`); n != 5 || strings.Contains(got, "ann") {
		t.Errorf("%d series of overrides, want 5:\n%s", n, got)
	}
	r.setRules(strings.Replace(rules, "name: gold, ", "", 1))
	if got := measure.Page(r.metrics.Handler()); strings.Contains(got, "gold") || !strings.Contains(got, `weir_wants_total{override="",rule="page"} 2`) {
		t.Error("an override that is gone still has series, or its rule has none")
	}
}
