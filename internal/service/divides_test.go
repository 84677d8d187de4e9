package service_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/test/kit/fatal"
)

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
		out, refused := r.post(q)
		if out == nil {
			t.Fatal(refused)
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
		hasMetric(t, r.metrics, fmt.Sprint("weir_wants_unknown_rule_total ", len(names)-len(strings.Fields(counted))))
		if slots := r.slot(t, "slots"); (slots == quotapb.Status_STATUS_UNKNOWN_RULE) != divided {
			t.Errorf("divided %v: slots of a client: %v", divided, slots)
		}
	}
}

// slot asks for a slot of a rule, as a client with request ids does.
func (r *region) slot(t *testing.T, rule string) quotapb.Status {
	t.Helper()
	m, err := r.client().Slot(t.Context(), connect.NewRequest(&quotapb.SlotRequest{Protocol: 1, Rule: rule, RequestId: []byte("a"), Op: quotapb.SlotOp_SLOT_OP_TAKE}))
	fatal.If(t, err)
	return m.Msg.GetStatus()
}

// Where limits are divided, a call is one of a region, in whatever encoding.
func TestCallsOfNoRegionAreRefused(t *testing.T) {
	r := newRegion(t, divides)
	for region, rejection := range map[string]string{
		"eu": "", "": "region: is missing", "eu/us": `region: \"eu/us\" is no name of a region`, "{region}": "is no name of a region",
		strings.Repeat("r", 65): "is no name of a region",
	} {
		q := r.call(want("page", "k", 1))
		q.Region = region
		if out, refused := r.post(q); (out != nil) != (rejection == "") || !strings.Contains(refused, rejection) {
			t.Errorf("region %q: %+v, %s; want %q", region, out, refused, rejection)
		}
		r.seq++
		w := r.raw("application/json", fmt.Appendf(nil, `{"protocol": 1, "holder": "YWFhYWFhYWFhYWFhYWFhYQ==", "seq": %d, "region": %q}`, r.seq, region))
		if w.Code == 200 != (rejection == "") || !strings.Contains(w.Body.String(), rejection) {
			t.Errorf("region %q in JSON: %d %s; want %q", region, w.Code, w.Body, rejection)
		}
	}
}
