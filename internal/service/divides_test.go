package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/service"
)

// divides makes a service one that divides limits among regions.
func divides(c *service.Config) { c.Divides = true }

// Where limits are divided, rules that regions count by themselves are not counted again.
func TestRulesOfARegionAreNotCountedForAll(t *testing.T) {
	r := newRegion(t, divides)
	r.setRules(`
rules:
  - { name: everywhere, key: [], limit: 10/1h, scope: global }
  - { name: here, key: [], limit: 10/1h }
  - { name: envoy, key: [], limit: 10/1h, scope: pop }
  - { name: slots, key: [], limit: 2, algorithm: concurrency }
`)
	q := r.call(want("everywhere", "k", 1), want("here", "k", 1), want("envoy", "k", 1), want("slots", "k", 1))
	q.Region = "eu"
	out, refused := r.post(q)
	if out == nil {
		t.Fatal(refused)
	}
	for i, status := range []lease.Status{lease.OK, lease.UnknownRule, lease.UnknownRule, lease.UnknownRule} {
		if out.Grants[i].Status != status {
			t.Errorf("%s: %+v, want status %d", q.Wants[i].Rule, out.Grants[i], status)
		}
	}
	hasMetric(t, r.metrics, "weir_wants_unknown_rule_total 3")
	if slots := r.slot(t, "slots"); slots != quotapb.Status_STATUS_UNKNOWN_RULE {
		t.Errorf("slots of a client: %v", slots)
	}
}

// slot asks for a slot of a rule, as a client with request ids does.
func (r *region) slot(t *testing.T, rule string) quotapb.Status {
	t.Helper()
	client := quotapbconnect.NewQuotaServiceClient(&http.Client{Transport: local{r.handler}}, "http://region")
	m, err := client.Slot(t.Context(), connect.NewRequest(&quotapb.SlotRequest{Protocol: 1, Rule: rule, RequestId: []byte("a"), Op: quotapb.SlotOp_SLOT_OP_TAKE}))
	if err != nil {
		t.Fatal(err)
	}
	return m.Msg.GetStatus()
}

// Where limits are divided, a call is one of a region, in whatever encoding.
func TestCallsOfNoRegionAreRefused(t *testing.T) {
	r := newRegion(t, divides)
	for region, refusal := range map[string]string{
		"eu": "", "": "region: is missing", "eu/us": `region: \"eu/us\" is no name of a region`, "{region}": "is no name of a region",
		strings.Repeat("r", 65): "is no name of a region",
	} {
		q := r.call(want("page", "k", 1))
		q.Region = region
		if out, refused := r.post(q); (out != nil) != (refusal == "") || !strings.Contains(refused, refusal) {
			t.Errorf("region %q: %+v, %s; want %q", region, out, refused, refusal)
		}
		r.seq++
		w := r.raw("application/json", fmt.Appendf(nil, `{"protocol": 1, "holder": "YWFhYWFhYWFhYWFhYWFhYQ==", "seq": %d, "region": %q}`, r.seq, region))
		if w.Code == 200 != (refusal == "") || !strings.Contains(w.Body.String(), refusal) {
			t.Errorf("region %q in JSON: %d %s; want %q", region, w.Code, w.Body, refusal)
		}
	}
}
