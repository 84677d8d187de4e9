package filter

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// viewer is a region in which somebody watches.
type viewer struct {
	t       *testing.T
	grants  func(*httpCall)
	reports []*quotav1.ReportRequest
}

func (v *viewer) serve(c *httpCall) {
	if header(c.headers, ":path") != uplink.ReportPath {
		c.watch = 5000
		v.grants(c)
		return
	}
	m := new(quotav1.ReportRequest)
	if err := proto.Unmarshal(c.body, m); err != nil || c.timeout != 1000 || header(c.headers, "connect-timeout-ms") != "1000" {
		v.t.Errorf("report: %v, timeout %d", err, c.timeout)
	}
	v.reports = append(v.reports, m)
	c.status, c.answer = "200", fatal.Get(proto.Marshal(&quotav1.ReportResponse{Protocol: 1, WatchMs: 5000, Tap: &quotav1.Tap{PerSecond: 1}}))(v.t)
}

// passes lets seconds pass, and answers all calls.
func (v *viewer) passes(e *envoy, seconds int) {
	for range 10 * seconds {
		e.pass(100)
		e.settle(v.serve)
	}
}

// Reports go to the region with what the filter knows of itself, what was logged, and keys under the name of their override.
func TestReports(t *testing.T) {
	e := startNew(t, withRules(t, userRules), 1)
	grant := lease.Grant{Status: lease.OK, Granted: 50, TTL: 10_000, Limit: 300, Remaining: 250, Reset: 30_500}
	v := &viewer{t: t, grants: overriding("acme", grant)}
	for range 2 {
		e.send(0, ":path", "/v1/a", "x-user", "ann")
		e.settle(v.serve)
		v.passes(e, 1)
	}
	e.noCall = true
	e.send(0, ":path", "/v1/a", "x-user", "bob")
	e.pass(100)
	e.noCall = false
	v.passes(e, 13) // the table is counted in 10 s
	m := v.reports[len(v.reports)-1].Members[0]
	if m.Version != version.Version || m.Places != 512 || !strings.HasPrefix(m.Error, "no call can be made to the Envoy cluster weir_region") || m.ErrorAgeMs < 1000 {
		t.Errorf("%+v", m)
	}
	if k := v.reports[1].Keys; len(k) == 0 || string(k[0].Key) != "ann" || k[0].Rule != "user" || k[0].Override != "acme" {
		t.Errorf("keys %+v", k)
	}
}

// A configuration that cannot be used shows for as long as it is there, as something that the PoP has now.
func TestConfigErrorIsReported(t *testing.T) {
	e, v := startNew(t, withRules(t, userRules), 1), &viewer{t: t, grants: grantOf(50)}
	e.config = strings.Replace(e.config, `"limit"`, `"limlt"`, 1)
	e.run(0, pluginContext, func(g *VM) { g.Configure(pluginContext, len(e.config)) })
	e.send(0, ":path", "/v1/a", "x-user", "ann")
	e.settle(v.serve)
	v.passes(e, 3)
	if len(v.reports) < 2 {
		t.Fatalf("%d reports", len(v.reports))
	}
	for i, r := range v.reports {
		if m := r.Members[0]; !strings.Contains(m.Error, "limlt") || m.ErrorAgeMs != 0 {
			t.Errorf("%d: error %q, %d ms ago", i, m.Error, m.ErrorAgeMs)
		}
	}
}
