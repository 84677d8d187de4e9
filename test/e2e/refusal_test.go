package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Every form of a refusal, from a real Envoy: a rule for each.
const refusalRules = `rules:
  - { name: plain, match: { path: /plain }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s }
  - { name: json, match: { path: /json }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, headers: [draft, x-unix],
      refusal: { status: 403, body: '{"rule": "{rule}", "wait": {retry_after}, "limit": {limit}}', content_type: application/json, grpc_status: 7 } }
  - { name: page, match: { path: /page }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s,
      refusal: { status: 503, body: "<p>{rule}", content_type: text/html; charset=utf-8 } }
  - { name: secret, match: { path: /secret }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, headers: off }
  - { name: tiers, match: { path: /tiers }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, retry_jitter: 100,
      overrides: [{ name: gold, when: { header: { x-tier: gold } }, limit: 2/1h }, { when: { header: { x-tier: tin } }, limit: 1/1h }] }
  - { name: keys, match: { path: /keys }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s,
      overrides: [{ name: acme, key: ['ann<script>"'], limit: 2/1d }] }
  - { name: each, match: { path: /each }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, consistency: exact,
      overrides: [{ name: globex, key: ['ann<script>"'], limit: 2/1d }, { key: [bob], limit: 0/1d }] }
  - { name: bound, match: { path: /nowhere }, key: [{ header: x-user }], limit: 1/1d,
      refusal: { body: '{"rule": "{rule}"}', content_type: application/json } }
`

