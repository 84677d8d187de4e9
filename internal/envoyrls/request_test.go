package envoyrls

import (
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestBadRequests: each names the field, and nothing of it is charged.
func TestBadRequests(t *testing.T) {
	b := newBench(t, specYAML)
	negative := of("user", "a")
	negative.IsNegativeHits = true
	long := limited(1, typepb.RateLimitUnit_YEAR, of("user", "a"))
	long.Limit.UnitMultiplier = wrapperspb.UInt32(2)
	longest := limited(1, typepb.RateLimitUnit_YEAR, of("user", "a"))
	longest.Limit.UnitMultiplier = wrapperspb.UInt32(1<<32 - 1)
	for want, r := range map[string]*rlspb.RateLimitRequest{
		"descriptors has more than 100 items":                        request(make([]*ratelimitpb.RateLimitDescriptor, 101)...),
		"descriptors[0].entries is missing":                          request(nil),
		"descriptors[0].entries has one that is":                     request(&ratelimitpb.RateLimitDescriptor{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{nil}}),
		"descriptors[0].entries has more than 100":                   request(of(make([]string, 400)...)),
		"descriptors[0].is_negative_hits is true":                    request(negative, of("user", "a")),
		"descriptors[1].limit unit is UNKNOWN":                       request(of("user", "a"), limited(1, 0, of("user", "b"))),
		"descriptors[1].limit unit is 8":                             request(of("user", "a"), limited(1, 8, of("user", "b"))),
		"descriptors[0].limit unit_multiplier makes":                 request(long),
		"limit unit_multiplier makes a period of more than 366 days": request(of("user", "a"), longest),
	} {
		_, err := b.ShouldRateLimit(t.Context(), r)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want invalid argument: %s", err, want)
		}
	}
	for want, r := range map[string]*rlspb.RateLimitRequest{ // in the words of envoyproxy/ratelimit
		"rate limit domain must not be empty":          {Descriptors: request(of("user", "a")).Descriptors},
		"rate limit descriptor list must not be empty": request(),
	} {
		if _, err := b.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.Unknown || status.Convert(err).Message() != want {
			t.Errorf("%v, want unknown: %s", err, want)
		}
	}
	b.play(t, steps{{request(of("user", "a"), of("user", "b")), "OK: OK 4, OK 4"}})
	if _, err := newBench(t, "").ShouldRateLimit(t.Context(), request(of("user", "a"))); status.Code(err) != codes.Unavailable {
		t.Errorf("without configuration: %v, want unavailable", err)
	}
}

// FuzzShouldRateLimit: whatever arrives is answered, with a status for each
// descriptor or an error that names the mistake.
func FuzzShouldRateLimit(f *testing.F) {
	for _, r := range []*rlspb.RateLimitRequest{
		request(of("user", "a")), hits(9, request(of("host", "h", "path", "p"), of("file", "a.pdf"))),
		request(costing(0, of("q1", "")), limited(1, typepb.RateLimitUnit_DAY, of("try", "x"))), request(of("plan", "gold"), of("user", "")), {},
	} {
		f.Add(fatal.Get(proto.Marshal(r))(f))
	}
	f.Add(odd(f, "Q", request(of("user", "Q"), limited(1, typepb.RateLimitUnit_DAY, of("Q", "x")))))
	b := newBench(f, specYAML, func(c *Config) { c.Headers, c.Metadata = true, true })
	fatal.If(f, b.bindTo(boundRules, boundTo))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, plain rlspb.RateLimitRequest
		if decode(data, r.ProtoReflect()) != nil {
			return // rejected before it gets here
		}
		if proto.Unmarshal(data, &plain) == nil && check(&plain) == nil && !proto.Equal(&r, &plain) {
			t.Errorf("decoded as %v, want %v", &r, &plain)
		}
		response, err := b.ShouldRateLimit(t.Context(), &r)
		if err != nil {
			if code := status.Code(err); code != codes.InvalidArgument && (code != codes.Unknown || r.Domain != "" && len(r.Descriptors) > 0) {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(response.Statuses) != len(r.Descriptors) || response.OverallCode == rlspb.RateLimitResponse_UNKNOWN {
			t.Errorf("answer %v", response)
		}
		if _, err := proto.Marshal(response); err != nil {
			t.Errorf("the answer cannot be sent: %v", err)
		}
	})
}
