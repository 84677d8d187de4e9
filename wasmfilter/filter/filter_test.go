package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/version"
)

// startNew is an Envoy with the filter as Go code.
func startNew(t *testing.T, config string, vms int) *envoy {
	return newEnvoy(t, startNative, config, vms)
}

const userRules = `{"rules":[{"name":"user","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],
	"limit":"100/1m","algorithm":"fixed_window"}]}`

// The first request of a key waits for a call to the region, whose answer lets it pass.
func TestCall(t *testing.T) {
	e := startNew(t, withRules(t, userRules), 1)
	x := e.send(0, ":method", "GET", ":path", "/v1/a", "x-user", "ann")
	if !x.paused || len(e.calls) != 1 {
		t.Fatalf("the first request of a key: paused %v, %d calls", x.paused, len(e.calls))
	}
	c := e.inFlight()[0]
	for name, want := range map[string]string{
		":method": "POST", ":path": "/weir.quota.v1.QuotaService/Acquire", ":authority": "weir_region",
		"content-type": "application/proto", "connect-timeout-ms": "100",
	} {
		if got := header(c.headers, name); got != want {
			t.Errorf("call: %s is %q, want %q", name, got, want)
		}
	}
	if c.timeout != 100 {
		t.Errorf("call: timeout %d ms", c.timeout)
	}
	if e.settle(grantOf(99)); x.paused {
		t.Error("still paused after the answer")
	}
}

// A request that an exempt rule lifts a rule from is not decided by it: no call, no header. The access log and the
// metrics name the exempt rule.
func TestExempt(t *testing.T) {
	rules := strings.Replace(userRules, "[", `[{"name":"internal","mode":"exempt","match":{"header":{"x-internal":"1"}}},`, 1)
	e := startNew(t, withRules(t, rules), 1)
	for range 3 {
		x := e.send(0, ":path", "/v1/a", "x-user", "ann", "x-internal", "1")
		e.complete(x)
		if x.paused || len(e.calls) > 0 || len(x.response) > 0 || x.decision != "internal exempt" {
			t.Errorf("paused %v, %d calls, response %v, the access log gets %q", x.paused, len(e.calls), x.response, x.decision)
		}
	}
	if x := e.send(0, ":path", "/v1/a", "x-user", "ann"); !x.paused {
		t.Error("a request that is not exempt passes without its region")
	}
	e.settle(grantOf(99))
	if x := e.get(0, "/other", "x-internal", "1"); x.decision != "" {
		t.Errorf("a request without a rule: %q", x.decision)
	}
	e.pass(100)
	if n := e.metrics["weir.decisions.rule.internal.decision.exempt"]; n != 3 {
		t.Errorf("%d requests count as exempt, want 3: %v", n, e.metrics)
	}
}

// The access log gets the shadow rules that would reject a request that is admitted.
func TestShadowRejectionIsLogged(t *testing.T) {
	e := startNew(t, withRules(t, `{"rules":[
		{"name":"user","consistency":"exact","key":[],"limit":"100/1d"},
		{"name":"small","mode":"shadow","scope":"pop","key":[],"limit":"1/1d"},
		{"name":"trial","mode":"shadow","scope":"pop","key":[],"limit":"3/1d",
			"overrides":[{"name":"tin","when":{"header":{"x-tier":"tin"}},"limit":"1/1d"}]}]}`), 1)
	for i, c := range []struct{ tier, tags string }{
		{"", ""}, {"", "weir.shadow=small "}, {"", "weir.shadow=small "}, {"", "weir.shadow=small,trial "},
		{"tin", "weir.shadow=small "}, {"tin", "weir.shadow=small,trial/tin "},
	} {
		if x := e.get(0, "/", "x-tier", c.tier); x.status != 0 || x.tags != c.tags {
			t.Errorf("%d: status %d, the access log gets %q, want %q", i, x.status, x.tags, c.tags)
		}
	}
}

