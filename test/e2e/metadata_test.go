package e2e

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// metadataValues are values that a filter sets before Weir, with the key that they are, and what they cost with a default
// of 2 and a max of 7.
var metadataValues = []struct {
	name  string
	value any
	key   string // in a regular expression
	cost  int
}{
	{"text", "ann", `ann`, 7},
	{"digits", "3", `3`, 3},
	{"list-of-costs", "1,4", `1,4`, 4},
	{"number", 5, `5`, 5},
	{"zero", 0, `0`, 1},
	{"negative", -3, `-3`, 7},
	{"fraction", 1.5, `const none`, 7},
	{"large", 1 << 53, `const none`, 7},
	{"huge", 1e300, `const none`, 7},
	{"boolean", true, `true`, 7},
	{"list", []any{1}, `const none`, 7},
	{"empty-list", []any{}, `const none`, 7},
	{"struct", map[string]any{"a": 1}, `const none`, 7},
	{"empty", "", `const none`, 2},
	{"absent", nil, `const none`, 2},
	{"null-value", nil, `const none`, 2},
	{"tab", "5\t", `const none`, 7},
	{"zero-byte", "5\x00", `const none`, 7},
	{"8-bytes", "12345678", `12345678`, 7},
	{"64-KiB", strings.Repeat("7", 64<<10), `\\\\k[0-9a-f]{32}`, 7},
	{"letters", "¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿ÀÁÂÃÄÅÆÇÈÿ", `[^"]*ÿ`, 7}, // one byte each in ISO 8859-1
}

const metadataRules = `
  - { name: large, match: { path: /match, metadata: { "ai:model": large } }, key: [], limit: 0/1d, scope: pop }
  - { name: override, match: { path: /override }, key: [], limit: 0/1d, scope: pop,
      overrides: [{ name: large, when: { metadata: { "ai:model": { prefix: lar } } }, limit: 5/1d }] }
  - { name: sent, match: { path: /sent }, key: [{ metadata: { namespace: ai, key: model } }], limit: 0/1d, scope: pop }
  - { name: tokens, match: { path: /tokens }, key: [{ header: x-tokens }], limit: 100/1d, scope: pop, cost: { metadata: { namespace: ai, key: tokens }, max: 50 } }
  - { name: off, match: { path: /off }, key: [], limit: 0/1d, scope: pop }
`

// rulesOfMetadata are these rules, and two for each value.
func rulesOfMetadata() string {
	rules := metadataRules
	for _, v := range metadataValues {
		at := `{ metadata: { namespace: fixed, key: ` + v.name + ` }`
		rules += "  - { name: key-" + v.name + ", match: { path: /key/" + v.name + " }, key: [" + at + ", else: { const: none } }], limit: 0/1d, scope: pop }\n" +
			"  - { name: cost-" + v.name + ", match: { path: /cost/" + v.name + " }, key: [], limit: 10/1d, scope: pop, cost: " + at + ", default: 2, max: 7 } }\n"
	}
	return rules
}

