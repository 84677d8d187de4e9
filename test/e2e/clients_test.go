package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// sent is a request and the status that it gets.
type sent struct {
	path    string
	headers []string
	status  int
}

func sends(t *testing.T, addr string, requests []sent) {
	for i, c := range requests {
		if got := do(t, addr, http.MethodGet, c.path, c.headers...).Status; got != c.status {
			t.Errorf("request %d, %s %q: status %d, want %d", i, c.path, c.headers, got, c.status)
		}
	}
}

// A header that is sent several times is one value, joined as Envoy joins them, whatever else the filter reads.
var repeated = []sent{
	{"/user", []string{"x-user", "ann"}, 200},
	{"/user", []string{"x-user", "ann"}, 429},
	{"/user", []string{"x-user", "ann", "x-user", "bob"}, 200}, // another key: neither ann's nor bob's
	{"/user", []string{"x-user", "ann,bob"}, 429},              // the same
	{"/user", []string{"x-user", "", "x-user", "bob"}, 200},
	{"/user", []string{"x-user", ",bob"}, 429},
}

// Claims of a client are removed before the filter sees them, in any spelling. Behind one trusted proxy the client is the
// one that the proxy saw.
var clientSends = []sent{
	{"/claims", []string{"x-user-id", "ann", "x-tier", "gold"}, 200}, // nobody's one request
	{"/claims", []string{"x-user-id", "bob", "x-tier", "gold", "x-cost", "0"}, 429},
	{"/claims", []string{"X-User-Id", "eve", "x-user-id", "eve"}, 429},
	{"/claims", []string{"x_user_id", "eve"}, 400},
	{"/address", []string{"x-forwarded-for", "203.0.113.1, 198.51.100.1"}, 200},
	{"/address", []string{"x-forwarded-for", "203.0.113.2, 198.51.100.1"}, 429},
	{"/address", []string{"x-forwarded-for", "203.0.113.1, 198.51.100.2"}, 200},
}

// The monitor of the heap works, and is far from rejecting anything at start.
func heapIsWatched(t *testing.T, p *stack.PoP) {
	const monitor = "overload.envoy.resource_monitors.fixed_heap."
	var stats map[string]int64
	proc.Eventually(t, 10*time.Second, "the monitor has looked", func() bool {
		stats = p.Stats(monitor)
		_, looked := stats[monitor+"pressure"]
		return looked && (stats[monitor+"pressure"] > 0 || envoy.Native()) // its heap is less than 1 %
	})
	if stats[monitor+"pressure"] > 25 || stats[monitor+"failed_updates"] > 0 {
		t.Errorf("%v: want a pressure of at most 25 %%", stats)
	}
}
