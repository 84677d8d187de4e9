package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const countedRules = `
rules:
  - { name: any, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: target, match: { path: /target }, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: slot, match: { header: { x-slot: "1" } }, key: [], limit: 1, algorithm: concurrency, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
`

// What counts as a request: what Envoy's filter chain sees the beginning of.
func TestWhatIsCounted(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var calls atomic.Int64
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		switch r.URL.Path {
		case "/redirect":
			w.Header().Set("location", "http://"+r.Host+"/target")
			w.WriteHeader(http.StatusFound)
		case "/flaky": // 200 every third time
			if n%3 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/ws":
			echo(w)
		}
	})
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: countedRules, Upstream: upstream, Bootstrap: func(b *envoy.Bootstrap) {
		type m = map[string]any
		b.AddRoute(m{"match": m{"path": "/flaky"}, "route": m{"cluster": "upstream", "retry_policy": m{"retry_on": "5xx", "num_retries": 2}}})
		b.AddRoute(m{"match": m{"path": "/redirect"}, "route": m{"cluster": "upstream", "internal_redirect_policy": m{"max_internal_redirects": 1}}})
		b.AddUpgrade("websocket")
	}})
	awaitRules(t, s)
	p := s.PoPs[0]
	status := func(path string, headers ...string) int { return p.Get(path, headers...).Status }
	for _, c := range []struct {
		name string
		send func(t *testing.T)
		want map[string]int64 // by rule
	}{
		{"a request that the router tries three times counts once", func(t *testing.T) {
			before := calls.Load()
			if got := status("/flaky"); got != 200 || calls.Load() != before+3 {
				t.Errorf("status %d after %d tries, want 200 at the third", got, calls.Load()-before)
			}
		}, map[string]int64{"any": 1}},
		// Its slot is given back before the second request begins.
		{"an internal redirect counts again, as the request for its target", func(t *testing.T) {
			if got := status("/redirect", "x-slot", "1"); got != 200 {
				t.Errorf("status %d, want that of the target: 200", got)
			}
		}, map[string]int64{"any": 2, "target": 1, "slot": 2}},
		{"an upgrade counts once, and holds its slot until the connection ends", func(t *testing.T) {
			upgrade(t, p.Addr, func() {
				if got := status("/target", "x-slot", "1"); got != 429 {
					t.Errorf("status %d beside an open connection that holds the only slot, want 429", got)
				}
			})
		}, map[string]int64{"any": 1, "slot": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := map[string]int64{}
			for rule := range c.want {
				before[rule] = allowed(p, rule)
			}
			c.send(t)
			for rule, n := range c.want {
				proc.Eventually(t, 5*time.Second, rule+" has counted", func() bool { return allowed(p, rule)-before[rule] >= n })
				if got := allowed(p, rule) - before[rule]; got != n {
					t.Errorf("rule %s counted %d requests, want %d", rule, got, n)
				}
			}
		})
	}
	proc.Eventually(t, 5*time.Second, "the slot of a connection that ended is free", func() bool { return status("/target", "x-slot", "1") == 200 })
}

// allowed is how many requests a rule has admitted. The filter's counters are brought
// up to date every 100 ms, later on a busy machine: they are read until they stand still.
func allowed(p *stack.PoP, rule string) (n int64) {
	name := "wasmcustom.weir.decisions.rule." + rule + ".decision.allowed"
	for before := int64(-1); n != before; time.Sleep(300 * time.Millisecond) {
		n, before = p.Stats(name)[name], n
	}
	return n
}

// echo takes the connection over, and repeats what the client sends.
func echo(w http.ResponseWriter) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(c, line)
	}
}

// upgrade opens a WebSocket that holds a slot, sends messages, and ends it when what is done beside it is done.
func upgrade(t *testing.T, addr string, beside func()) {
	conn, err := net.Dial("tcp", addr)
	fatal.If(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nhost: pop\r\nconnection: upgrade\r\nupgrade: websocket\r\n"+
		"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nx-slot: 1\r\n\r\n")
	r := bufio.NewReader(conn)
	line, _ := r.ReadString('\n')
	if !strings.HasPrefix(line, "HTTP/1.1 101 ") {
		t.Fatalf("handshake answered with %q, want status 101", line)
	}
	for line != "\r\n" && err == nil {
		line, err = r.ReadString('\n')
	}
	for i := range 50 {
		fmt.Fprintf(conn, "message %d\n", i)
		if line, err = r.ReadString('\n'); line != fmt.Sprintf("message %d\n", i) {
			t.Fatalf("message %d: %q came back (%v)", i, line, err)
		}
	}
	beside()
}