// A client that a limit of 0 rejects is not told to come back, and one that finds no slot not
// when: nobody knows when a stream ends.
func TestNoRetryAfter(t *testing.T) {
	e := startNew(t, withRules(t, userRules), 1)
	for i := range 3 { // by the region, by the table, by the cache
		x := e.send(0, ":path", "/v1/a", "x-user", "ann")
		if i == 0 {
			e.settle(grantsOf(lease.Grant{Status: lease.Denied, RetryAfter: lease.Never, AskAfter: 1000, Reset: 30_500}))
		}
		if x.status != 429 || header(x.response, "retry-after") != "" || header(x.response, "ratelimit") != `"user";r=0` {
			t.Errorf("%d: status %d, headers %q", i, x.status, x.response)
		}
		e.complete(x)
	}
	e = startNew(t, withRules(t, `{"rules":[{"name":"streams","key":[],"limit":1,"algorithm":"concurrency","scope":"pop"}]}`), 1)
	e.send(0, ":path", "/v1/a")
	if x := e.send(0, ":path", "/v1/a"); x.status != 429 || header(x.response, "retry-after") != "" || header(x.response, "ratelimit") != `"streams";r=0` {
		t.Errorf("a second stream: status %d, headers %q", x.status, x.response)
	}
}

// What a region that fails in any way leaves to on_failure, also where Envoy has no such cluster: a call fails at once, in the
// callback of the request, or later. Its answer is not the rule's rejection, since a retry may reach a PoP that can decide.
func TestRegionFails(t *testing.T) {
	for name, c := range map[string]struct {
		answers func(*httpCall)
		logs    string
	}{
		"hangs": {hang, ""}, "rejects": {reject, ""}, "garbage": {garbage, ""}, "no cluster": {nil, "weir_region"},
		"cut":         {func(*httpCall) {}, "before it was whole"},
		"not made":    {func(c *httpCall) { c.failed = true }, "no call can be made to the Envoy cluster weir_region"},
		"forbidden":   {answersWith("403"), `answers a call with HTTP status 403 and "the reason"; give this PoP a certificate for a name that the region allows`},
		"no such API": {answersWith("404"), `answers a call with HTTP status 404 and "the reason"; make sure that it leads to weir-regional`},
	} {
		for action, want := range map[string]int{"allow": 0, "deny": 503} {
			e := startNew(t, withFields(t, `"on_failure":"`+action+`","rejection":{"status":403,"body":"No","content_type":"text/plain","grpc_status":7}`), 1)
			e.noCall = c.answers == nil
			x := e.send(0, ":path", "/v1/a", "x-user", "ann")
			e.settle(c.answers)
			if x.status != want || want == 0 && x.paused || !e.logged(c.logs) {
				t.Errorf("%s, %s: status %d, paused %v, log %q", name, action, x.status, x.paused, e.logs)
			}
			e.complete(x)
			if !strings.HasSuffix(x.decision, "on_failure") || strings.Contains(fmt.Sprint(x.response), "on_failure") {
				t.Errorf("%s, %s: the access log gets %q, the client %q", name, action, x.decision, x.response)
			}
			if want != 0 && (x.grpc != 14 || !strings.Contains(x.body, "temporary-reduced-capacity") ||
				header(x.response, "content-type") != "application/problem+json" || header(x.response, "x-envoy-ratelimited") != "") {
				t.Errorf("%s: gRPC status %d, headers %q, body %s", name, x.grpc, x.response, x.body)
			}
		}
	}
}

// answersWith answers a call with another status than a region's.
func answersWith(status string) func(*httpCall) {
	return func(c *httpCall) { c.status, c.answer = status, []byte("the reason") }
}

// A configuration that cannot be used does not stop Envoy.
func TestBadConfig(t *testing.T) {
	for config, text := range map[string]string{
		``: "region_cluster",
		`{"region_cluster":"weir_region","before_rules":"deny","table_pages":17}`: "power of two",
		`{"before_rules":"deny","typo":1}`:                                        "typo",
	} {
		e, want := startNew(t, config, 1), 0
		if strings.Contains(config, "deny") {
			want = 503
		}
		if x := e.send(0, ":path", "/"); x.status != want {
			t.Errorf("%s: status %d, want %d", config, x.status, want)
		}
		if e.logged("no call can be made") {
			t.Errorf("%s: complains of a cluster that it cannot check: %q", config, e.logs)
		}
		e.pass(100)
		if !e.logged(text) || e.metrics["weir.config_error"] != 1 {
			t.Errorf("%s: config_error %d, log %q", config, e.metrics["weir.config_error"], e.logs)
		}
	}
}