// setMetadata has filters before Weir set the values, and metadata that a request or the upstream states.
func setMetadata(b *envoy.Bootstrap) {
	type m = map[string]any
	add := func(kind string, config m) {
		config["@type"] = "type.googleapis.com/envoy.extensions.filters.http." + kind
		b.AddFilter(m{"name": kind, "typed_config": config})
	}
	values := m{}
	for _, v := range metadataValues {
		if v.name != "absent" {
			values[v.name] = v.value
		}
	}
	add("set_metadata.v3.Config", m{"metadata": []any{m{"metadata_namespace": "fixed", "value": values}}})
	from := func(header, kind string) m {
		return m{"header": header, "on_header_present": m{"metadata_namespace": "ai", "key": strings.TrimPrefix(header, "x-"), "type": kind}}
	}
	add("header_to_metadata.v3.Config", m{"request_rules": []any{from("x-model", "STRING"), from("x-tokens", "NUMBER")}, "response_rules": []any{from("x-used", "NUMBER")}})
	b.AddRoute(m{"match": m{"path": "/off"}, "route": m{"cluster": "upstream"}, "typed_per_filter_config": m{
		"weir": m{"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true}}})
}

// Both modules read dynamic metadata that filters before them set: as a key, as a condition and as a cost. On a route that
// disables the filter, it does nothing.
func readsMetadata(t *testing.T, p *stack.PoP, log string, native bool) {
	var keys []string
	for _, v := range metadataValues {
		expect(t, p.Get("/key/"+v.name), 429, nil)
		keys = append(keys, `"key":"`+v.key+`"[^}]*"path":"/key/`+v.name+`"`)
		if native && v.name == "null-value" {
			v.cost = 7 // the ABI does not distinguish it from a struct
		}
		expect(t, p.Get("/cost/"+v.name), 200, map[string]string{"RateLimit": fmt.Sprintf(`^"cost-%s";r=%d;`, v.name, 10-v.cost)})
	}
	logs(t, log, keys...)
	for _, c := range []struct {
		path, model string
		want        int
		headers     map[string]string
	}{
		{"/match", "large", 429, nil},
		{"/match", "small", 200, nil},
		{"/override", "large", 200, map[string]string{"RateLimit-Policy": `^"override";q=5;`}},
		{"/override", "small", 429, nil},
		{"/sent", "a|b", 429, nil},
		{"/sent", "b\xffb", 200, nil}, // no UTF-8: the rule has no key
	} {
		expect(t, p.Get(c.path, "x-model", c.model), c.want, c.headers)
	}
	logs(t, log, `"key":"a\\\\\|b"`)
	for tokens, cost := range map[string]int{"30": 30, "51": 50, "0": 1, "-1": 50, "2.5": 50, "1e30": 50, "many": 1} { // many is no number: Envoy sets nothing
		expect(t, p.Get("/tokens", "x-tokens", tokens), 200, map[string]string{"RateLimit": `^"tokens";r=` + strconv.Itoa(100-cost) + `;`})
	}
	if r := p.Get("/off"); r.Status != 200 || r.Header.Get("RateLimit") != "" {
		t.Errorf("/off: status %d, headers %v", r.Status, r.Header)
	}
}

const headerRules = `
  - { name: told, match: { path: { prefix: /told } }, timeout: 1s, key: [ { header: x-user } ], limit: 2/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny, headers: [draft, x-draft03] }
  - { name: by-address, match: { path: /by-address }, timeout: 1s, key: [ client_ip ], limit: 3/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny }
`

// Headers show a client what is left, and when it was rejected, by which rule and when
// to come back.
func clientHeaders(t *testing.T, s *stack.Stack) {
	for i, p := range s.PoPs {
		user, r := "of-"+p.Name, stack.Response{}
		decides := func(p *stack.PoP) bool {
			r = p.Get("/told", "x-user", user)
			return r.Status != http.StatusServiceUnavailable
		}
		proc.Eventually(t, 10*time.Second, "three requests of a user are decided in time", func() bool {
			if user += "+"; !decides(p) { // another user: one that is late may cost a unit
				return false
			}
			expect(t, r, 200, map[string]string{
				"RateLimit-Policy":      `^"told";q=2;w=86400$`,
				"RateLimit":             `^"told";r=1;t=\d+$`,
				"X-RateLimit-Limit":     `^2`,
				"X-RateLimit-Remaining": `^1$`,
				"X-RateLimit-Reset":     `^\d+$`,
				"Retry-After":           `^$`,
			})
			return decides(p) && decides(s.PoPs[1-i])
		})
		expect(t, r, 429, map[string]string{
			"RateLimit":    `^"told";r=0;t=\d+$`,
			"Retry-After":  `^[1-9]\d*$`,
			"Content-Type": `^application/problem\+json$`,
		})
		day := time.Until(proc.AwaitWindow(24*time.Hour, 0)).Seconds()
		if after, _ := strconv.ParseFloat(r.Header.Get("Retry-After"), 64); math.Abs(after-day) > 60 {
			t.Errorf("Retry-After is %v s, and the day ends in %v s", after, day)
		}
		const exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",`
		for _, part := range []string{exceeded, `,"violated-policies":["told"],`} {
			if !strings.Contains(r.Body, part) {
				t.Errorf("the body of the rejection has no %s: %s", part, r.Body)
			}
		}

		// gRPC: status 200 of HTTP, RESOURCE_EXHAUSTED of gRPC (8).
		proc.Eventually(t, 10*time.Second, "a gRPC request is decided in time", func() bool {
			r = p.Get("/told", "x-user", user, "Content-Type", "application/grpc")
			return r.Header.Get("Grpc-Status") != "14"
		})
		expect(t, r, 200, map[string]string{"Grpc-Status": `^8$`})
	}
}

// Operators see each rule's decisions as one metric with labels.
func operatorSees(t *testing.T, s *stack.Stack) {
	const denied = `weir_decisions{rule="told",decision="denied"}`
	for _, p := range s.PoPs {
		proc.Eventually(t, 10*time.Second, denied, func() bool { return p.Metrics()[denied] > 0 })
	}
}
