package daemon

import (
	"log/slog"
	"testing"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A region without certificates does not call an aggregator that Consul has on another machine.
// It logs why, at each change in Consul, and calls those on its own machine.
func plainInConsul(t *testing.T, agent *consultest.Agent) {
	run := func(name string, calls *AggregatorCalls, advertise string) (log *proc.Lines, listens string) {
		cfg := testConfig()
		cfg.Listen, cfg.Consul, cfg.Advertise = proc.FreeAddr(t), agent.Addr, advertise
		log = new(proc.Lines)
		runBeside(t, cfg, Program{Name: name, AggregatorCalls: calls}, slog.New(slog.NewTextHandler(log, nil)))
		return log, cfg.Listen
	}
	const far, calls = "198.18.0.1:8080", "aggregators in consul\" addresses=" // RFC 2544: it is nobody's
	rejecting, _ := run("weir-regional", &AggregatorCalls{Region: "eu"}, "")
	rejecting.Await(t, 1, "level=WARN", "no aggregator that passes its check; none is called until one does")
	run(aggregatorService, nil, far)
	rejects := []string{"level=ERROR", "aggregator in consul is not called", "--aggregator-tls-cert", "--aggregator-plain", "address=" + far}
	rejecting.Await(t, 1, rejects...)
	allowing, _ := run("weir-regional", &AggregatorCalls{Region: "us", AggregatorPlain: true}, "")
	allowing.Await(t, 1, calls+"["+far+"]")

	_, here := run(aggregatorService, nil, "")
	rejecting.Await(t, 1, calls+"["+here+"]")
	rejecting.Await(t, 1, "level=WARN", "neither TLS nor authentication", "address="+here)
	rejecting.Await(t, 2, rejects...)
	if more := rejecting.With(calls, far); len(more) > 0 {
		t.Errorf("it calls the other machine: %q", more)
	}
}