// A configuration that cannot be used, or on which the filter panics, does not replace one of the same name that could,
// in a listener that replaces another: rules, before_rules and all.
func TestBadConfigKeepsTheLast(t *testing.T) {
	for _, c := range []struct {
		config, panics, logged string
		count                  int64
	}{
		{`{"before_rules":"allow","ratelimit_headers":false,"typo":1}`, "", "typo", 0},
		{`{"region_cluster":"other"}`, "clock", "panic in on_configure", 1},
	} {
		e := startNew(t, withRules(t, strings.Replace(userRules, `"limit"`, `"scope":"pop","limit"`, 1)), 1)
		const second = 2
		e.config, e.crossed.panics = c.config, c.panics
		e.run(0, second, func(g *VM) {
			g.Configure(second, len(e.config))
			g.Deleted(pluginContext)
		})
		x := e.sendTo(0, second, ":path", "/v1/a", "x-user", "ann")
		if e.complete(x); header(x.response, "ratelimit") == "" {
			t.Errorf("%s: the last good configuration is gone: response %v", c.config, x.response)
		}
		e.run(0, second, func(g *VM) { g.Tick(second) })
		if !e.logged(c.logged) || e.metrics["weir.panics"] != c.count || e.metrics["weir.config_error"] != 1 {
			t.Errorf("%s: metrics %v, log %q", c.config, e.metrics, e.logs)
		}
	}
}

// A VM in the place of one that was thrown away is counted, and none that starts with the others or for another listener.
func TestReplacedVM(t *testing.T) {
	e := startNew(t, withRules(t, userRules), 2) // the second of another worker
	e.send(0, ":path", "/other")
	e.pass(6000)
	e.run(1, 2, func(g *VM) { g.Configure(2, len(e.config)) }) // a listener that is added or changed
	if n := e.metrics["weir.vm_replaced"]; n != 0 {
		t.Errorf("%d VMs count as replaced, want none", n)
	}
	e.addVM() // FAIL_RELOAD
	if n := e.metrics["weir.vm_replaced"]; n != 1 {
		t.Errorf("%d VMs count as replaced, want 1", n)
	}
}

// A stream may wait for a plugin that is removed: the newest one decides also streams of older ones. It falls back.
func TestPluginIsRemovedWhileStreamsWait(t *testing.T) {
	e := startNew(t, withRules(t, failRules), 1)
	const second = 2
	e.run(0, second, func(g *VM) { g.Configure(second, len(e.config)) })
	denied, allowed := e.send(0, ":path", "/deny", "x-user", "ann"), e.send(0, ":path", "/allow", "x-user", "ann")
	if !denied.paused || !allowed.paused {
		t.Fatal("the requests do not wait")
	}
	e.run(0, second, func(g *VM) { g.Deleted(second) })
	e.run(0, pluginContext, func(g *VM) { g.Tick(pluginContext) })
	if denied.status != 429 || allowed.status != 0 || allowed.paused {
		t.Errorf("on_failure: deny has status %d, allow %d; it still waits: %v", denied.status, allowed.status, allowed.paused)
	}
	e.end(denied)
	e.complete(allowed)
}

// While an old listener drains, new streams follow the newest configuration of their plugin's
// name, whichever listener takes them, and those that wait finish by theirs. Listeners with
// other names have configurations of their own. The VM states its version once.
func TestTwoConfigurations(t *testing.T) {
	e := startNew(t, withRules(t, strings.Replace(userRules, `"limit"`, `"scope":"pop","limit"`, 1)), 1)
	old := e.send(0, ":path", "/v1/a", "x-user", "ann")
	const second, third = 2, 3
	e.named = map[uint32]string{third: "other"}
	with := e.config
	e.config = strings.Replace(with, "{", `{"ratelimit_headers":false,`, 1)
	e.run(0, second, func(g *VM) { g.Configure(second, len(e.config)) })
	headers := func(plugin uint32) bool {
		x := e.sendTo(0, plugin, ":path", "/v1/a", "x-user", "ann")
		e.complete(x)
		return header(x.response, "ratelimit") != ""
	}
	if headers(pluginContext) || headers(second) {
		t.Error("new streams do not follow the newest configuration")
	}
	if e.complete(old); header(old.response, "ratelimit") == "" {
		t.Error("a stream that began before lost its configuration")
	}
	e.config = with
	e.run(0, third, func(g *VM) { g.Configure(third, len(e.config)) })
	if headers(pluginContext) || headers(second) || !headers(third) {
		t.Error("a listener does not follow the configuration of its plugin's name")
	}
	e.run(0, second, func(g *VM) { g.Deleted(second) }) // the update was rejected
	if !headers(pluginContext) {
		t.Error("the old configuration does not decide after the new one went")
	}
	e.run(0, third, func(g *VM) { g.Deleted(third) })
	if !headers(pluginContext) {
		t.Error("the configuration that is left does not decide")
	}
	if n := strings.Count(strings.Join(e.logs, "\n"), version.Version); n != 1 {
		t.Errorf("the log has the version %d times: %q", n, e.logs)
	}
}

