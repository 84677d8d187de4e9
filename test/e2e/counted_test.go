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

// upstreamOf plays what stands behind the counted requests.
//
//	/target      200
//	/redirect    302 to /target
//	/flaky       503, and 200 every third time
//	/ws          echoes one line over an upgraded connection, until the client leaves
func upstreamOf(calls *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		switch r.URL.Path {
		case "/redirect":
			w.Header().Set("location", "http://"+r.Host+"/target")
			w.WriteHeader(http.StatusFound)
		case "/flaky":
			if n%3 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/ws":
			echo(w, r.Header.Get("upgrade"))
		}
	})
}

// echo takes the connection over, answers that, and repeats what the client sends.
func echo(w http.ResponseWriter, upgrade string) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %s\r\n\r\n", upgrade)
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			return
		}
		fmt.Fprint(c, line)
	}
}

// counted is one Envoy with routes of these kinds.
type counted struct {
	t     *testing.T
	pop   *stack.PoP
	calls atomic.Int64 // of the upstream
}

func startCounted(t *testing.T) *counted {
	c := &counted{t: t}
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: countedRules, Upstream: upstreamOf(&c.calls), Bootstrap: func(b *envoy.Bootstrap) {
		type m = map[string]any
		b.AddRoute(m{"match": m{"path": "/flaky"}, "route": m{"cluster": "upstream", "retry_policy": m{"retry_on": "5xx", "num_retries": 2}}})
		b.AddRoute(m{"match": m{"path": "/redirect"}, "route": m{"cluster": "upstream", "internal_redirect_policy": m{"max_internal_redirects": 1}}})
		b.AddUpgrade("websocket")
	}})
	awaitRules(t, s)
	c.pop = s.PoPs[0]
	return c
}

// allowed is how many requests a rule has admitted. The filter's counters are brought
// up to date every 100 ms, later on a busy machine: they are read until they stand still.
func (c *counted) allowed(rule string) (n int64) {
	c.t.Helper()
	name := "wasmcustom.weir.decisions.rule." + rule + ".decision.allowed"
	for before := int64(-1); n != before; time.Sleep(300 * time.Millisecond) {
		n, before = c.pop.Stats(name)[name], n
	}
	return n
}

// expect runs f and expects that rules count so many requests of it.
func (c *counted) expect(t *testing.T, f func(), want map[string]int64) {
	t.Helper()
	before := map[string]int64{}
	for rule := range want {
		before[rule] = c.allowed(rule)
	}
	f()
	for rule, n := range want {
		name := fmt.Sprintf("%s has counted %d requests", rule, n)
		proc.Eventually(t, 5*time.Second, name, func() bool { return c.allowed(rule)-before[rule] >= n })
		if got := c.allowed(rule) - before[rule]; got != n {
			t.Errorf("rule %s counted %d requests, want %d", rule, got, n)
		}
	}
}

// status sends a request with headers, over a connection of its own.
func (c *counted) status(path string, headers ...string) int {
	c.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(c.get(path, headers...)) // follows no redirect
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (c *counted) get(path string, headers ...string) *http.Request {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://"+c.pop.Addr+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Close = true
	return req
}

// What counts as a request: what Envoy's filter chain sees the beginning of.
func TestWhatIsCounted(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	c := startCounted(t)
	t.Run("retries", c.retries)
	t.Run("internal redirects", c.redirects)
	t.Run("WebSocket", c.upgrade)
}

// A request that Envoy's router tries three times counts once.
func (c *counted) retries(t *testing.T) {
	c.calls.Store(0)
	c.expect(t, func() {
		if s := c.status("/flaky"); s != 200 {
			t.Errorf("status %d, want 200 at the third try", s)
		}
	}, map[string]int64{"any": 1})
	if n := c.calls.Load(); n != 3 {
		t.Errorf("%d requests at the upstream, want 3", n)
	}
}

// An internal redirect counts again, as the request for its target that it is: once
// with the rules of the first path, once with those of the target, and twice with
// rules that both match. Its slot is given back before the second request begins.
func (c *counted) redirects(t *testing.T) {
	c.expect(t, func() {
		if s := c.status("/redirect", "x-slot", "1"); s != 200 {
			t.Errorf("status %d, want that of the target: 200", s)
		}
	}, map[string]int64{"any": 2, "target": 1, "slot": 2})
}

// An upgrade counts once, at its handshake, whatever goes over the connection then;
// and it holds its slot until the connection ends.
func (c *counted) upgrade(t *testing.T) {
	const handshake = "GET /ws HTTP/1.1\r\nhost: pop\r\nconnection: upgrade\r\nupgrade: websocket\r\n" +
		"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nx-slot: 1\r\n\r\n"
	c.expect(t, func() {
		conn, err := net.Dial("tcp", c.pop.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(conn, handshake)
		r := bufio.NewReader(conn)
		line, _ := r.ReadString('\n')
		if !strings.HasPrefix(line, "HTTP/1.1 101 ") {
			t.Fatalf("handshake answered with %q, want status 101", line)
		}
		for line != "\r\n" {
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 50 {
			fmt.Fprintf(conn, "message %d\n", i)
			if line, err = r.ReadString('\n'); line != fmt.Sprintf("message %d\n", i) {
				t.Fatalf("message %d: %q came back (%v)", i, line, err)
			}
		}
		if s := c.status("/target", "x-slot", "1"); s != 429 {
			t.Errorf("status %d beside an open connection that holds the only slot, want 429", s)
		}
	}, map[string]int64{"any": 1, "slot": 1})
	proc.Eventually(t, 5*time.Second, "the slot of a connection that ended is free", func() bool { return c.status("/target", "x-slot", "1") == 200 })
}
