package service_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// slotClient calls Slot of a region for a rule.
func slotClient(t testing.TB, r *region, rule string) func(op quotav1.SlotOp, id string, cost uint64) *quotav1.SlotResponse {
	client := r.client()
	return func(op quotav1.SlotOp, id string, cost uint64) *quotav1.SlotResponse {
		t.Helper()
		out := fatal.Get(client.Slot(t.Context(), connect.NewRequest(&quotav1.SlotRequest{
			Protocol: 1, Rule: rule, Key: []byte("k"), RequestId: []byte(id), Op: op, Cost: cost,
		})))(t)
		return out.Msg
	}
}

const (
	take    = quotav1.SlotOp_SLOT_OP_TAKE
	renew   = quotav1.SlotOp_SLOT_OP_RENEW
	release = quotav1.SlotOp_SLOT_OP_RELEASE
)

func TestSlotsOfRequests(t *testing.T) {
	r := newRegion(t)
	call := slotClient(t, r, "upload")
	for i, step := range []struct {
		after   limit.Micros
		op      quotav1.SlotOp
		id      string
		cost    uint64
		status  quotav1.Status
		granted uint64
		what    string
	}{
		{0, take, "a", 0, quotav1.Status_STATUS_OK, 1, "a cost of 0 is one"},
		{0, take, "b", 1, quotav1.Status_STATUS_OK, 1, "the second of two"},
		{0, take, "c", 1, quotav1.Status_STATUS_DENIED, 0, "all are held"},
		{0, take, "a", 1, quotav1.Status_STATUS_OK, 1, "a repeated take"},
		{6 * limit.Second, renew, "a", 0, quotav1.Status_STATUS_OK, 1, "renewed"},
		{6 * limit.Second, take, "c", 1, quotav1.Status_STATUS_OK, 1, "b ran out, a did not"},
		{0, renew, "b", 0, quotav1.Status_STATUS_DENIED, 0, "what ran out"},
		{0, release, "a", 0, quotav1.Status_STATUS_OK, 0, "released"},
		{0, release, "a", 0, quotav1.Status_STATUS_OK, 0, "released twice"},
		{0, take, "d", 3, quotav1.Status_STATUS_DENIED, 0, "more than there are"},
	} {
		r.advance(step.after)
		g := call(step.op, step.id, step.cost)
		if g.GetStatus() != step.status || g.GetGranted() != step.granted || g.GetLimit() != 2 || g.GetProtocol() != 1 || g.GetRulesVersion() == "" {
			t.Fatalf("step %d (%s): %v", i, step.what, g)
		}
		if (g.GetGranted() > 0) != (g.GetTtlMs() == 10_000) || (g.GetStatus() == quotav1.Status_STATUS_DENIED) != (g.GetRetryAfterMs() > 0) {
			t.Errorf("step %d (%s): times of %v", i, step.what, g)
		}
	}
	if g := call(take, "e", 3); g.GetRetryAfterMs() != uint64(limit.Never) {
		t.Errorf("more than there are: %v, want never as the retry", g)
	}
	measure.Has(t, r.metrics.Handler(), `weir_slots_total{op="take",rule="upload",status="denied"} 3`, `weir_slots_total{op="release",rule="upload",status="ok"} 2`)
}

// The seed is part of how request ids are distinguished, and the same everywhere.
func TestSlotSeed(t *testing.T) {
	seeded := func(seed string) func(*service.Config) { return func(c *service.Config) { c.SlotSeed = seed } }
	a := newRegion(t, seeded("s"))
	for seed, free := range map[string]uint64{"s": 1, "t": 0} {
		b := newRegion(t, seeded(seed), func(c *service.Config) { c.Store = a.store })
		slotClient(t, a, "upload")(take, "a", 1)
		if g := slotClient(t, b, "upload")(take, "a", 1); g.GetRemaining() != free {
			t.Errorf("seed %q: %v, want %d free", seed, g, free)
		}
		slotClient(t, b, "upload")(release, "a", 0)
	}
}

func TestBadSlotCalls(t *testing.T) {
	r := newRegion(t)
	client := r.client()
	for _, c := range []struct {
		change func(*quotav1.SlotRequest)
		code   connect.Code
		want   string
	}{
		{func(q *quotav1.SlotRequest) { q.Protocol = 2 }, connect.CodeFailedPrecondition, "protocol: the holder supports 2"},
		{func(q *quotav1.SlotRequest) { q.Rule = strings.Repeat("r", 131) }, connect.CodeInvalidArgument, "rule: 131 bytes"},
		{func(q *quotav1.SlotRequest) { q.Rule = "page" }, connect.CodeInvalidArgument, `rule: "page" counts units, not slots`},
		{func(q *quotav1.SlotRequest) { q.Key = make([]byte, 8193) }, connect.CodeInvalidArgument, "key: 8193 bytes"},
		{func(q *quotav1.SlotRequest) { q.RequestId = nil }, connect.CodeInvalidArgument, "request_id: 0 bytes, must be 1 to 128"},
		{func(q *quotav1.SlotRequest) { q.RequestId = make([]byte, 129) }, connect.CodeInvalidArgument, "request_id: 129 bytes"},
		{func(q *quotav1.SlotRequest) { q.Op = 0 }, connect.CodeInvalidArgument, "op: 0, must be 1 (take)"},
		{func(q *quotav1.SlotRequest) { q.Op = 4 }, connect.CodeInvalidArgument, "op: 4"},
		{func(q *quotav1.SlotRequest) { q.Cost = 1 << 32 }, connect.CodeInvalidArgument, "cost: 4294967296"},
	} {
		q := &quotav1.SlotRequest{Protocol: 1, Rule: "upload", RequestId: []byte("a"), Op: take}
		c.change(q)
		_, err := client.Slot(t.Context(), connect.NewRequest(q))
		if connect.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", q, err, c.code, c.want)
		}
	}
	out, err := client.Slot(t.Context(), connect.NewRequest(&quotav1.SlotRequest{Protocol: 1, Rule: "nosuch", RequestId: []byte("a"), Op: take}))
	if err != nil || out.Msg.GetStatus() != quotav1.Status_STATUS_UNKNOWN_RULE {
		t.Errorf("an unknown rule: %v, %v", out, err)
	}
}
