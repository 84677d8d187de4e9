package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A client that sends six requests at once against five per hour reads in the answer to the sixth,
// and in all that follow, when the seventh would pass: what the algorithm would state
// that had counted them by itself. By a PoP and by the rate limit service, both over
// leases.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	algorithms := []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"}
	rules, bindings := "rules:\n", "bindings:\n"
	for _, a := range algorithms {
		rules += fmt.Sprintf("  - { name: %s, match: { path: /%s }, key: [{ header: x-user }], limit: 5/1h, algorithm: %s, timeout: 1s }\n", a, a, a)
		bindings += fmt.Sprintf("  - { domain: pop, descriptor: [{ key: %s }], rule: %s }\n", a, a)
	}
	file := filepath.Join(t.TempDir(), "descriptors.yaml")
	if err := os.WriteFile(file, []byte(bindings), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata/ratelimit")
	if err != nil {
		t.Fatal(err)
	}
	addr := proc.FreeAddr(t)
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules,
		RegionConfig: fmt.Sprintf("lease_cache: \"on\"\nrls_budget: 10s\nratelimit_config: %s\ndescriptors: %s\nrls_listen: %s\n", dir, file, addr)})
	p := s.PoPs[0]
	proc.Eventually(t, 20*time.Second, "the PoP has the rules", func() bool {
		return p.Get("/token_bucket", "x-user", "nobody").Header.Get("RateLimit") != ""
	})
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	service := ratelimit.NewRateLimitServiceClient(conn)

	for i, a := range algorithms {
		t.Run("PoP/"+a, func(t *testing.T) {
			t.Parallel()
			checkRetryAfter(t, limit.Algorithm(i), func() (bool, int64) {
				r := p.Get("/"+a, "x-user", "ann")
				after, _ := strconv.ParseInt(r.Header.Get("Retry-After"), 10, 64) // 0: none
				if r.Header.Get("RateLimit") == "" {
					t.Errorf("status %d, and no rule applied", r.Status)
				}
				if r.Status == 429 && !strings.Contains(r.Header.Get("RateLimit"), fmt.Sprint(";t=", after)) {
					t.Errorf("Retry-After %d, RateLimit %s", after, r.Header.Get("RateLimit"))
				}
				return r.Status == 200, after
			})
		})
		t.Run("service/"+a, func(t *testing.T) {
			t.Parallel()
			request := &ratelimit.RateLimitRequest{Domain: "pop", Descriptors: []*common.RateLimitDescriptor{
				{Entries: []*common.RateLimitDescriptor_Entry{{Key: a, Value: "bob"}}}}}
			checkRetryAfter(t, limit.Algorithm(i), func() (bool, int64) {
				r, err := service.ShouldRateLimit(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				until := r.GetStatuses()[0].GetDurationUntilReset().AsDuration()
				return r.GetOverallCode() == ratelimit.RateLimitResponse_OK, int64((until + time.Second - 1) / time.Second)
			})
		})
	}
}

// checkRetryAfter sends a burst and some more requests, and compares Retry-After of those
// that are refused with the algorithm itself.
func checkRetryAfter(t *testing.T, a limit.Algorithm, send func() (passed bool, after int64)) {
	t.Helper()
	proc.AwaitWindow(time.Hour, time.Minute) // here, because parallel tests begin minutes after their parent
	l, err := limit.New(limit.Spec{Algorithm: a, Count: 5, Period: limit.Hour})
	if err != nil {
		t.Fatal(err)
	}
	now := func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	var twin limit.State
	for i := range 12 {
		if i > 8 {
			time.Sleep(700 * time.Millisecond)
		}
		passed, after := send()
		if passed != (i < 5) {
			t.Fatalf("request %d: passed %v", i+1, passed)
		}
		if passed {
			twin = l.Charge(twin, now(), 1)
			continue
		}
		want := int64(l.Peek(twin, now(), 1).RetryAfter+limit.Second-1) / int64(limit.Second)
		if after < want-1 || after > want+2 { // a little more where units went out ahead of their requests
			t.Errorf("request %d: Retry-After is %d s, want %d", i+1, after, want)
		}
	}
}
