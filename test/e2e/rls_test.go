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
			actions := [][]any{header("x-user", "user"), header(":path", "path"), query("q")}
			for i := range 20 {
				actions = append(actions, header("x-large", fmt.Sprint("large", i)))
			}
			b.SetRateLimit(addr, "pop", actions...)
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

	// No byte of a header or a query and no size of a header is a way around the limit.
	for i, want := range []int{200, 200, 200, 200, 200, 429} {
		for _, user := range []string{"\xff", "\xfe", "a\xc0", "a\xc1"} {
			if r := get(t, p.Addr, "/", user); r.StatusCode != want {
				t.Errorf("request %d of %q: %d, want %d", i+1, user, r.StatusCode, want)
			}
		}
	}
	for i, want := range []int{200, 429} {
		for _, path := range []string{"/?q=%ff", "/?q=%fe", "/?q=a%c0"} {
			if r := get(t, p.Addr, path, ""); r.StatusCode != want {
				t.Errorf("request %d of %s: %d, want %d", i+1, path, r.StatusCode, want)
			}
		}
		if r := get(t, p.Addr, "/", "", "X-Large", strings.Repeat("x", 58_000)); r.StatusCode != want {
			t.Errorf("request %d with 58,000 bytes in each of 20 descriptors: %d, want %d", i+1, r.StatusCode, want)
		}
	}
}

// query is the action that makes an entry of a query parameter.
func query(name string) []any {
	return []any{map[string]any{"query_parameters": map[string]any{"query_parameter_name": name, "descriptor_key": "query"}}}
}

// header is the action that makes an entry of a request header.
func header(name, key string) []any {
	return []any{map[string]any{"request_headers": map[string]any{"header_name": name, "descriptor_key": key}}}
}

// get sends a request of a user; "": of nobody. headers are more names and values, in turn.
func get(t *testing.T, addr, path, user string, headers ...string) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		q.Header.Set("X-User", user)
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
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
