package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const besideRules = `rules:
  - { name: once, match: { path: /once }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, timeout: 1s, charge_rejected: true }
  - { name: page, match: { path: /page }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, timeout: 1s,
      rejection: { status: 503, body: "<p>{rule}", content_type: text/html } }
  - { name: draft, match: { path: /draft }, key: [], limit: 100/1d, algorithm: fixed_window, timeout: 1s }
  - { name: seconds, match: { path: /seconds }, key: [], limit: 100/1d, algorithm: fixed_window, timeout: 1s, headers: [draft, x-draft03] }
  - { name: unix, match: { path: /unix }, key: [], limit: 100/1d, algorithm: fixed_window, timeout: 1s, headers: [x-unix] }
  - { name: outer, match: { path: /outer }, key: [], limit: 50/1d, algorithm: fixed_window, timeout: 1s, headers: [draft, x-draft03] }
  - { name: service, match: { path: { prefix: /pkg. } }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, timeout: 1s,
      rejection: { body: '{"rule": "{rule}"}', content_type: application/json } }
  - { name: browser, match: { path: /browser }, key: [], limit: 2/1d, algorithm: fixed_window, timeout: 1s }
`

// The filters that docs/envoy.md has before weir, and what lets scripts read the headers of a rejection.
const exposed = "retry-after, ratelimit, ratelimit-policy, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-weir-rule, grpc-status, grpc-message"

func filterNamed(name, kind string) map[string]any {
	return map[string]any{"name": "envoy.filters.http." + name,
		"typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.http." + name + ".v3." + kind}}
}

// What stands beside the filter in a PoP, in front of the PoP and behind it.
func TestBeside(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	front := proc.FreeAddr(t)
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: besideRules, Bootstrap: func(b *envoy.Bootstrap) {
		b.AddFront(front, map[string]any{
			"retry_on": "5xx,retriable-status-codes,resource-exhausted,unavailable", "retriable_status_codes": []any{429}, "num_retries": 3,
			"retry_back_off": map[string]any{"base_interval": "0.001s"},
		})
		b.AddFilters(map[string]any{"envoy.filters.http.cors": map[string]any{
			"@type":                     "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
			"allow_origin_string_match": []any{map[string]any{"exact": "https://app.example"}}, "allow_methods": "GET, POST", "expose_headers": exposed,
		}}, filterNamed("cors", "Cors"), filterNamed("grpc_web", "GrpcWeb"), filterNamed("connect_grpc_bridge", "FilterConfig"))
		off := map[string]any{"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true}
		b.AddRoute(map[string]any{"match": map[string]any{"prefix": "/pkg.Unbridged/"}, "route": map[string]any{"cluster": "upstream"},
			"typed_per_filter_config": map[string]any{"envoy.filters.http.grpc_web": off, "envoy.filters.http.connect_grpc_bridge": off}})
		b.AddRoute(map[string]any{"match": map[string]any{"path": "/outer"}, "route": map[string]any{"cluster": "pop", "prefix_rewrite": "/seconds"}})
	}, Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"Limit", "Remaining", "Reset"} {
			w.Header().Set("X-RateLimit-"+name, "7")
		}
		w.Header().Set("RateLimit", `"up";r=1;t=9`)
		w.Header().Set("RateLimit-Policy", `"up";q=7;w=9`)
	})})
	awaitRules(t, s)
	t.Run("an Envoy in front does not retry", func(t *testing.T) { notRetried(t, s.PoPs[0], front) })
	t.Run("an upstream states limits, too", func(t *testing.T) { limitsOfTheUpstream(t, s.PoPs[0]) })
	t.Run("gRPC-Web and Connect", func(t *testing.T) { bridged(t, s.PoPs[0]) })
	t.Run("CORS", func(t *testing.T) { crossOrigin(t, s.PoPs[0]) })
}

// notRetried sends two requests of each kind through an Envoy that retries rejections: the PoP sees two.
func notRetried(t *testing.T, p *stack.PoP, front string) {
	for name, c := range map[string]struct {
		path, kind string
		status     int
	}{
		"429":    {"/once", "text/plain", 429},
		"503":    {"/page", "text/plain", 503},
		"gRPC 8": {"/once", "application/grpc", 200},
	} {
		const seen = "http.pop.downstream_rq_total"
		before := p.Stats(seen)[seen]
		for i, want := range []int{200, c.status} {
			r, err := stack.Do(front, http.MethodPost, c.path, "", "x-user", "retried-"+name, "content-type", c.kind)
			if err != nil || r.Status != want || i == 1 && r.Header.Get("x-envoy-ratelimited") != "true" {
				t.Errorf("%s: status %d, want %d, headers %v, %v", name, r.Status, want, r.Header, err)
			}
		}
		if n := p.Stats(seen)[seen] - before; n != 2 {
			t.Errorf("%s: of 2 requests the PoP sees %d", name, n)
		}
	}
}

