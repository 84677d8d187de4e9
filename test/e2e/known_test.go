package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Each rule has a path of its own and admits one request per key and day.
const knownRules = `
rules:
  - { name: sub, match: { path: /sub }, key: [{ claim: sub, else: client_ip }], LIMIT }
  - { name: team, match: { path: /team }, key: [{ claim: team, else: client_ip }], LIMIT }
  - { name: realm, match: { path: /realm }, key: [{ claim: realm.id }], LIMIT }
  - { name: url, match: { path: /url }, key: [{ claim: "https://example.com/team" }], LIMIT }
  - { name: gold, match: { path: /plan, claim: { realm.plan: gold } }, key: [], LIMIT }
  - { name: level, match: { path: /level, claim: { level: "3" } }, key: [], LIMIT }
  - { name: trusted, match: { path: /trusted, claim: { trusted: "true" } }, key: [], LIMIT }
  - { name: stranger, match: { path: /stranger, not: { claim: { sub: { present: true } } } }, key: [], LIMIT }
  - { name: san, match: { path: /san }, key: [san], LIMIT }
  - { name: san-or-address, match: { path: /san-or-address }, key: [{ san: {}, else: client_ip }], LIMIT }
  - { name: route, match: { path: { prefix: /route/ } }, key: [route], LIMIT }
  - { name: here, match: { path: /here, region: [eu, us] }, key: [region, { label: tier }], LIMIT }
  - { name: elsewhere, match: { path: /elsewhere, region: us }, key: [], LIMIT }
  - { name: edge, match: { path: /edge, label: { tier: { prefix: ed } } }, key: [], LIMIT }
  - { name: core, match: { path: /core, label: { tier: core } }, key: [], LIMIT }
  - { name: session, match: { path: /session }, key: [{ cookie: session }], LIMIT }
`

