package envoyrls

import (
	"strconv"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/limit"
)

func strconvU(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

const specYAML = `
domain: d
descriptors:
  - key: user
    rate_limit: { name: per user, unit: hour, requests_per_unit: 5 }
  - key: plan
    value: gold
    rate_limit: { unit: day, requests_per_unit: 3, name: gold, replaces: [{ name: per user }] }
  - key: host
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: path, rate_limit: { unit: second, requests_per_unit: 4 } }
  - { key: nothing, rate_limit: { unit: week, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true, name: all free } }
  - { key: pass, rate_limit: { unlimited: true, replaces: [{ name: all free }] } }
  - { key: try, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q1, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
  - { key: q2, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: wide, quota_mode: true, rate_limit: { unit: hour, requests_per_unit: 4 } }
  - { key: file, value: "*.pdf", share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 2 } }
`

// steps are requests one after the other, and the answer to each.
type steps []struct {
	request *rlspb.RateLimitRequest
	want    string
}

func (b *bench) play(t *testing.T, list steps) {
	t.Helper()
	for i, step := range list {
		if got := inShort(b.ask(step.request)); got != step.want {
			t.Errorf("step %d: %s, want %s", i+1, got, step.want)
		}
	}
}

func hits(n uint32, r *rlspb.RateLimitRequest) *rlspb.RateLimitRequest {
	r.HitsAddend = n
	return r
}

// TestCurrentLimit: what a client gets to see of a limit.
func TestCurrentLimit(t *testing.T) {
	b := newBench(t, specYAML)
	st := b.ask(request(of("user", "a"))).Statuses[0]
	if l := st.CurrentLimit; l.Name != "per user" || l.RequestsPerUnit != 5 || l.Unit != rlspb.RateLimitResponse_RateLimit_HOUR || l.UnitMultiplier != nil {
		t.Errorf("current_limit %v", l)
	}
	if d := st.DurationUntilReset.AsDuration(); d != 30*time.Minute {
		t.Errorf("duration_until_reset %v at half past, want 30m", d)
	}
	for name, r := range map[string]*rlspb.RateLimitRequest{
		"never charged": request(costing(0, of("user", "new"))), "of 0": request(of("nothing", "")),
	} {
		if d := b.ask(r).Statuses[0].DurationUntilReset.AsDuration(); d <= 0 {
			t.Errorf("duration_until_reset of a counter %s: %v", name, d)
		}
	}
	b.advance(limit.Hour / 2)
	if got := inShort(b.ask(request(of("user", "a")))); got != "OK: OK 4" {
		t.Errorf("in the next hour: %s", got)
	}
	own := limited(7, typepb.RateLimitUnit_MINUTE, of("user", "a"))
	own.Limit.UnitMultiplier = wrapperspb.UInt32(15)
	st = b.ask(request(own)).Statuses[0]
	if l := st.CurrentLimit; l.RequestsPerUnit != 7 || l.Unit != rlspb.RateLimitResponse_RateLimit_MINUTE || l.UnitMultiplier.GetValue() != 15 {
		t.Errorf("current_limit of its own %v", l)
	}
	if l := b.ask(request(limited(7, typepb.RateLimitUnit_HOUR, of("free", "x")))).Statuses[0].CurrentLimit; l.Name != "all free" {
		t.Errorf("current_limit in place of an unlimited rule %v", l)
	}
	if d := st.DurationUntilReset.AsDuration(); d != 15*time.Minute {
		t.Errorf("duration_until_reset %v, want 15m", d)
	}
}
