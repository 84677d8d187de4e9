package describe

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A rule is told in the words that people have for it.
func TestRule(t *testing.T) {
	for fields, want := range map[string]string{
		"key: [client_ip], limit: 5/1m, match: { method: POST, path: /login }, on_failure: deny":                                           "5 requests per minute per client IP · POST /login · enforced · exact · rejects if the region is unavailable",
		"key: [client_ip], limit: 5/10m, count: { status: [403, 401, 5xx], grpc_status: [16] }":                                            "5 responses (5xx, 401, 403, gRPC 16) per 10 minutes per client IP · all requests · enforced · exact · admits if the region is unavailable",
		"key: [], limit: 90/1m, cost: { estimate: 1, actual: { trailer: x-used }, max: 9 }":                                                "90 units per minute in total · all requests · enforced · cost from the response: trailer x-used · leased · admits if the region is unavailable",
		"key: [], limit: 2000/10s, mode: shadow, match: { path: { prefix: /v1/ } }":                                                        "2000 requests per 10 seconds in total · /v1/… · on trial: rejects nothing · leased · admits if the region is unavailable",
		"key: [client_ip], limit: 5/10m, on_limit: { block: 1h }":                                                                          "5 requests per 10 minutes per client IP · all requests · enforced · blocks a key that reaches the limit for 1h · exact · admits if the region is unavailable",
		"limit: 1/90ms, scope: pop, key: [{ header: x-user, else: client_ip }, path]":                                                      "1 request per 90 milliseconds per x-user or client IP and path · all requests · enforced · counted by each PoP alone",
		"key: [], limit: 9/2h, cost: 3, consistency: leased, match: { method: [GET, PUT], host: a.example.com, header: { x-tier: gold } }": "9 units per 2 hours in total · GET or PUT on a.example.com with 1 more condition · enforced · leased · admits if the region is unavailable",
		"key: [], limit: { count: 100, per: 1s, burst: 200 }, algorithm: token_bucket, scope: global, consistency: leased":                 "100 requests per second (burst 200) in total · all requests · enforced · one limit for all regions · leased · admits if the region is unavailable",
		"limit: 3, algorithm: concurrency, key: [client_ip], consistency: leased":                                                          "3 requests at a time per client IP · all requests · enforced · leased · admits if the region is unavailable",
		"mode: exempt, match: { path: { regex: '/health.*' } }":                                                                            "lifts all other rules · paths like /health.* · never rejects",
		"shed: { capacity: 200 }, match: { path: [/a, /b, /c, /d] }":                                                                       "sheds load · /a, /b and 2 more · enforced",
		"key: [], limit: 5/1m, match: { header: { x-a: { present: true }, x-b: '1' } }, mode: off":                                         "5 requests per minute in total · requests with 2 more conditions · off · exact · admits if the region is unavailable",
	} {
		r := ruleOf(t, fields)
		if got := strings.Join(Rule(r), " · "); got != want {
			t.Errorf("%s:\n%s, want\n%s", fields, got, want)
		}
	}
	if got := Limit(ruleOf(t, "key: [client_ip], limit: 1/1m, count: { status: [401] }")); got != "1 response (401) per minute per client IP" {
		t.Error(got)
	}
	if got := Limit(ruleOf(t, "key: [client_ip], limit: 5/1m")); got != "5 per minute per client IP" {
		t.Error(got)
	}
}

// The example of a rule is a request that it counts or sheds, with each source that it looks at.
func TestExample(t *testing.T) {
	for fields, want := range map[string]string{
		"key: [{ header: x-user }], limit: 5/1m, mode: off, match: { method: [POST, PUT], path: { prefix: /login } }":                                                                 `{"method":"POST","path":"/logina","headers":{"x-user":"a1"}}`,
		"key: [client_ip, path], limit: 5/1m, match: { host: '*.b.c', path: { template: '/u/{id}' }, query: { q: a b, r: { present: true } } }":                                       `{"host":"www.b.c","path":"/u/a?q=a+b\u0026r=a","client":"192.0.2.1"}`,
		"key: [{ client_ip: { trusted_hops: 2 } }, { cookie: d }], limit: 5/1m, match: { cookie: { c: '1' }, header: { x: { present: false } } }":                                     `{"path":"/","headers":{"cookie":"c=1; d=a1","x-forwarded-for":"192.0.2.1, 192.0.2.254"},"client":"192.0.2.1"}`,
		"key: [{ claim: sub, else: san }, { metadata: { namespace: n, key: k } }, { label: l }, san, route, region, host], limit: 5/1m, match: { region: eu, client_ip: 10.0.0.0/8 }": `{"host":"a1","path":"/","client":"10.0.0.0","claims":{"sub":"a1"},"metadata":{"n:k":"a1"},"san":"a1","route":"a1","region":"eu","labels":{"l":"a1"}}`,
		"shed: { capacity: 9 }, match: { path: { regex: '/health.*' } }":                                                                                                              `{"path":"/health.*"}`,
		"key: [client_ip], limit: 5/1m, match: { percent: { from: 99, to: 100 } }":                                                                                                    `{"path":"/","client":"192.0.2.6"}`,
		"key: [client_ip], limit: 5/1m, match: { path: { regex: '/v[12]' } }":                                                                                                         "null",
		"mode: exempt, match: { path: /a }": "null",
	} {
		r := ruleOf(t, fields)
		if got := fatal.Get(json.Marshal(Example(r, 0, time.Now())))(t); string(got) != want {
			t.Errorf("%s:\n%s, want\n%s", fields, got, want)
		}
	}
}

func ruleOf(t *testing.T, fields string) *rule.Rule {
	t.Helper()
	d := fatal.Get(rulefile.Read("rules.yaml", []byte("rules: [{ name: a, "+fields+" }]\n")))(t)
	return d.Set.Rule(0)
}