// limitsOfTheUpstream: X-RateLimit-* have one value, that of the filter if its rule has them. The headers of the draft are
// lists. Behind /outer is the same PoP.
func limitsOfTheUpstream(t *testing.T, p *stack.PoP) {
	for path, want := range map[string]struct{ limit, remaining, reset, policy, state string }{
		"/draft":   {"7", "7", "7", `"up";q=7;w=9, "draft";q=100;w=86400`, `"up";r=1;t=9, "draft";r=99;t=\d+`},
		"/unix":    {"100", "99", `\d{10}`, `"up";q=7;w=9`, `"up";r=1;t=9`},
		"/seconds": {"100", "99", `\d{1,5}`, `"up";q=7;w=9, "seconds";q=100;w=86400`, `"up";r=1;t=9, "seconds";r=99;t=\d+`},
		"/outer": {"50", "49", `\d{1,5}`, `"up";q=7;w=9, "seconds";q=100;w=86400, "outer";q=50;w=86400`,
			`"up";r=1;t=9, "seconds";r=\d+;t=\d+, "outer";r=49;t=\d+`},
	} {
		h := p.Get(path).Header
		for name, pattern := range map[string]string{"X-RateLimit-Limit": want.limit, "X-RateLimit-Remaining": want.remaining,
			"X-RateLimit-Reset": want.reset, "RateLimit-Policy": want.policy, "RateLimit": want.state} {
			if got := strings.Join(h.Values(name), ", "); !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
				t.Errorf("%s: %s: %s, want %s", path, name, got, pattern)
			}
		}
	}
}

// bridged: what a filter in front has made a gRPC request is refused so that its client can read why. Without that filter
// the client gets the rule's own body.
func bridged(t *testing.T, p *stack.PoP) {
	for kind, want := range map[string]struct {
		status        int
		kind, status8 string
		body          string
	}{
		"application/grpc":                {200, "application/grpc", "8", ""},
		"application/grpc-web":            {200, "application/grpc-web+proto", "8", ""},
		"application/grpc-web+proto":      {200, "application/grpc-web+proto", "8", ""},
		"application/grpc-web-text":       {200, "application/grpc-web+proto", "8", ""},
		"application/grpc-web-text+proto": {200, "application/grpc-web+proto", "8", ""},
		"application/proto":               {429, "application/json", "", `"code":"resource_exhausted"`},
	} {
		for _, path := range []string{"/pkg.Service/Method", "/pkg.Unbridged/Method"} {
			if path == "/pkg.Unbridged/Method" && kind != "application/grpc" {
				want.status, want.kind, want.status8, want.body = 429, "application/json", "", `{"rule": "service"}`
			}
			body, headers := "\x00\x00\x00\x00\x00", []string{"x-user", kind + path, "content-type", kind} // an empty message
			switch {
			case strings.Contains(kind, "text"):
				body = "AAAAAAA="
			case kind == "application/proto":
				body, headers = "", append(headers, "connect-protocol-version", "1")
			}
			var r stack.Response
			for range 2 {
				var err error
				if r, err = stack.Do(p.Addr, http.MethodPost, path, body, headers...); err != nil {
					t.Fatalf("%s, %s: %v", kind, path, err)
				}
			}
			if h := r.Header; r.Status != want.status || h.Get("content-type") != want.kind || strings.Join(h.Values("grpc-status"), ", ") != want.status8 ||
				want.status8 != "" && !strings.HasSuffix(h.Get("grpc-message"), ": service") || !strings.Contains(r.Body, want.body) || want.body == "" && r.Body != "" ||
				h.Get("retry-after") == "" || h.Get("x-weir-rule") != "service" {
				t.Errorf("%s, %s: status %d, headers %v, body %q", kind, path, r.Status, h, r.Body)
			}
		}
	}
}

// crossOrigin: preflight requests cost nothing, and a script can read a rejection and its headers.
func crossOrigin(t *testing.T, p *stack.PoP) {
	for i, want := range []int{200, 200, 429} {
		r, err := stack.Do(p.Addr, http.MethodOptions, "/browser", "", "origin", "https://app.example", "access-control-request-method", "GET")
		if err != nil || r.Status != http.StatusOK || r.Header.Get("ratelimit") != "" {
			t.Errorf("preflight %d: status %d, headers %v, %v", i, r.Status, r.Header, err)
		}
		r = p.Get("/browser", "origin", "https://app.example")
		if h := r.Header; r.Status != want || h.Get("access-control-allow-origin") != "https://app.example" || h.Get("access-control-expose-headers") != exposed {
			t.Errorf("request %d: status %d, headers %v", i, r.Status, h)
		}
	}
}
