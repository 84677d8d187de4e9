package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// Without TLS calls stay on this machine, unless that is allowed by name. All plain ones are
// logged, each address by itself, with what to change.
func TestPlain(t *testing.T) {
	near := []string{"127.0.0.1:1", "127.9.8.7:1", "localhost:2", "[::1]:3"}
	far := []string{"10.0.0.7:4", "weir-global:5", "localhost.example:6", "[2001:db8::1]:7", "0.0.0.0:8", ":9"}
	all := slices.Concat(near, far)
	for name, c := range map[string]struct {
		calls           AggregatorCalls
		usable          []string
		warned, refused []string
	}{
		"plain":         {AggregatorCalls{}, near, near, far},
		"plain allowed": {AggregatorCalls{AggregatorPlain: true}, all, all, nil},
		"TLS":           {AggregatorCalls{AggregatorTLS: ClientTLS{TLS: true}}, all, nil, nil},
	} {
		var lines strings.Builder
		usable := c.calls.usable(all, slog.New(slog.NewTextHandler(&lines, nil)))
		if !slices.Equal(usable, c.usable) {
			t.Errorf("%s: %q may be called, want %q", name, usable, c.usable)
		}
		if warned := named(t, lines.String(), "level=WARN", "--aggregator-tls"); !slices.Equal(warned, c.warned) {
			t.Errorf("%s: warned of %q, want %q", name, warned, c.warned)
		}
		if refused := named(t, lines.String(), "level=ERROR", "--aggregator-tls-ca", "--aggregator-plain"); !slices.Equal(refused, c.refused) {
			t.Errorf("%s: refused %q, want %q", name, refused, c.refused)
		}
		for _, address := range all {
			c.calls.Region, c.calls.Aggregator = "eu", []string{address}
			err := c.calls.Check()
			if refused := err != nil && strings.Contains(err.Error(), "aggregator: calls of \""+address+"\"") && strings.Contains(err.Error(), plainRemedy); refused != slices.Contains(c.refused, address) {
				t.Errorf("%s: --aggregator %s: %v", name, address, err)
			}
		}
	}
}

// named are the addresses in the lines of one level, each of which has to have the remedies.
func named(t *testing.T, log, level string, remedies ...string) []string {
	t.Helper()
	var named []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, level) {
			continue
		}
		for _, remedy := range remedies {
			if !strings.Contains(line, remedy) {
				t.Errorf("%q does not name %s", line, remedy)
			}
		}
		_, address, _ := strings.Cut(strings.TrimSpace(line), "address=")
		named = append(named, address)
	}
	return named
}
