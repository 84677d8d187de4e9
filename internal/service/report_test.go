package service_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// watcher watches.
type watcher struct {
	got  []*quotav1.ReportRequest
	from []any
	err  error
}

func (*watcher) WatchMs() uint32 { return 5000 }

func (w *watcher) Take(from any, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	w.got, w.from = append(w.got, m), append(w.from, from)
	return &quotav1.ReportResponse{WatchMs: 5000, Tap: &quotav1.Tap{PerSecond: 7}}, w.err
}

// report sends a report from an address.
func (r *region) report(address string, m *quotav1.ReportRequest) *httptest.ResponseRecorder {
	r.t.Helper()
	body := bytes.NewReader(fatal.Get(proto.Marshal(m))(r.t))
	return r.send(quotav1connect.QuotaServiceReportProcedure, "application/proto", body,
		func(q *http.Request) { q.RemoteAddr = address })
}

// A report reaches who watches, and every answer says that somebody does.
func TestReport(t *testing.T) {
	seen := new(watcher)
	r := newRegion(t, func(c *service.Config) { c.Live = seen })
	call := r.call()
	call.Pop = "fra1"
	if a, _ := r.post(call); a.WatchMs != 5000 {
		t.Errorf("Acquire says %d ms", a.WatchMs)
	}
	m := &quotav1.ReportRequest{Protocol: 1, Holder: holderA, Pop: "fra1", Keys: []*quotav1.KeyRate{{Rule: "page", Key: []byte("k"), Count: 5}}}
	w := r.report("192.0.2.1:1", m)
	a := new(quotav1.ReportResponse)
	if err := proto.Unmarshal(w.Body.Bytes(), a); err != nil || w.Code != 200 || a.Protocol != 1 || a.WatchMs != 5000 || a.Tap == nil || a.Tap.PerSecond != 7 {
		t.Errorf("%d %+v, %v", w.Code, a, err)
	}
	if len(seen.got) != 1 || seen.got[0].Pop != "fra1" || string(seen.got[0].Keys[0].Key) != "k" {
		t.Errorf("%+v", seen.got)
	}
	json := strings.NewReader(`{"protocol":1,"holder":"YmJiYmJiYmJiYmJiYmJiYg==","pop":"fra2"}`)
	w = r.send(quotav1connect.QuotaServiceReportProcedure, "application/json", json, func(*http.Request) {})
	if w.Code != 200 || len(seen.got) != 2 || seen.got[1].Pop != "fra2" {
		t.Errorf("as JSON: %d %s", w.Code, w.Body)
	}
	r.report("192.0.2.1:2", m)
	r.report("192.0.2.2:1", m)
	if of := seen.from; of[0] != of[2] || of[0] == of[3] {
		t.Errorf("from %v", of)
	}
	if got := newRegion(t).report("192.0.2.1:1", m); got.Code != 200 {
		t.Errorf("where nobody can watch: %d %s", got.Code, got.Body)
	}
}

// A report that is wrong is rejected with what is wrong, and nobody sees it.
func TestReportRejected(t *testing.T) {
	seen := new(watcher)
	r := newRegion(t, func(c *service.Config) { c.Live = seen })
	m := &quotav1.ReportRequest{Protocol: 1, Holder: holderA, Pop: "fra1"}
	rejected := func(r *region, name string, m *quotav1.ReportRequest, status int, want string) {
		t.Helper()
		if w := r.report("192.0.2.1:1", m); w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %d with %q", name, w.Code, w.Body, status, want)
		}
	}
	for name, c := range map[string]struct {
		change func(*quotav1.ReportRequest)
		want   string
	}{
		"of another version": {func(m *quotav1.ReportRequest) { m.Protocol = 99 }, "protocol: "},
		"no holder":          {func(m *quotav1.ReportRequest) { m.Holder = nil }, "holder: "},
		"a wrong region":     {func(m *quotav1.ReportRequest) { m.Region = "e u" }, "region: "},
		"a short holder":     {func(m *quotav1.ReportRequest) { m.Holder = m.Holder[1:] }, "holder: 15 bytes"},
		"too long":           {func(m *quotav1.ReportRequest) { m.Pop = strings.Repeat("p", 256<<10) }, "262144"},
		"too many items":     {func(m *quotav1.ReportRequest) { m.Keys = make([]*quotav1.KeyRate, 8200) }, "8192 fields"},
	} {
		wrong := proto.CloneOf(m)
		c.change(wrong)
		rejected(r, name, wrong, 400, c.want)
	}
	if len(seen.got) != 0 {
		t.Errorf("%d were seen", len(seen.got))
	}
	seen.err = live.ErrFull
	rejected(r, "without room", m, 429, "")
	seen.err = errors.New("members: none")
	rejected(r, "by who watches", m, 400, "members: none")
	above := newRegion(t, func(c *service.Config) { c.Live, c.Divides = seen, true })
	rejected(above, "without a region", m, 400, "region: is missing")
}

// hearer hears regions, and says err, or what it is told to.
type hearer struct {
	heard []reserve.Statement
	reply *reserve.Reply
	err   error
}

func (h *hearer) Heard(region string, s *reserve.Statement) (*reserve.Reply, error) {
	h.heard = append(h.heard, *s)
	return h.reply, h.err
}