// What Envoy knows of a request, and what a PoP knows of itself, are in rules what they are in Envoy: claims of a
// verified token, the name in a verified certificate, the route, region and labels, cookies.
func TestKnown(t *testing.T) {
	onlyLong(t)
	if envoy.Native() {
		t.Skip("the native module does not read claims")
	}
	t.Parallel()
	a, dir := pki.NewAuthority(), t.TempDir()
	fatal.If(t, a.Write(dir, "server", "localhost"))
	secure, ca := proc.FreeAddr(t), filepath.Join(dir, "ca.pem")
	log, rules := filepath.Join(dir, "access.log"), strings.ReplaceAll(knownRules, "LIMIT", "limit: 1/1d, algorithm: fixed_window, scope: pop")
	s := start(t, stack.Config{
		PoPs: 1, Rules: rules,
		Plugin: map[string]any{"region": "eu", "labels": map[string]string{"tier": "edge"}, "span_tags": true},
		Bootstrap: func(b *envoy.Bootstrap) {
			b.VerifyTokens(tokenKeys(), ca)
			b.SetAccessLog(log)
			b.LogMore(fieldsOfPage(t))
			for path, name := range map[string]string{"/route/a": "first", "/route/a2": "first", "/route/b": "second", "/route/unnamed": ""} {
				b.AddRoute(map[string]any{"name": name, "match": map[string]any{"path": path}, "route": map[string]any{"cluster": "upstream"}})
			}
			b.AddClientTLS(secure, filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key"), ca)
		},
	})
	p := s.PoPs[0]
	for _, c := range []struct {
		path, claims string // no claims: no token
		want         int
	}{
		{path: "/sub", claims: `"sub":"ann"`, want: 200},
		{path: "/sub", claims: `"sub":"ann"`, want: 429},
		{path: "/sub", claims: `"sub":"john.doe"`, want: 200}, // 8 bytes, as a number
		{path: "/sub", claims: `"sub":42`, want: 401},         // Envoy itself: the sub of a token is a string
		{path: "/sub", want: 200},                             // by its address
		{path: "/sub", claims: `"other":"ann"`, want: 429},
		{path: "/team", claims: `"team":42`, want: 200},
		{path: "/team", claims: `"team":"42"`, want: 429},     // the same client
		{path: "/team", claims: `"team":"ümläut"`, want: 200}, // 8 bytes
		{path: "/team", claims: `"team":["a"]`, want: 200},    // by its address, as all below
		{path: "/team", claims: `"team":{"a":1}`, want: 429},
		{path: "/team", claims: `"team":null`, want: 429},
		{path: "/team", claims: `"team":1.5`, want: 429},
		{path: "/team", claims: `"team":""`, want: 429},
		{path: "/team", claims: `"team":"a\nb"`, want: 429},
		{path: "/team", want: 429},
		{path: "/realm", claims: `"realm":{"id":"a"}`, want: 200},
		{path: "/realm", claims: `"realm":{"id":"a"}`, want: 429},
		{path: "/realm", claims: `"realm":"a"`, want: 200},
		{path: "/realm", claims: `"realm":"a"`, want: 200}, // not counted
		{path: "/url", claims: `"https://example.com/team":"x"`, want: 200},
		{path: "/url", claims: `"https://example.com/team":"x"`, want: 429},
		{path: "/plan", claims: `"realm":{"plan":"gold"}`, want: 200},
		{path: "/plan", claims: `"realm":{"plan":"gold"}`, want: 429},
		{path: "/plan", claims: `"realm":{"plan":"silver"}`, want: 200},
		{path: "/level", claims: `"level":3`, want: 200},
		{path: "/level", claims: `"level":3`, want: 429},
		{path: "/level", claims: `"level":30`, want: 200},
		{path: "/trusted", claims: `"trusted":true`, want: 200},
		{path: "/trusted", claims: `"trusted":true`, want: 429},
		{path: "/trusted", claims: `"trusted":false`, want: 200},
		{path: "/stranger", want: 200},
		{path: "/stranger", want: 429},
		{path: "/stranger", claims: `"sub":"ann"`, want: 200},
		{path: "/route/a", want: 200},
		{path: "/route/a2", want: 429},
		{path: "/route/b", want: 200},
		{path: "/route/unnamed", want: 200},
		{path: "/route/unnamed", want: 200}, // not counted
		{path: "/here", want: 200},
		{path: "/here", want: 429},
		{path: "/elsewhere", want: 200},
		{path: "/elsewhere", want: 200}, // not counted
		{path: "/edge", want: 200},
		{path: "/edge", want: 429},
		{path: "/core", want: 200},
		{path: "/core", want: 200}, // not counted
	} {
		var headers []string
		if c.claims != "" {
			headers = append(headers, "authorization", "Bearer "+token(c.claims))
		}
		if r := p.Get(c.path, headers...); r.Status != c.want {
			t.Errorf("%s of %s: %d, want %d: %s", c.path, c.claims, r.Status, c.want, r.Body)
		}
	}
	t.Run("names in certificates", func(t *testing.T) { namesInCertificates(t, secure, a) })
	t.Run("as logged", func(t *testing.T) { asLogged(t, log, proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules)) })
	t.Run("cookies", func(t *testing.T) { cookies(t, secure) })
}

