package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// What clients send, and the answers that they get, through an Envoy whose region is away.
func TestClients(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	configs := []string{
		// Two inputs: the filter reads all headers at once.
		`{"rules":[{"name":"open","match":{"path":"/open"},"key":[{"header":"x-user"}],"limit":"5/1m","on_failure":"allow"},
			{"name":"shut","match":{"path":"/shut"},"key":[],"limit":"5/1m","on_failure":"deny"},
			{"name":"address","match":{"path":"/address"},"key":["client_ip"],"limit":"1/24h","scope":"pop"},
			{"name":"user","match":{"path":"/user"},"key":[{"header":"x-user"}],"limit":"1/24h","scope":"pop"},
			{"name":"claims","match":{"path":"/claims"},"key":[{"header":"x-user-id","else":{"const":"nobody"}}],"limit":"1/24h","scope":"pop",
				"overrides":[{"when":{"header":{"x-tier":"gold"}},"limit":"100/24h"}],"cost":{"header":"x-cost","default":1,"max":1}}]}`,
		// One header and nothing else.
		`{"rules":[{"name":"user","key":[{"header":"x-user"}],"limit":"1/24h","scope":"pop"}]}`,
	}
	log := filepath.Join(t.TempDir(), "access.log")
	n := 0
	s := stack.Start(t, stack.Config{PoPs: len(configs), Workers: 1, RegionAddr: "127.0.0.1:9", Strangers: true, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetPlugin(map[string]any{"rules": rawJSON(configs[n])})
		if n == 0 {
			b.SetAccessLog(log)
			b.SetTrustedHops(1)
		}
		n++
	}})
	t.Run("on_failure", func(t *testing.T) { onFailureIsNotTold(t, s.PoPs[0], log) })
	t.Run("heap", func(t *testing.T) { heapIsWatched(t, s.PoPs[0]) })
	t.Run("headers", func(t *testing.T) { sends(t, s.PoPs[0], append(repeated, clientSends...)) })
	t.Run("one header and nothing else", func(t *testing.T) { sends(t, s.PoPs[1], repeated) })
}

// sent is a request and the status that it gets.
type sent struct {
	path    string
	headers []string
	status  int
}

func sends(t *testing.T, p *stack.PoP, requests []sent) {
	for i, c := range requests {
		if got := p.Get(c.path, c.headers...).Status; got != c.status {
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

// That a limit is open for want of a region stands in the access log, and nowhere in
// the response.
func onFailureIsNotTold(t *testing.T, p *stack.PoP, log string) {
	for path, want := range map[string]int{"/open": 200, "/shut": 503} {
		r := p.Get(path, "x-user", "ann")
		r.Header.Del("X-Weir-Rule") // as after any rejection
		if told := strings.ToLower(fmt.Sprint(r.Header, r.Body)); r.Status != want || strings.Contains(told, "weir") || strings.Contains(told, "failure") {
			t.Errorf("%s: status %d, want %d; the client gets %s", path, r.Status, want, told)
		}
	}
	logs(t, log, `"weir":"open allowed on_failure"`, `"weir":"shut denied on_failure"`)
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
