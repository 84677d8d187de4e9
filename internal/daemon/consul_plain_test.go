package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with are the lines that have all parts.
func (l *lines) with(parts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// await waits until so many lines have all parts.
func (l *lines) await(t *testing.T, count int, parts ...string) {
	t.Helper()
	proc.Await(t, time.Minute, fmt.Sprintf("%d lines with %q", count, parts), func() string {
		if found := l.with(parts...); len(found) < count {
			return fmt.Sprintf("%q", found)
		}
		return ""
	})
}

// A region without certificates does not call an aggregator that Consul has on another machine.
// It logs why, at each change in Consul, and calls those on its own machine.
func plainInConsul(t *testing.T, agent *consultest.Agent) {
	config := func() *Config {
		cfg := testConfig()
		cfg.Listen, cfg.Consul = proc.FreeAddr(t), agent.Addr
		return cfg
	}
	region := func(calls AggregatorCalls) *lines {
		log := new(lines)
		runBeside(t, config(), Program{Name: "weir-regional", AggregatorCalls: &calls}, slog.New(slog.NewTextHandler(log, nil)))
		return log
	}
	const far = "198.18.0.1:8080" // RFC 2544: it is nobody's
	region(AggregatorCalls{Region: "ap"}).await(t, 1, "level=WARN", "no aggregator that passes its check; none is called until one does")
	elsewhere, here := config(), config()
	elsewhere.Advertise = far
	runBeside(t, elsewhere, Program{Name: aggregatorService}, slog.New(slog.DiscardHandler))

	refusing, allowing := region(AggregatorCalls{Region: "eu"}), region(AggregatorCalls{Region: "us", AggregatorPlain: true})
	refuses := []string{"level=ERROR", "aggregator in consul is not called", "--aggregator-tls-cert", "--aggregator-plain", "address=" + far}
	refusing.await(t, 1, refuses...)
	allowing.await(t, 1, "level=WARN", "neither TLS nor authentication", "address="+far)
	const calls = "aggregators in consul\" addresses="
	allowing.await(t, 1, calls+"["+far+"]")

	runBeside(t, here, Program{Name: aggregatorService}, slog.New(slog.DiscardHandler))
	refusing.await(t, 1, calls+"["+here.Listen+"]")
	refusing.await(t, 1, "level=WARN", "neither TLS nor authentication", "address="+here.Listen)
	refusing.await(t, 2, refuses...)
	allowing.await(t, 2, calls)
	if more := refusing.with(calls, far); len(more) > 0 {
		t.Errorf("it calls the other machine: %q", more)
	}
}