// Of the lines that Envoy has logged with the fields of docs/access-log.md weir explain says which rule counted the request under which
// key, and weir rules replay rejects as many as Envoy did. The log has no labels, and no claim with a colon in its name.
func asLogged(t *testing.T, log, rules string) {
	var text []byte
	proc.Eventually(t, 10*time.Second, "the access log has the last request", func() bool {
		text, _ = os.ReadFile(log)
		return strings.Count(string(text), `"path":"/san-or-address"`) == 3
	})
	tool := func(line string, answer any, args ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(weirPrints(t, line, append(args, "--rules", rules)...)), answer); err != nil {
			t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, line)
		}
	}
	rejected, decided := map[string]int{}, ""
	for line := range strings.Lines(string(text)) {
		var did struct {
			Rule, Key string
			Status    int
		}
		fatal.If(t, json.Unmarshal([]byte(line), &did))
		if did.Status == http.StatusUnauthorized {
			continue // the filter has not seen it
		}
		decided += line
		if did.Status == http.StatusTooManyRequests {
			rejected[did.Rule]++
		}
		var is struct {
			Rules []struct {
				Rule, Counted    string
				Applies, Unknown bool
			}
		}
		tool(line, &is, "explain", "--line", "-", "-o", "json", "--label", "tier=edge")
		for _, r := range is.Rules {
			if wrong := r.Applies != (r.Rule == did.Rule) || r.Applies && did.Key != "" && r.Counted != did.Key; wrong && !(r.Unknown && r.Rule == "url") {
				t.Errorf("explained as %+v: %s", r, line)
			}
		}
	}
	var replayed struct {
		Rules []struct {
			Rule            string
			Denied, Unknown int
		}
	}
	tool(decided, &replayed, "rules", "replay", "-", "-o", "json")
	for _, r := range replayed.Rules {
		if unknown := slices.Contains([]string{"url", "here", "edge", "core"}, r.Rule); unknown != (r.Unknown > 0) || !unknown && r.Denied != rejected[r.Rule] {
			t.Errorf("%+v, Envoy rejected %d", r, rejected[r.Rule])
		}
	}
}

// fieldsOfPage are those that docs/access-log.md has for weir explain and weir rules replay, with the headers and claims of knownRules.
func fieldsOfPage(t *testing.T) (fields map[string]any) {
	t.Helper()
	_, text, _ := strings.Cut(shipped(t, "docs/access-log.md"), "\n```yaml\njson_format:\n")
	text, _, _ = strings.Cut(text, "\n```\n")
	fatal.If(t, yaml.Unmarshal([]byte(text), &fields))
	fields["headers"] = map[string]any{"cookie": "%REQ(COOKIE)%"}
	claims := fields["claims"].(map[string]any)
	for _, name := range []string{"team", "realm.id", "realm.plan", "level", "trusted"} {
		claims[name] = strings.Replace(claims["sub"].(string), "sub", strings.ReplaceAll(name, ".", ":"), 1)
	}
	return fields
}

// A cookie is found wherever it is: in the first or a later header `cookie`, over HTTP/1.1 and HTTP/2, behind many
// kilobytes of others. Two of one name are a key of their own.
func cookies(t *testing.T, addr string) {
	// 8 KB. Over HTTP/2 each cookie may come as a header, and Envoy takes at most 100 of these.
	many := strings.TrimSuffix(strings.Repeat("other="+strings.Repeat("x", 400)+"; ", 20), "; ")
	for _, http2 := range []bool{false, true} {
		p := new(http.Protocols)
		p.SetHTTP1(!http2)
		p.SetHTTP2(http2)
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: p}}
		defer client.CloseIdleConnections()
		id := fmt.Sprintf("session=of-%v", http2)
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{[]string{id}, 200},
			{[]string{many, id}, 429},
			{[]string{many + "; " + id}, 429},
			{[]string{id + "; " + id}, 200},
			{[]string{id, id}, 429},
			{[]string{id + strings.Repeat("x", 8000)}, 200}, // a key that is longer than keys may be
			{[]string{id + strings.Repeat("x", 7999) + "y"}, 200},
		} {
			req := fatal.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/session", http.NoBody))(t)
			req.Header["Cookie"] = c.headers
			resp, body, err := page.Do(&client, req)
			fatal.If(t, err)
			if resp.StatusCode != c.want || resp.ProtoMajor == 2 != http2 {
				t.Errorf("%s, %d headers cookie of %d bytes: %d, want %d: %s", resp.Proto, len(c.headers), len(strings.Join(c.headers, "")), resp.StatusCode, c.want, body)
			}
		}
	}
}