// TestRefusals: what clients get of a refusal is what its rule states, and what operators get has the rule and the
// override, in the access log and in a metric.
func TestRefusals(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	dir := t.TempDir()
	log, bindings, addr := filepath.Join(dir, "access.log"), filepath.Join(dir, "bindings.yaml"), proc.FreeAddr(t)
	fatal.If(t, os.WriteFile(bindings, []byte("bindings: [{ domain: pop, descriptor: [{ key: user }], rule: bound }]\n"), 0o600))
	s := stack.Start(t, stack.Config{
		PoPs: 1, Workers: 1, Rules: refusalRules,
		RegionConfig: fmt.Sprintf("rls_budget: 10s\nrls_headers: true\ndescriptors: %s\nrls_listen: %s\n", bindings, addr),
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetRateLimit(addr, "pop", header("x-bound", "user"))
			b.SetPlugin(map[string]any{"span_tags": true})
			b.SetAccessLog(log)
		},
	})
	awaitRules(t, s)
	p := s.PoPs[0]
	refused := func(path string, headers ...string) stack.Response {
		t.Helper()
		for range 3 {
			if r := p.Get(path, append(headers, "x-user", "ann<script>\"")...); r.Status != http.StatusOK || r.Header.Get("Grpc-Status") != "" {
				return r
			}
		}
		t.Fatalf("%s is not refused", path)
		return stack.Response{}
	}
	for _, c := range []struct {
		path    string
		headers []string
		status  int
		want    map[string]string
		body    string
	}{
		{"/plain", nil, 429, map[string]string{"Content-Type": `^application/problem\+json$`, "Retry-After": `^\d+$`, "X-Weir-Rule": "^plain$"}, `"violated-policies":\["plain"\]`},
		{"/json", nil, 403, map[string]string{"Content-Type": `^application/json$`, "Retry-After": `^\d+$`, "X-Weir-Rule": "^json$", "X-Ratelimit-Reset": `^\d{10}$`},
			`^{"rule": "json", "wait": [1-9]\d*, "limit": 1}$`},
		{"/json", []string{"content-type", "application/grpc"}, 200, map[string]string{"Grpc-Status": "^7$", "Grpc-Message": ": json$", "X-Weir-Rule": "^json$"}, `^$`},
		{"/page", nil, 503, map[string]string{"Content-Type": `^text/html; charset=utf-8$`}, `^<p>page$`},
		{"/secret", nil, 429, map[string]string{"Retry-After": `^\d+$`, "Ratelimit": "^$", "Ratelimit-Policy": "^$", "X-Weir-Rule": "^$"}, `^{[^{}]*"status":429}\s*$`},
		{"/secret", []string{"content-type", "application/grpc"}, 200, map[string]string{"Grpc-Status": "^8$", "Grpc-Message": "^[^:]*$", "X-Weir-Rule": "^$"}, `^$`},
		{"/tiers", []string{"x-tier", "gold"}, 429, map[string]string{"X-Weir-Rule": "^tiers/gold$", "Ratelimit-Policy": `^"tiers";q=2;w=3600$`}, "."},
		{"/tiers", []string{"x-tier", "tin"}, 429, map[string]string{"X-Weir-Rule": "^tiers/override-2$", "Ratelimit-Policy": `^"tiers";q=1;w=3600$`}, "."},
		{"/keys", nil, 429, map[string]string{"X-Weir-Rule": "^keys/acme$", "Ratelimit-Policy": `^"keys";q=2;w=86400$`}, `"violated-policies":\["keys"\],"rule":"keys","override":"acme","policy":"\\"keys\\";q=2;w=86400","remaining":0,"retry-after":[1-9]\d*}`},
		{"/each", nil, 429, map[string]string{"X-Weir-Rule": "^each/globex$", "Ratelimit-Policy": `^"each";q=2;w=86400$`}, "."},
		// The rate limit service: the status is Envoy's, and the headers are those of envoyproxy/ratelimit.
		{"/", []string{"x-bound", "ann"}, 429, map[string]string{"Content-Type": `^application/json$`, "X-Weir-Rule": "^$"}, `^{"rule": "bound"}$`},
	} {
		r := refused(c.path, c.headers...)
		expect(t, r, c.status, c.want)
		if !regexp.MustCompile(c.body).MatchString(r.Body) {
			t.Errorf("%s: body %q does not match %s", c.path, r.Body, c.body)
		}
		if all := fmt.Sprint(r.Header, r.Body); strings.Contains(all, "script") || c.path == "/secret" && strings.Contains(all, "secret") {
			t.Errorf("%s: the client gets %s", c.path, all)
		}
		if kind := r.Header.Get("Content-Type"); strings.HasSuffix(kind, "json") && !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: %q is not JSON", c.path, r.Body)
		}
	}

	seen, wait := map[int]bool{}, 0
	for range 30 {
		r := refused("/tiers", "x-tier", "tin")
		after, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		if _, t, ok := strings.Cut(r.Header.Get("RateLimit"), ";t="); ok {
			wait, _ = strconv.Atoi(t)
		}
		if seen[after] = true; after < wait || after > 2*wait+1 {
			t.Errorf("Retry-After %d of a wait of %d s", after, wait)
		}
	}
	if len(seen) < 15 {
		t.Errorf("Retry-After has %d values of 30", len(seen))
	}

	const key = `","key":"ann<script>\\"".*` // as JSON has it
	logs(t, log, `:secret`+key+`"remaining":"0".*"rule":"secret"`, `:tiers/gold`+key+`"override":"gold".*"policy":"\\"tiers\\";q=2;w=3600"`,
		`via_upstream".*"override":"gold"`, `:keys/acme`+key+`"override":"acme".*"policy":"\\"keys\\";q=2;w=86400"`, `via_upstream".*"override":"acme"`,
		`:each/globex`+key+`"override":"globex"`)
	gold := regexp.MustCompile(`(?m)^weir_decisions{rule="tiers",override="gold",decision="denied"} 1$`)
	proc.Eventually(t, 10*time.Second, gold.String(), func() bool {
		return gold.MatchString(do(t, p.Admin, http.MethodGet, "/stats/prometheus").Body)
	})
}

// header is the action that makes an entry of a request header.
func header(name, key string) []any {
	return []any{map[string]any{"request_headers": map[string]any{"header_name": name, "descriptor_key": key}}}
}
