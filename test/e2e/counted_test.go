package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const countedRules = `
rules:
  - { name: any, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: target, match: { path: /target }, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: one-call, match: { path: { prefix: /grpc.health.v1.Health/ } }, key: [ { header: x-user } ], limit: 1/1d, algorithm: fixed_window, timeout: 1s }
  - { name: slot, match: { headers: { x-slot: "1" } }, key: [], limit: 1, algorithm: concurrency, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
`

// upstreamOf plays what stands behind the counted requests.
//
//	/target      200
//	/redirect    302 to /target
//	/flaky       503, and 200 every third time
//	/hold        never answers
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
		case "/hold":
			<-r.Context().Done()
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

// counted is one Envoy with routes of every kind, and what is behind it.
type counted struct {
	t     *testing.T
	pop   *stack.PoP
	boot  *envoy.Bootstrap
	calls atomic.Int64 // of the upstream
	tunnel,
	health string // addresses behind CONNECT, and of gRPC
}

func startCounted(t *testing.T) *counted {
	c := &counted{t: t, tunnel: lineServer(t), health: healthServer(t)}
	listeners := filepath.Join(t.TempDir(), "listeners.json")
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: countedRules, Upstream: upstreamOf(&c.calls), Bootstrap: func(b *envoy.Bootstrap) {
		type m = map[string]any
		b.AddRoute(m{"match": m{"path": "/flaky"}, "route": m{"cluster": "upstream", "retry_policy": m{"retry_on": "5xx", "num_retries": 2}}})
		b.AddRoute(m{"match": m{"path": "/redirect"}, "route": m{"cluster": "upstream", "internal_redirect_policy": m{"max_internal_redirects": 1}}})
		b.AddHTTP2Cluster("health", c.health)
		b.AddRoute(m{"match": m{"prefix": "/grpc.health.v1.Health/"}, "route": m{"cluster": "health", "timeout": "0s"}})
		b.AddHTTP2Cluster("tunnel", c.tunnel) // nothing of HTTP/2 reaches it: CONNECT is ended here
		b.AddRoute(m{"match": m{"connect_matcher": m{}}, "route": m{"cluster": "tunnel", "upgrade_configs": []any{m{"upgrade_type": "CONNECT", "connect_config": m{}}}}})
		b.AddUpgrade("websocket")
		b.AddUpgrade("CONNECT")
		b.ListenersFrom(listeners)
		c.boot = b
	}})
	awaitRules(t, s)
	c.pop = s.PoPs[0]
	return c
}

// lineServer echoes lines over plain TCP.
func lineServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// healthServer serves gRPC's health service, of which Watch is a stream.
func healthServer(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
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
	t.Run("WebSocket", func(t *testing.T) {
		c.upgrade(t, "GET /ws HTTP/1.1\r\nhost: pop\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nx-slot: 1\r\n\r\n", 101)
	})
	t.Run("CONNECT", func(t *testing.T) {
		c.upgrade(t, "CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere:443\r\nx-slot: 1\r\n\r\n", 200)
	})
	t.Run("gRPC streams", c.grpcStreams)
	t.Run("a new listener", c.newListener)
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
func (c *counted) upgrade(t *testing.T, handshake string, want int) {
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
		if !strings.HasPrefix(line, fmt.Sprintf("HTTP/1.1 %d ", want)) {
			t.Fatalf("handshake answered with %q, want status %d", line, want)
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

// A gRPC stream counts once, however many messages it has. A refusal is a gRPC status
// (RESOURCE_EXHAUSTED), not an HTTP one. A stream holds its slot until it ends.
func (c *counted) grpcStreams(t *testing.T) {
	conn, err := grpc.NewClient(c.pop.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // it ends with its streams
	client := grpc_health_v1.NewHealthClient(conn)
	watch := func(user string) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		stream, err := client.Watch(withHeaders(ctx, "x-user", user, "x-slot", "1"), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return cancel, err
	}
	c.expect(t, func() {
		end, err := watch("ann")
		if err != nil {
			t.Fatal(err)
		}
		if s := c.status("/target", "x-slot", "1"); s != 429 {
			t.Errorf("status %d beside an open stream that holds the only slot, want 429", s)
		}
		end()
		proc.Eventually(t, 5*time.Second, "the slot of a stream that ended is free", func() bool { return c.status("/target", "x-slot", "1") == 200 })
		end, err = watch("ann")
		defer end()
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "one-call") {
			t.Errorf("a second call of a limit of 1: %v, want RESOURCE_EXHAUSTED with the rule's name", err)
		}
	}, map[string]int64{"one-call": 1})
}

// A listener that is replaced (LDS) loses and repeats nothing: the new filter counts on
// where the old one was, and a stream of the old one keeps its slot until it ends.
func (c *counted) newListener(t *testing.T) {
	const updates = "listener_manager.lds.update_success"
	c.calls.Store(0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = http.DefaultTransport.RoundTrip(c.get("/hold", "x-slot", "1")) // until its listener is gone
	}()
	proc.Eventually(t, 5*time.Second, "a stream is open", func() bool { return c.calls.Load() == 1 })
	c.expect(t, func() {
		before := c.pop.Stats(updates)[updates]
		c.boot.SetPlugin(map[string]any{"pop": "another"})
		c.boot.WriteListeners()
		proc.Eventually(t, 10*time.Second, "the listener is replaced", func() bool { return c.pop.Stats(updates)[updates] > before })
		for range 20 {
			status := c.status("/slot", "x-slot", "1")
			if status != 429 && !endsWithin(ended, 500*time.Millisecond) { // it drains for a second: most come before
				t.Errorf("status %d beside a stream of the old listener that holds the only slot, want 429", status)
			}
			if status := c.status("/target"); status != 200 {
				t.Errorf("status %d while the listener is replaced, want 200", status)
			}
		}
		<-ended
	}, map[string]int64{"target": 20})
}

// endsWithin reports whether what closes ended has ended, or ends within d: it may have
// ended before it is known here.
func endsWithin(ended <-chan struct{}, d time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(d):
		return false
	}
}

func withHeaders(ctx context.Context, headers ...string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, headers...)
}
