package filter

import (
	"slices"
	"strings"
	"testing"
)

const shedRules = `{"rules":[{"name":"overload","match":{"path":{"prefix":"/v1/"}},"shed":{"capacity":10,"profile":"fast",
	"classes":[{"class":"critical","match":{"path":"/v1/pay"}}]}}]}`

// Beyond its share a class is rejected, with 503 and no word of limits. What is in flight counts until its stream ends, however
// it does; the access log and the metrics have the class.
func TestShed(t *testing.T) {
	e := startNew(t, withRules(t, shedRules), 2)
	var open []*exchange
	come := func(path string) *exchange {
		x := e.send(len(open)%2, ":path", path, ":method", "GET")
		if x.status == 0 {
			open = append(open, x)
		} else {
			e.end(x)
		}
		e.pass(100)
		return x
	}
	for range 8 {
		come("/v1/a")
	}
	rejected := come("/v1/a")
	if len(open) != 8 || rejected.status != 503 || rejected.grpc != 14 || rejected.details != "weir-shed:overload" ||
		rejected.tags != "weir.rule=overload weir.class=normal " || rejected.decision != "" {
		t.Errorf("%d are admitted, and then: %+v", len(open), rejected)
	}
	retry := header(rejected.response, "retry-after")
	want := [][2]string{{"content-type", "application/problem+json"}, {"retry-after", retry}, {"x-envoy-ratelimited", "true"}, {"x-envoy-overloaded", "true"}, {"x-weir-rule", "overload"}}
	if !slices.Equal(rejected.response, want) || !strings.Contains("123", retry) {
		t.Errorf("headers: %q", rejected.response)
	}
	for range 2 {
		come("/v1/pay")
	}
	if rejected := come("/v1/pay"); len(open) != 10 || rejected.tags != "weir.rule=overload weir.class=critical " {
		t.Errorf("%d are admitted, and then: %+v", len(open), rejected)
	}
	if n, r := e.metrics["weir.shed_utilization_permille.rule.overload"], e.metrics["weir.shed_ratio_permille.rule.overload"]; n != 1000 || r != 0 {
		t.Errorf("utilization %d, ratio %d", n, r)
	}
	for name, want := range map[string]int64{
		"allowed.reason.normal": 8, "denied.reason.normal": 1, "allowed.reason.critical": 2, "denied.reason.critical": 1,
	} {
		if n := e.metrics["weir.decisions.rule.overload.decision."+name]; n != want {
			t.Errorf("%s: %d, want %d", name, n, want)
		}
	}
	e.complete(open[0])
	e.end(open[1]) // reset
	for _, x := range open[2:4] {
		e.respondFrom(x) // and goes on
	}
	open = open[2:]
	e.pass(100)
	come("/v1/pay")
	come("/v1/pay")
	if x := come("/v1/pay"); x.status == 0 {
		t.Error("a response that has begun does not count as in flight")
	}
	for _, x := range open {
		e.complete(x)
	}
	e.pass(100)
	if n := e.metrics["weir.shed_utilization_permille.rule.overload"]; n != 0 {
		t.Errorf("utilization %d when all is over", n)
	}
	if x := e.get(0, "/other"); x.status != 0 {
		t.Errorf("%+v", x)
	}
}

// One response in 16, and the first after a tick, is looked at for its status and what the upstream states.
func TestShedByResponses(t *testing.T) {
	const looked = ":status endpoint-load-metrics endpoint-load-metrics-bin"
	for _, c := range []struct{ asks, name, value string }{
		{"", "endpoint-load-metrics", "TEXT application_utilization=1.0, cpu_utilization=0.2"},
		{"", "endpoint-load-metrics", `JSON {"cpu_utilization":1}`},
		{"", "endpoint-load-metrics-bin", "CQAAAAAAAPA/"},
		{`"success":95,`, ":status", "503"},
	} {
		e := startNew(t, withRules(t, strings.Replace(shedRules, `"profile"`, c.asks+`"profile"`, 1)), 1)
		statuses, samples, responses := map[int]int{}, 0, 0
		for i := range 3000 {
			path := "/v1/a"
			if i%10 == 0 {
				path = "/v1/pay"
			}
			x := e.send(0, ":path", path, ":method", "GET")
			x.upstream = [][2]string{{":status", "200"}}
			if c.name == ":status" {
				x.upstream = nil
			}
			x.upstream = append(x.upstream, [2]string{c.name, c.value})
			if statuses[x.status]++; x.status != 0 && path == "/v1/pay" {
				t.Fatal("a critical request is rejected")
			}
			if x.status == 0 {
				if responses++; responses%16 == 1 {
					samples++
				}
				e.respondFrom(x)
			}
			e.end(x)
			e.ns += 5e6
			if i%20 == 0 {
				e.run(0, pluginContext, func(g *VM) { g.Tick(pluginContext) })
				responses = 0
			}
		}
		var names []string
		for _, l := range e.looked {
			names = append(names, l.name)
			if l.n != samples {
				t.Errorf("%s is looked at %d times in %d responses", l.name, l.n, statuses[0])
			}
		}
		if got := strings.Join(names, " "); got != looked {
			t.Errorf("looked at: %s", got)
		}
		if statuses[503] < 500 || e.metrics["weir.shed_ratio_permille.rule.overload"] < 500 {
			t.Errorf("of an upstream that is full: %v, ratio %d", statuses, e.metrics["weir.shed_ratio_permille.rule.overload"])
		}
	}
}
