package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A client that sends six requests at once against five per hour reads in the answer to the sixth,
// and in all that follow, when the seventh would pass: what the algorithm would state
// that had counted them by itself, although the PoP and the region in between have leases.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	algorithms := []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"}
	rules := "rules:\n"
	for _, a := range algorithms {
		rules += fmt.Sprintf("  - { name: %s, match: { path: /%s }, key: [{ header: x-user }], limit: 5/1h, algorithm: %s, timeout: 1s }\n", a, a, a)
	}
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules, RegionConfig: "lease_cache: \"on\"\n"})
	p := s.PoPs[0]
	proc.Eventually(t, 20*time.Second, "the PoP has the rules", func() bool {
		return p.Get("/token_bucket", "x-user", "nobody").Header.Get("RateLimit") != ""
	})
	for i, a := range algorithms {
		t.Run(a, func(t *testing.T) {
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