func namesInCertificates(t *testing.T, addr string, a *pki.Authority) {
	for _, c := range []struct {
		path  string
		names []string // nil: no certificate
		want  int
	}{
		{"/san", []string{"one.example", "spiffe://example/one"}, 200},
		{"/san", []string{"spiffe://example/one", "spiffe://example/two"}, 429}, // the first URI
		{"/san", []string{"one.example"}, 200},
		{"/san", []string{"one.example", "two.example"}, 429}, // the first DNS name
		{"/san", []string{"10.1.2.3"}, 200},                   // neither: not counted
		{"/san", nil, 200},
		{"/san-or-address", []string{"10.1.2.3"}, 200},
		{"/san-or-address", nil, 429},
		{"/san-or-address", []string{"one.example"}, 200},
	} {
		config := a.Client(c.names...)
		config.ServerName = "localhost"
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		resp, body, err := page.Get(t.Context(), &client, "https://"+addr+c.path)
		fatal.If(t, err)
		if resp.StatusCode != c.want {
			t.Errorf("%s with %q: %d, want %d: %s", c.path, c.names, resp.StatusCode, c.want, body)
		}
	}
}

// tokenSecret signs tokens (JWT) by HS256.
const tokenSecret = "a secret of 32 bytes for a test."

// tokenKeys is that secret, as a JWKS.
func tokenKeys() string {
	return `{"keys":[{"kty":"oct","alg":"HS256","kid":"1","k":"` + base64URL(tokenSecret) + `"}]}`
}

// token has these claims, and the issuer of envoy/jwt.yaml.
func token(claims string) string {
	signed := base64URL(`{"alg":"HS256","kid":"1"}`) + "." + base64URL(`{"iss":"https://issuer.example.com",`+claims+`}`)
	mac := hmac.New(sha256.New, []byte(tokenSecret))
	_, _ = mac.Write([]byte(signed)) // never fails
	return signed + "." + base64URL(string(mac.Sum(nil)))
}

func base64URL(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// The recipe for tokens of a language model: Envoy reports what a request took when its response is over, and the PoP
// rejects the next request of a user who has none left, and only of that one.
func TestTokens(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	const recipes = "docs/recipes/"
	rls := proc.FreeAddr(t)
	rules, _, _ := strings.Cut(shipped(t, recipes+"tokens.yaml"), "\ntests:")
	s := start(t, stack.Config{
		PoPs:         1,
		Rules:        rules,
		RegionConfig: "rls_listen: " + rls + "\nratelimit_bindings: " + filepath.Join(proc.Root(t), recipes, "tokens-bindings.yaml") + "\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.Lay("../"+recipes+"tokens-envoy.yaml", "port_value: 8081", "port_value: "+port(rls))
		},
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("x-total-tokens", "60000") }),
	})
	proc.AwaitWindow(time.Minute, 20*time.Second)
	p := s.PoPs[0]
	ask := func(user string) int {
		return do(t, p.Addr, http.MethodPost, "/v1/chat/completions", "x-user-id", user).Status
	}
	passed := 0
	proc.Eventually(t, 10*time.Second, "a request is rejected", func() bool {
		is := ask("ann")
		if is == 200 {
			passed++
		} else if is != 429 {
			t.Errorf("status %d", is)
		}
		return is == 429
	})
	if passed < 2 || passed > 3 { // a request may come before the report of the one before it
		t.Errorf("%d requests of 60000 tokens passed", passed)
	}
	if is := ask("bob"); is != 200 {
		t.Errorf("another user: %d", is)
	}
}

// The access log of docs/access-log.md is that of envoy/pop.yaml. TestKnown compares its fields with what Envoy writes.
func TestAccessLogPage(t *testing.T) {
	_, config, _ := strings.Cut(shipped(t, "docs/access-log.md"), "\n```yaml\n")
	config, _, found := strings.Cut(config, "\n```\n")
	margin := regexp.MustCompile(`(?m)^\s*(#.*\n)?`) // indentation and comments
	plain := func(text string) string { return margin.ReplaceAllString(text, "") }
	if !found || !strings.Contains(plain(shipped(t, "envoy/pop.yaml")), plain(config)) {
		t.Errorf("docs/access-log.md has another access log than envoy/pop.yaml:\n%s", config)
	}
}
