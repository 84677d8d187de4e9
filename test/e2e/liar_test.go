package e2e

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const liarRules = `
rules:
  - { name: shared, match: { path: /shared }, key: [], limit: 300/1d, timeout: 1s, on_failure: deny, algorithm: fixed_window }
  - { name: own, match: { path: /own }, key: [{ header: x-user }], limit: 10/1d, timeout: 1s, on_failure: deny, algorithm: fixed_window, consistency: exact }
`

// call makes one call of a holder of its own for one want, and returns the grant.
func (h *rawHolder) call(t *testing.T, w *quotapb.Want) *quotapb.Grant {
	t.Helper()
	h.seq++
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := h.client.Acquire(ctx, connect.NewRequest(&quotapb.AcquireRequest{
		Protocol: 1, Holder: h.id, Seq: h.seq, Ack: h.seq - 1, Pop: "mars", Wants: []*quotapb.Want{w},
	}))
	if err != nil {
		t.Fatalf("call %d: %v", h.seq, err)
	}
	return resp.Msg.GetGrants()[0]
}

// rawHolder speaks the protocol with a region, and may send what no filter sends.
type rawHolder struct {
	client quotapbconnect.QuotaServiceClient
	id     []byte
	seq    uint64
}

func newRawHolder(r *region.Region, id string) *rawHolder {
	return &rawHolder{client: quotapbconnect.NewQuotaServiceClient(r.HTTP, "http://"+r.Addr), id: []byte(id)}
}

// TestLiarIsSeen: a holder gives back more than it can have been granted, again and again, while a PoP
// uses the same limit up and serves others. The region counts each lie, and one line of its log names
// the liar and its address; the limit holds to the unit; and the PoP's requests of other keys are admitted.
func TestLiarIsSeen(t *testing.T) {
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: liarRules})
	awaitRules(t, s)
	awaitWindow(24*time.Hour, time.Minute)
	liar := newRawHolder(s.Region, "one that does lie")
	liar.id = liar.id[:16]
	had := liar.call(t, &quotapb.Want{Rule: "shared", Need: 20, Waiting: 20, Want: 20})
	if had.GetGranted() != 20 {
		t.Fatalf("the liar was granted %v", had)
	}
	const lies = 50
	admitted, bystanders := int64(0), 0
	for range lies {
		liar.call(t, &quotapb.Want{Rule: "shared", Unused: 601, Lease: had.GetLease()})
		admitted += try(t, drive.Load{Addrs: s.Addrs(), Conns: 2, Count: 5, Request: drive.Get("/shared")}).OK()
		if bystanders < 5 {
			bystanders++
			bystander(t, s, "/own", "b"+strings.Repeat("x", bystanders), 0)
		}
	}
	spends(t, 280-admitted, func() int64 { // what the liar had left
		return try(t, drive.Load{Addrs: s.Addrs(), Conns: 4, Count: 50, Request: drive.Get("/shared")}).OK()
	})
	if n := s.Region.Metrics()[`weir_give_backs_rejected_total{rule="shared"}`]; n != lies {
		t.Errorf("%v of %d lies are counted", n, lies)
	}
	log := s.Region.Log()
	told := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, "gives back more units") {
			told++
			for _, part := range []string{hex.EncodeToString(liar.id), "mars", "127.0.0.1:", "shared", "601", "600"} {
				if !strings.Contains(line, part) {
					t.Errorf("no %q in %s", part, line)
				}
			}
		}
	}
	if told < 1 || told > 2 { // the test may have taken longer than a minute
		t.Errorf("%d lines of the log tell of the liar", told)
	}
}