// Plugins of a VM that differ in name, region, cluster or pop share neither denials nor leases, and each calls its own
// cluster. A changed configuration of a plugin that does not differ in them keeps both.
func TestPluginsShareNothing(t *testing.T) {
	first := strings.Replace(withRules(t, userRules), "{", `{"region":"eu",`, 1)
	e := startNew(t, first, 1)
	rejectedBy(e)
	e.named = map[uint32]string{}
	next := uint32(pluginContext)
	check := func(what, name, config string, shares bool) {
		t.Helper()
		e.named[next+1], e.config, next = name, config, next+1
		e.run(0, next, func(g *VM) { g.Configure(next, len(e.config)) })
		x := e.sendTo(0, next, ":path", "/v1/a", "x-user", "ann")
		if waits := x.status == 0; waits == shares {
			t.Errorf("%s: status %d, waits for the region: %v", what, x.status, waits)
		}
		for _, c := range e.inFlight() {
			if c.plugin == next && !strings.Contains(config, `"region_cluster":"`+c.cluster+`"`) {
				t.Errorf("%s: calls the cluster %s", what, c.cluster)
			}
		}
		e.settle(plenty)
		if e.complete(x); x.paused != shares {
			t.Errorf("%s: is not admitted by its own region", what)
		}
		for range 5 { // until there is a lease
			y := e.sendTo(0, next, ":path", "/v1/a", "x-user", "ann")
			e.settle(plenty)
			e.complete(y)
		}
	}
	us := strings.Replace(strings.Replace(first, `"eu"`, `"us"`, 1), `"weir_region"`, `"weir_region_us"`, 1)
	check("another configuration", "", strings.Replace(first, "{", `{"span_tags":true,`, 1), true)
	check("another name, region and cluster", "weir-us", us, false)
	check("another name", "other", first, false)
	check("another region", "", strings.Replace(first, `"eu"`, `"us"`, 1), false)
	check("another cluster", "", strings.Replace(first, `"weir_region"`, `"weir_region_2"`, 1), false)
	check("another pop", "", strings.Replace(first, `"test"`, `"test-2"`, 1), false)
	check("the first one again", "", first, true)

	e.named[next+1], e.config, next = "weir-us", strings.Replace(us, "{", `{"span_tags":true,`, 1), next+1
	e.run(0, next, func(g *VM) { g.Configure(next, len(e.config)) })
	if x := e.sendTo(0, next, ":path", "/v1/a", "x-user", "ann"); x.paused || x.status != 0 {
		t.Errorf("an update lost the lease: paused %v, status %d", x.paused, x.status)
	}
}

// Where a host wakes streams, each of those that waited is finished by itself, and one that has ended meanwhile is not.
// The VM asks for no early ticks. If the host keeps headers, the VM need not know of the response.
func TestHostThatWakes(t *testing.T) {
	e := startNew(t, withRules(t, userRules), 1)
	e.wakes = true
	waits := func(user string) *exchange { return e.send(0, ":path", "/v1/a", "x-user", user) }
	a, b, gone, late := waits("ann"), waits("bob"), waits("eve"), waits("joe")
	e.settle(grantsOf(lease.Grant{Status: lease.OK, Granted: 1, TTL: 10_000, Limit: 100, Remaining: 1, Reset: 60_000}))
	if len(e.woken) != 4 || a.resumed || e.tickMs != tickEvery {
		t.Fatalf("woken %v, resumed %v, ticks every %d ms", e.woken, a.resumed, e.tickMs)
	}
	e.end(gone)
	if m := e.vms[0]; !m.Keeps(a.id) || m.Keeps(gone.id) || m.Keeps(4711) {
		t.Error("the VM keeps other streams than those that wait")
	}
	for _, stream := range append(e.woken, 4711) {
		e.run(0, stream, func(m *VM) { m.Finish(stream) })
	}
	if !a.resumed || !b.resumed || gone.resumed || !late.resumed {
		t.Errorf("resumed: %v, %v, %v, %v", a.resumed, b.resumed, gone.resumed, late.resumed)
	}
	if rate := header(a.response, "ratelimit"); e.vms[0].Keeps(a.id) || rate == "" {
		t.Errorf("the VM keeps a stream that it has finished, with RateLimit %q", rate)
	}
	if e.complete(a); len(a.response) != 2 {
		t.Errorf("the response has %q", a.response)
	}
}
