package filter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// withFields are the rules of userRules with more fields.
func withFields(t *testing.T, fields string) string {
	return withRules(t, strings.Replace(userRules, `"limit"`, fields+`,"limit"`, 1))
}

// rejectedBy sends a request that the region rejects.
func rejectedBy(e *envoy, headers ...string) *exchange {
	x := e.send(0, append([]string{":path", "/v1/a", "x-user", "ann"}, headers...)...)
	e.settle(grantOf(0))
	return x
}

// names are those of all response headers.
func (x *exchange) names() (names []string) {
	for _, h := range x.response {
		names = append(names, h[0])
	}
	slices.Sort(names)
	return names
}

// Status, body and content type of a rejection are those of the rule, whoever rejects: the region, the table or the cache of
// denials. A gRPC client gets a gRPC status. With headers: off nothing that a client gets has the rule's name or its limit; the access log has its name.
func TestRejectionForm(t *testing.T) {
	for _, c := range []struct {
		fields        string
		status        int
		kind, body    string
		names         string // of headers
		grpc, message string
	}{
		{`"rejection":{"status":403,"body":"{\"rule\":\"{rule}\",\"wait\":{retry_after},\"limit\":{limit}}","content_type":"application/json","grpc_status":7}`,
			403, "application/json", `{"rule":"user","wait":31,"limit":100}`,
			"[content-type ratelimit ratelimit-policy retry-after x-envoy-ratelimited x-weir-rule]", "7", ": user"},
		{`"cost":1`, 429, "application/problem+json", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["user"],` +
			`"rule":"user","policy":"\"user\";q=100;w=60","remaining":0,"retry-after":31}` + "\n",
			"[content-type ratelimit ratelimit-policy retry-after x-envoy-ratelimited x-weir-rule]", "8", ": user"},
		{`"headers":"off"`, 429, "application/problem+json", `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Request cannot be satisfied as assigned quota has been exceeded","status":429}` + "\n",
			"[content-type retry-after x-envoy-ratelimited]", "8", "exceeded"},
	} {
		e := startNew(t, withFields(t, c.fields), 1)
		for i, kinds := range [][2]string{
			{"application/grpc-web", "application/grpc"}, {"application/grpcfoo", "application/grpc+proto"}, {"application/connect+proto", "application/grpc+"},
		} {
			x := rejectedBy(e, "content-type", kinds[0])
			if x.status != c.status || x.body != c.body || header(x.response, "content-type") != c.kind || fmt.Sprint(x.names()) != c.names ||
				header(x.response, "retry-after") != "31" || x.details != "weir-denied:user" || x.tags != "weir.rule=user weir.key=ann weir.remaining=0 " ||
				strings.Contains(c.names, "policy") && fmt.Sprint(header(x.response, "ratelimit-policy"), header(x.response, "ratelimit")) != `"user";q=100;w=60"user";r=0;t=31` {
				t.Errorf("%d: status %d, details %s, headers %q, body %s", i, x.status, x.details, x.response, x.body)
			}
			x = rejectedBy(e, "content-type", kinds[1])
			if x.status != 200 || header(x.response, "grpc-status") != c.grpc || header(x.response, "content-type") != "application/grpc" ||
				!strings.HasSuffix(header(x.response, "grpc-message"), c.message) || x.body != "" {
				t.Errorf("%d: gRPC: status %d, %q, body %q", i, x.status, x.response, x.body)
			}
			e.complete(x)
		}
		if e.pass(100); e.metrics["weir.decisions.rule.user.decision.denied"] != 6 {
			t.Errorf("metrics: %v", e.metrics)
		}
	}
}

// Of several rules the headers state those that are not hidden; nothing of any, where a hidden
// one rejects. X-RateLimit-* replace those of the upstream.
func TestHeadersOffAmongOthers(t *testing.T) {
	rules := withRules(t, `{"rules":[
		{"name":"hidden","key":[],"limit":"3/1d","algorithm":"fixed_window","scope":"pop","headers":"off"},
		{"name":"open","key":[],"limit":"9/1d","algorithm":"fixed_window","scope":"pop"},
		{"name":"old","key":[],"limit":"99/1d","algorithm":"fixed_window","scope":"pop","headers":["x-draft03"]}]}`)
	e := startNew(t, rules, 1)
	x := e.send(0, ":path", "/")
	x.upstream = [][2]string{
		{"x-ratelimit-limit", "7"}, {"x-ratelimit-remaining", "6"}, {"x-ratelimit-reset", "5"}, {"ratelimit", `"up";r=1;t=9`},
	}
	if e.complete(x); len(x.upstream) != 1 {
		t.Errorf("of the upstream's headers remain %q", x.upstream)
	}
	for name, want := range map[string]string{
		"ratelimit-policy": `"open";q=9;w=86400`, "ratelimit": `"open";r=8;t=52600`,
		"x-ratelimit-limit": "99", "x-ratelimit-remaining": "98", "x-ratelimit-reset": "52600",
	} {
		if got := header(x.response, name); got != want {
			t.Errorf("admitted: %s is %q, want %q", name, got, want)
		}
	}
	e.get(0, "/")
	e.get(0, "/")
	if x = e.get(0, "/"); x.status != 429 || fmt.Sprint(x.names()) != "[content-type retry-after x-envoy-ratelimited]" {
		t.Errorf("status %d, headers %q", x.status, x.response)
	}
	e = startNew(t, strings.Replace(rules, "x-draft03", "x-unix", 1), 1)
	if x = e.get(0, "/"); header(x.response, "x-ratelimit-reset") != "1800057600" { // a time of day
		t.Errorf("x-unix: %q", x.response)
	}
	e = startNew(t, strings.Replace(rules, "{", `{"ratelimit_headers":false,`, 1), 1)
	if x = e.get(0, "/"); len(x.response) != 0 {
		t.Errorf("ratelimit_headers: false: %q", x.response)
	}
}

