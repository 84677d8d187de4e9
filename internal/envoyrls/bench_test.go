package envoyrls

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/lease"
)

// BenchmarkDecision is one decision without gRPC.
func BenchmarkDecision(b *testing.B) {
	for _, descriptors := range []int{1, 3} {
		b.Run("descriptors="+strconv.Itoa(descriptors), func(b *testing.B) {
			server := newBench(b, benchYAML, func(c *Config) { c.Consistency = lease.Leased.String() })
			requests := make([]*rlspb.RateLimitRequest, 1000)
			for i := range requests {
				requests[i] = benchRequest(i, descriptors)
			}
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := server.ShouldRateLimit(ctx, requests[i%len(requests)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

const benchYAML = `
domain: d
descriptors:
  - { key: user, rate_limit: { unit: hour, requests_per_unit: 100000000 } }
  - { key: host, descriptors: [{ key: path, rate_limit: { unit: hour, requests_per_unit: 100000000 } }] }
  - { key: plan, value: gold, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }
`

func benchRequest(i, descriptors int) *rlspb.RateLimitRequest {
	n := strconv.Itoa(i)
	all := request(of("user", "user-"+n), of("host", "h", "path", "/p/"+n), of("plan", "gold"))
	all.Descriptors = all.Descriptors[:descriptors]
	return all
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
