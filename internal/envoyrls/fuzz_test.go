package envoyrls

import (
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// FuzzShouldRateLimit: whatever arrives is answered, with a status for each
// descriptor or an error that names the mistake.
func FuzzShouldRateLimit(f *testing.F) {
	for _, r := range []*rlspb.RateLimitRequest{
		request(of("user", "a")), hits(9, request(of("host", "h", "path", "p"), of("file", "a.pdf"))),
		request(costing(0, of("q1", "")), limited(1, typepb.RateLimitUnit_DAY, of("try", "x"))), request(of("plan", "gold"), of("user", "")), {},
	} {
		data := fatal.Get(proto.Marshal(r))(f)
		f.Add(data)
	}
	f.Add(odd(f, "Q", request(of("user", "Q"), limited(1, typepb.RateLimitUnit_DAY, of("Q", "x")))))
	b := newBench(f, specYAML, func(c *Config) { c.Headers, c.Metadata = true, true })
	fatal.If(f, b.bindTo(boundRules, boundTo))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, plain rlspb.RateLimitRequest
		if decode(data, r.ProtoReflect()) != nil {
			return // refused before it gets here
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
