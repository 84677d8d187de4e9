package filter

import (
	"strings"
	"testing"
)

const shedRules = `{"rules":[{"name":"overload","match":{"path":{"prefix":"/v1/"}},"shed":{"capacity":10,"profile":"fast",
	"classes":[{"class":"critical","match":{"path":"/v1/pay"}}]}}]}`

// Beyond its share a class is rejected with 503. What is in flight counts until its stream ends, however it does; the access log
// and the metrics have the class.
func TestShed(t *testing.T) {
	e := startNew(t, withRules(t, shedRules), 2)
	var open []*exchange
	come := func(path string, n int) (last *exchange) {
		for range n {
			last = e.send(len(open)%2, ":path", path, ":method", "GET")
			if last.status == 0 {
				open = append(open, last)
			} else {
				e.end(last)
			}
			e.pass(100)
		}
		return last
	}
	for _, c := range []struct{ path, class string }{{"/v1/a", "normal"}, {"/v1/pay", "critical"}} {
		x := come(c.path, 9)
		if x.status != 503 || x.grpc != 14 || x.details != "weir-shed:overload" || x.tags != "weir.rule=overload weir.class="+c.class+" " ||
			x.decision != "" || header(x.response, "x-envoy-overloaded") != "true" {
			t.Errorf("%d are admitted, and then: %+v", len(open), x)
		}
	}
	for name, want := range map[string]int64{
		"decisions.rule.overload.decision.allowed.reason.normal": 8, "decisions.rule.overload.decision.denied.reason.normal": 1,
		"decisions.rule.overload.decision.allowed.reason.critical": 2, "decisions.rule.overload.decision.denied.reason.critical": 7,
		"shed_utilization_permille.rule.overload": 1000, "shed_ratio_permille.rule.overload": 0,
	} {
		if n := e.metrics["weir."+name]; n != want {
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
	if come("/v1/pay", 2).status != 0 || come("/v1/pay", 1).status == 0 {
		t.Error("not two of ten requests in flight have ended")
	}
	for _, x := range open {
		e.complete(x)
	}
	e.pass(100)
	if n := e.metrics["weir.shed_utilization_permille.rule.overload"]; n != 0 {
		t.Errorf("utilization %d when all is over", n)
	}
}

// Responses count by their status and what the upstream states.
func TestShedByResponses(t *testing.T) {
	for _, c := range []struct {
		success, name, value string
		utilization          int64
	}{
		{"", "endpoint-load-metrics", "TEXT application_utilization=0.9, cpu_utilization=0.2", 900},
		{"", "endpoint-load-metrics-bin", "CQAAAAAAAPA/", 1000},
		{`"success":95,`, "x-none", "", 0},
		{`"success":95,`, ":status", "503", 1000},
	} {
		e := startNew(t, withRules(t, strings.Replace(shedRules, `"profile"`, c.success+`"profile"`, 1)), 1)
		for range 10 {
			for range 17 {
				x := e.send(0, ":path", "/v1/a", ":method", "GET")
				x.upstream = [][2]string{{c.name, c.value}, {":status", "200"}}
				e.complete(x)
			}
			e.pass(100)
		}
		if n := e.metrics["weir.shed_utilization_permille.rule.overload"]; n != c.utilization {
			t.Errorf("%s: %s: utilization %d, want %d", c.name, c.value, n, c.utilization)
		}
	}
}
