package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// TestRateLimitService: an Envoy whose own rate limit filter asks weir-regional,
// which has the configuration of envoyproxy/ratelimit. Each limit admits what it
// allows and not one more, and a request that one limit refuses costs the other
// nothing.
func TestRateLimitService(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("testdata/ratelimit")
	if err != nil {
		t.Fatal(err)
	}
	addr := proc.FreeAddr(t)
	s := stack.Start(t, stack.Config{
		PoPs:         1,
		Rules:        "rules: []\n",
		RegionConfig: fmt.Sprintf("rls_budget: 10s\nratelimit_config: %s\nrls_listen: %s\n", dir, addr),
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetRateLimit(addr, "pop", header("x-user", "user"), header(":path", "path"))
		},
	})
	p := s.PoPs[0]
	proc.Eventually(t, 30*time.Second, "Envoy reaches the rate limit service", func() bool {
		return get(t, p.Addr, "/", "").StatusCode == http.StatusOK // no descriptor, or one without a rule
	})

	// Two of the user's five go to the heavy page, of which there are two.
	for i, want := range []int{200, 200, 429, 429} {
		if r := get(t, p.Addr, "/heavy/1", "ann"); r.StatusCode != want {
			t.Fatalf("request %d of /heavy/1: %d, want %d", i+1, r.StatusCode, want)
		}
	}
	for left := 2; left >= 0; left-- {
		r := get(t, p.Addr, "/", "ann")
		if r.StatusCode != 200 || r.Header.Get("x-ratelimit-remaining") != fmt.Sprint(left) ||
			!strings.HasPrefix(r.Header.Get("x-ratelimit-limit"), `5, 5;w=`) || !strings.Contains(r.Header.Get("x-ratelimit-limit"), `name="per-user"`) {
			t.Errorf("with %d left: %d, %v", left, r.StatusCode, r.Header)
		}
	}
	r := get(t, p.Addr, "/", "ann")
	if r.StatusCode != 429 || r.Header.Get("x-ratelimit-remaining") != "0" || r.Header.Get("x-ratelimit-reset") == "" || r.Header.Get("x-envoy-ratelimited") == "" {
		t.Errorf("the sixth: %d, %v", r.StatusCode, r.Header)
	}
	if r := get(t, p.Addr, "/", "bob"); r.StatusCode != 200 {
		t.Errorf("another user: %d", r.StatusCode)
	}
}

// header is the action that makes an entry of a request header.
func header(name, key string) []any {
	return []any{map[string]any{"request_headers": map[string]any{"header_name": name, "descriptor_key": key}}}
}

// get sends a request of a user; "": of nobody.
func get(t *testing.T, addr, path, user string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		q.Header.Set("X-User", user)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	return r
}