// What a region states is heard once, before its call is decided, and answered with it. An error rejects the call: nothing of
// it is applied, and for the region it is as if nobody had answered.
func TestReserves(t *testing.T) {
	h := &hearer{reply: &reserve.Reply{At: 5, Share: reserve.Share{No: 2, Part: 250}}}
	r := newRegion(t, func(c *service.Config) { c.Reserves = h })
	ask := func() *wire.Request {
		call := r.call(want("page", "k", 1))
		call.Region, call.Reserve = "eu", &reserve.Statement{ID: 7, Until: 9}
		return call
	}
	call := ask()
	answer, failure := r.post(call)
	if failure != "" || answer.Reserve == nil || answer.Reserve.Share.Part != 250 || answer.Grants[0].Granted != 1 {
		t.Fatalf("%+v, %s", answer, failure)
	}
	if len(h.heard) != 1 || h.heard[0].ID != 7 || h.heard[0].Until != 9 {
		t.Errorf("heard %+v", h.heard)
	}
	if answer, failure = r.post(call); failure != "" || answer.Reserve != nil || !answer.Dropped || len(h.heard) != 1 {
		t.Errorf("a call that comes again: %+v, %s, heard %d times", answer, failure, len(h.heard))
	}
	if answer, failure = r.post(r.call(want("page", "k", 1))); failure != "" || answer.Reserve != nil || len(h.heard) != 1 {
		t.Errorf("a call of no region: %+v, %s, heard %d times", answer, failure, len(h.heard))
	}
	left := r.grants(want("page", "k", 0))[0].Remaining
	for _, c := range []struct {
		err    error
		status int
	}{
		{errors.New("no store"), http.StatusServiceUnavailable},
		{new(reserve.StatementError), http.StatusBadRequest},
		{reserve.ErrOtherRecord, http.StatusBadRequest},
		{reserve.ErrTooManyRegions, http.StatusBadRequest},
	} {
		h.err = c.err
		if w := r.raw("application/proto", ask().Append(nil)); w.Code != c.status || !bytes.Contains(w.Body.Bytes(), []byte(c.err.Error())) {
			t.Errorf("%v: %d %s, want %d", c.err, w.Code, w.Body, c.status)
		}
	}
	h.err = nil
	if now := r.grants(want("page", "k", 0))[0].Remaining; now != left {
		t.Errorf("%d are left of %d: a call that was rejected was applied", now, left)
	}
}

// divides makes a service one that divides limits among regions.
func divides(c *service.Config) { c.Divides = true }

// Rules without counters are told apart from those that nobody has: exempt rules, those that shed load and, where limits are
// divided, those that regions count by themselves.
func TestRulesWithoutCounters(t *testing.T) {
	const rules = `
rules:
  - { name: everywhere, key: [], limit: 10/1h, scope: global }
  - { name: here, key: [], limit: 10/1h }
  - { name: envoy, key: [], limit: 10/1h, scope: pop }
  - { name: slots, key: [], limit: 2, algorithm: concurrency }
  - { name: internal, mode: exempt }
  - { name: overload, key: [client_ip], shed: { capacity: 9 } }
`
	for divided, counted := range map[bool]string{true: "everywhere", false: "everywhere here envoy slots"} {
		r := newRegion(t, func(c *service.Config) { c.Divides = divided })
		r.setRules(rules)
		q := r.call()
		names := []string{"everywhere", "here", "envoy", "slots", "internal", "overload", "none"}
		for _, name := range names {
			q.Wants = append(q.Wants, want(name, "", 1))
		}
		q.Region = "eu"
		out, rejected := r.post(q)
		if out == nil {
			t.Fatal(rejected)
		}
		for i, name := range names {
			status := lease.UnknownRule
			if slices.Contains(strings.Fields(counted), name) {
				status = lease.OK
			}
			if out.Grants[i].Status != status || r.service.Knows(name) != (name != "none") {
				t.Errorf("divided %v: %s: %+v, want status %d; known: %v", divided, name, out.Grants[i], status, r.service.Knows(name))
			}
		}
		measure.Has(t, r.metrics.Handler(), fmt.Sprint("weir_wants_unknown_rule_total ", len(names)-len(strings.Fields(counted))))
		if slots := slotClient(t, r, "slots")(take, "a", 1).GetStatus(); (slots == quotav1.Status_STATUS_UNKNOWN_RULE) != divided {
			t.Errorf("divided %v: slots of a client: %v", divided, slots)
		}
	}
}

// Where limits are divided, a call is one of a region, in whatever encoding.
func TestCallsOfNoRegionAreRejected(t *testing.T) {
	r := newRegion(t, divides)
	for region, rejection := range map[string]string{
		"eu": "", "": "region: is missing", "eu/us": `region: \"eu/us\" is no name of a region`, "{region}": "is no name of a region",
		strings.Repeat("r", 65): "is no name of a region",
	} {
		q := r.call(want("page", "k", 1))
		q.Region = region
		if out, rejected := r.post(q); (out != nil) != (rejection == "") || !strings.Contains(rejected, rejection) {
			t.Errorf("region %q: %+v, %s; want %q", region, out, rejected, rejection)
		}
		r.seq++
		w := r.raw("application/json", fmt.Appendf(nil, `{"protocol": 1, "holder": "YWFhYWFhYWFhYWFhYWFhYQ==", "seq": %d, "region": %q}`, r.seq, region))
		if w.Code == 200 != (rejection == "") || !strings.Contains(w.Body.String(), rejection) {
			t.Errorf("region %q in JSON: %d %s; want %q", region, w.Code, w.Body, rejection)
		}
	}
}
