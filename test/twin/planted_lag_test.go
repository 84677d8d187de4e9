package twin

import (
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// asked is an exchange about descriptors of which so much was counted before, all of one
// counter, that envoyproxy/ratelimit has answered.
func asked(m mode, limit, counted uint64, rules []*node, hits ...uint64) *exchange {
	c := &counter{count: counted}
	x := &exchange{mode: m, request: &rlspb.RateLimitRequest{Domain: "d"}, now: 1}
	r := &rlspb.RateLimitResponse{}
	for i, n := range hits {
		x.parts = append(x.parts, part{RateLimitDescriptor: &ratelimitpb.RateLimitDescriptor{}, rule: rules[i], counter: c, counted: c.count, charge: charge{"k", n}})
		c.count += n
		l := &rlspb.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(limit), Unit: rlspb.RateLimitResponse_RateLimit_HOUR}
		st := &rlspb.RateLimitResponse_DescriptorStatus{Code: ok, CurrentLimit: l, LimitRemaining: uint32(limit - min(limit, c.count)), DurationUntilReset: x.untilReset(l)}
		if c.count > limit {
			st.Code = overLimit
		}
		r.Statuses = append(r.Statuses, st)
	}
	x.theirs = answer{response: r}
	return x
}

// answers has Weir answer so about descriptor i, beside what else is expected, and returns
// what is different.
func (x *exchange) answers(i int, code rlspb.RateLimitResponse_Code, left uint32) (what string) {
	x.weir = answer{response: proto.CloneOf(x.theirs.response)}
	x.judge()
	r := proto.CloneOf(x.response) // what is expected
	r.Statuses[i].Code, r.Statuses[i].LimitRemaining = code, left
	if len(r.Statuses) == 1 {
		r.OverallCode, r.ResponseHeadersToAdd = code, x.headersOf(r.Statuses[i])
	}
	x.weir.response = r
	_, what = x.judge()
	return what
}

// What lag explains is believed where denials are charged, and no wrong answer beside it.
func TestPlantedLag(t *testing.T) {
	once, often := sight{asked: 1, units: 1, admitted: 1}, sight{asked: 10, units: 10, admitted: 10}
	for _, c := range []struct {
		what        string
		limit       uint64
		counted     uint64
		here, other sight
		code        rlspb.RateLimitResponse_Code
		left        uint32
		believed    bool
	}{
		{"refused what may be on lease elsewhere", 20, 15, sight{}, once, overLimit, 0, true},
		{"refused more than the other can hold", 20, 14, sight{}, once, overLimit, 0, false},
		{"refused, and no other was asked", 20, 18, once, sight{}, overLimit, 0, false},
		{"refused a tenth of a large limit", 1000, 99, sight{}, often, overLimit, 0, false},
		{"refused a large limit that is nearly spent", 1000, 900, sight{}, often, overLimit, 0, true},
		{"admitted from a lease, others are over", 20, 20, sight{admitted: 5}, sight{asked: 3, units: 15, admitted: 5}, ok, 14, true},
		{"admitted more than the limit", 20, 20, sight{admitted: 5}, sight{asked: 3, units: 15, admitted: 15}, ok, 14, false},
		{"admitted, but its own units are not counted", 20, 20, sight{admitted: 5}, sight{asked: 3, units: 15, admitted: 5}, ok, 15, false},
		{"nothing is known of the other's", 20, 9, sight{admitted: 5}, once, ok, 14, true},
		{"its own units are not counted", 20, 9, sight{admitted: 5}, once, ok, 15, false},
		{"the other holds some", 20, 9, sight{admitted: 5}, once, ok, 6, true},
		{"units are lost", 20, 9, sight{admitted: 5}, once, ok, 5, false},
	} {
		x := asked(mode{"redis", 2, "charge-denied"}, c.limit, c.counted, []*node{nil}, 1)
		x.parts[0].sights = [2]sight{c.here, c.other}
		x.parts[0].elsewhere = c.other.asked > 0
		if what := x.answers(0, c.code, c.left); (what == "") != c.believed {
			t.Errorf("%s: different: %q", c.what, what)
		}
	}
}

// What a denied request took comes back: of two quotas that share a counter, beside a limit that
// is over, neither stays charged, nor is one counted in the answer for the other.
func TestPlantedLoss(t *testing.T) {
	quota := &node{QuotaMode: true, RateLimit: &rateLimit{}}
	for _, flags := range []string{"", "exact"} {
		for left := range uint32(16) {
			x := asked(mode{"redis", 1, flags}, 19, 3, []*node{quota, quota, nil}, 2, 5, 50)
			x.parts[2].key = "other"
			x.parts[2].counter = &counter{count: 50}
			x.parts[2].counted = 0
			if what := x.answers(1, ok, left); what != "statuses[1].limit_remaining" {
				t.Errorf("%s, %d left of 16: different: %q", flags, left, what)
			}
			if what := x.answers(1, ok, 16); what != "" {
				t.Errorf("%s: different: %q", flags, what)
			}
		}
	}
}