// Clients and the access log get the override that is used, by its name or its place. That of a key, which the region
// states, they get from a lease, from the table, from the cache of denials and at another worker, until the next reply.
// Counters have those of rules with a name.
func TestOverridesAreNamed(t *testing.T) {
	rules := withFields(t, `"overrides":[{"name":"gold","when":{"header":{"x-user":"eve"}},"limit":"300/1m"},
		{"when":{"header":{"x-user":"tim"}},"limit":"3/1m"}]`)
	e := startNew(t, strings.Replace(rules, "{", `{"span_tags":true,`, 1), 2)
	grants := overriding("acme", lease.Grant{Status: lease.OK, Granted: 100, TTL: 10_000, Limit: 300, Remaining: 250, Reset: 30_500})
	no := lease.Grant{Status: lease.Denied, Limit: 300, RetryAfter: 30_500, AskAfter: 1000, Reset: 30_500}
	ended, few := no, no
	ended.Limit, few.Limit = 100, 3
	for i, c := range []struct {
		worker   int
		user     string
		answer   func(*httpCall) // if it is asked for
		override string
	}{
		{0, "ann", grants, "acme"}, {0, "ann", grants, "acme"}, {0, "ann", grants, "acme"}, {0, "ann", grants, "acme"}, {1, "ann", grants, "acme"},
		{0, "eve", grantsOf(no), "gold"}, {0, "tim", grantsOf(few), "override-2"},
		{0, "bob", overriding("globex", no), "globex"}, {0, "bob", grantsOf(ended), "globex"}, {1, "bob", grantsOf(ended), "globex"}, {1, "bob", grantsOf(ended), ""},
	} {
		if c.override == "" {
			e.pass(2000)
		}
		x := e.send(c.worker, ":path", "/v1/a", "x-user", c.user)
		e.settle(c.answer)
		e.complete(x)
		policy, consistency, tag, name, outcome := `"user";q=100;w=60`, "leased", "", "user", "allowed"
		if c.override != "" {
			policy, tag, name = `"user";q=300;w=60`, "weir.override="+c.override+" ", "user/"+c.override
		}
		if c.user == "tim" {
			policy, consistency = `"user";q=3;w=60`, "exact"
		}
		if c.user != "ann" {
			outcome, tag = "denied", tag+"weir.key="+c.user+" weir.remaining=0 "
		}
		tag = "weir.rule=user weir.outcome=" + outcome + " weir.consistency=" + consistency + " weir.degraded=false " + tag
		if header(x.response, "ratelimit-policy") != policy || x.tags != tag {
			t.Errorf("%d: headers %q, tags %q; want %s", i, x.response, x.tags, name)
		}
		if c.user != "ann" && (x.status != 429 || header(x.response, "x-weir-rule") != name || x.details != "weir-denied:"+name) {
			t.Errorf("%d: status %d, details %s, headers %q; want %s", i, x.status, x.details, x.response, name)
		}
	}
	e.pass(100)
	counted := map[string]int64{}
	for name, n := range e.metrics {
		if strings.Contains(name, "override") {
			counted[name] = n
		}
	}
	if want := (map[string]int64{
		"weir.decisions.rule.user.override.gold.decision.denied": 1, "weir.waits.rule.user.override.gold": 1,
	}); !maps.Equal(counted, want) {
		t.Errorf("overrides are counted as %v, want %v", counted, want)
	}
}

// Two keys that lack different amounts are told so, and a key whose rule has hide_keys: true is not in the access log.
func TestWhatRemainsOfEachKey(t *testing.T) {
	for fields, keys := range map[string]bool{"": true, `,"hide_keys":true`: false} {
		e := startNew(t, withFields(t, `"scope":"pop","cost":{"header":"x-cost","max":100}`+fields), 1)
		for user, left := range map[string]string{"ann": "30", "bob": "20"} {
			e.get(0, "/v1/a", "x-user", user, "x-cost", map[string]string{"ann": "70", "bob": "80"}[user])
			x := e.get(0, "/v1/a", "x-user", user, "x-cost", "40")
			want := "weir.rule=user weir.remaining=" + left + " "
			if keys {
				want = "weir.rule=user weir.key=" + user + " weir.remaining=" + left + " "
			}
			if x.status != 429 || !strings.HasPrefix(header(x.response, "ratelimit"), `"user";r=`+left+";") ||
				!strings.Contains(x.body, `"remaining":`+left+",") || x.tags != want {
				t.Errorf("%s: headers %q, body %s, the access log gets %q; want %s left", user, x.response, x.body, x.tags, left)
			}
		}
	}
}

// A client cannot write into a response: neither what it is counted by nor where it sends its
// request is in the headers or in the body.
func TestNothingOfTheRequestIsInARejection(t *testing.T) {
	const evil = "x\"}\r\nset-cookie: a<script>{rule}"
	for _, fields := range []string{`"cost":1`, `"rejection":{"body":"<p>{rule} {limit} {retry_after}","content_type":"text/html"}`} {
		e := startNew(t, withFields(t, fields), 1)
		for range 3 {
			x := e.send(0, ":path", "/v1/"+evil, ":authority", evil, ":method", evil, "x-user", evil, "x-weir-rule", evil, "retry-after", evil, "content-type", evil)
			e.settle(grantOf(0))
			if all := fmt.Sprint(x.response, x.body, x.details); x.status != 429 || strings.Contains(all, "script") || strings.Contains(all, "cookie") {
				t.Errorf("status %d, %s", x.status, all)
			}
		}
	}
}
