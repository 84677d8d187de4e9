package daemon

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Without TLS calls stay on this machine, unless that is allowed by name. All plain ones are
// logged, each address by itself, with what to change.
func TestPlain(t *testing.T) {
	near := []string{"127.0.0.1:1", "127.9.8.7:1", "localhost:2", "[::1]:3"}
	far := []string{"10.0.0.7:4", "weir-global:5", "localhost.example:6", "[2001:db8::1]:7", "0.0.0.0:8", ":9"}
	all := slices.Concat(near, far)
	for name, c := range map[string]struct {
		calls                    AggregatorCalls
		usable, warned, rejected []string
	}{
		"plain":         {AggregatorCalls{}, near, near, far},
		"plain allowed": {AggregatorCalls{AggregatorPlain: true}, all, all, nil},
		"TLS":           {AggregatorCalls{AggregatorTLS: ClientTLS{TLS: true}}, all, nil, nil},
	} {
		log := new(proc.Lines)
		if usable := c.calls.usable(all, slog.New(slog.NewTextHandler(log, nil))); !slices.Equal(usable, c.usable) {
			t.Errorf("%s: %q may be called, want %q", name, usable, c.usable)
		}
		for _, address := range all {
			end := "address=" + address + "\n"
			if warned := len(log.With("level=WARN", "--aggregator-tls", end)) == 1; warned != slices.Contains(c.warned, address) {
				t.Errorf("%s: warned of %s: %v", name, address, warned)
			}
			if rejected := len(log.With("level=ERROR", "--aggregator-tls-ca", "--aggregator-plain", end)) == 1; rejected != slices.Contains(c.rejected, address) {
				t.Errorf("%s: rejected %s: %v", name, address, rejected)
			}
			c.calls.Region, c.calls.Aggregator = "eu", []string{address}
			err := c.calls.Check()
			if rejected := err != nil && strings.Contains(err.Error(), "aggregator: calls of \""+address+"\"") && strings.Contains(err.Error(), plainRemedy); rejected != slices.Contains(c.rejected, address) {
				t.Errorf("%s: --aggregator %s: %v", name, address, err)
			}
		}
	}
}
