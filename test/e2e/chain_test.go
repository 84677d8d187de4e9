package e2e

import (
	"bufio"
	"bytes"
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

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const chainRules = `rules:
  - { name: upload, match: { path: /upload }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, on_failure: deny }
  - { name: strict, match: { path: /login, header: { x-rule: strict } }, key: [path], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: lenient, match: { path: /login, header: { x-rule: lenient }, ignore_case: true, trailing_slash: ignore, path_parameters: ignore },
      key: [path], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: all, match: { path: { prefix: /slots/ } }, key: [], limit: 2, algorithm: concurrency, timeout: 1s, on_failure: deny }
  - { name: each, match: { path: { prefix: /slots/ } }, key: [{ header: x-user }], limit: 2, algorithm: concurrency, timeout: 1s, on_failure: deny }
  - { name: any, match: { path: { prefix: /counted/ } }, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: target, match: { path: /counted/target }, key: [], limit: 100000/1d, algorithm: fixed_window, timeout: 1s }
  - { name: slot, match: { header: { x-slot: "1" } }, key: [], limit: 1, algorithm: concurrency, timeout: 1s,
      on_failure: { action: deny, status: 429 } }
  - { name: tokens, match: { path: /counted/ws }, key: [], limit: 80/1d, consistency: exact, timeout: 1s, on_failure: deny,
      cost: { estimate: 50, actual: { header: x-tokens }, max: 400 } }
  - { name: user, match: { path: /user }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: address, match: { path: /address }, key: [client_ip], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: claims, match: { path: /claims }, key: [{ header: x-user-id, else: { const: nobody } }], limit: 1/1d, algorithm: fixed_window, scope: pop,
      overrides: [{ when: { header: { x-tier: gold } }, limit: 100/1d }], cost: { header: x-cost, default: 1, max: 1 } }
`

// oneHeader is a plugin whose rules read one header and nothing else: its filter does not read all headers at once.
const oneHeader = `{"rules":[{"name":"user","key":[{"header":"x-user"}],"limit":"1/24h","scope":"pop"}]}`

// chained plays the upstream. It states the path that it got.
type chained struct {
	pairs chan struct{}
	calls *atomic.Int64
}

func (u chained) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := u.calls.Add(1)
	w.Header().Set("x-path", r.URL.EscapedPath())
	switch r.URL.Path {
	case "/slots/broken":
		panic(http.ErrAbortHandler)
	case "/slots/slow", "/slots/pair": // answers two requests that are here at the same time
		select {
		case u.pairs <- struct{}{}:
		case <-u.pairs:
		case <-r.Context().Done():
		}
	case "/counted/redirect":
		http.Redirect(w, r, "http://"+r.Host+"/counted/target", http.StatusFound)
	case "/counted/flaky": // 200 every third time
		if n%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/counted/ws":
		if conn, rw, err := http.NewResponseController(w).Hijack(); err == nil {
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nx-tokens: 30\r\n\r\n")
			_, _ = io.Copy(io.Discard, rw) // until the client leaves
			conn.Close()
		}
	}
}

// What Envoy's filter chain makes of requests: which of them the filter sees, how their paths are spelt, and how they end.
func TestFilterChain(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	type m = map[string]any
	other, single, calls := proc.FreeAddr(t), proc.FreeAddr(t), new(atomic.Int64)
	log := filepath.Join(t.TempDir(), "access.log")
	s := start(t, stack.Config{PoPs: 1, Workers: 1, Links: true, Strangers: true, Rules: chainRules, Upstream: chained{make(chan struct{}), calls},
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetAccessLog(log)
			b.SetTrustedHops(1)
			b.AddPlugin(other, "other", m{"pop": "other"})
			b.AddPlugin(single, "single", m{"pop": "single", "rules": rawJSON(oneHeader)})
			b.AddUpgrade("websocket")
			b.AddRoute(m{"match": m{"path": "/slots/local"}, "direct_response": m{"status": 403}})
			b.AddRoute(m{"match": m{"path": "/slots/slow"}, "route": m{"cluster": "upstream", "timeout": "0.05s"}})
			b.AddRoute(m{"match": m{"path": "/counted/flaky"}, "route": m{"cluster": "upstream", "retry_policy": m{"retry_on": "5xx", "num_retries": 2}}})
			b.AddRoute(m{"match": m{"path": "/counted/redirect"}, "route": m{"cluster": "upstream", "internal_redirect_policy": m{"max_internal_redirects": 1}}})
		}})
	t.Run("what counts", func(t *testing.T) { whatCounts(t, s.PoPs[0], calls) })
	t.Run("large bodies", func(t *testing.T) { largeBodies(t, s.PoPs[0], other) })
	t.Run("spellings of a path", func(t *testing.T) { spellings(t, s.PoPs[0]) })
	t.Run("slots come back", func(t *testing.T) { slotsComeBack(t, s.PoPs[0]) })
	t.Run("headers of clients", func(t *testing.T) {
		sends(t, s.PoPs[0].Addr, append(repeated, clientSends...))
		sends(t, single, repeated)
	})
	t.Run("heap", func(t *testing.T) { heapIsWatched(t, s.PoPs[0]) })
	t.Run("on_failure is in the access log", func(t *testing.T) {
		s.PoPs[0].Link.Swallow()
		expect(t, s.PoPs[0].Get("/upload", "x-user", "ann"), 503, nil)
		logs(t, log, `"weir":"upload denied on_failure"`)
	})
}

// A request counts when the filter chain sees its beginning: once if the router tries it three times, again as that for the
// target of an internal redirect, with the slot of the first one back, and once as an upgrade, which holds its slot.
func whatCounts(t *testing.T, p *stack.PoP, calls *atomic.Int64) {
	counts := func(want string, send func()) {
		t.Helper()
		before := [3]int64{allowed(p, "any"), allowed(p, "target"), allowed(p, "slot")}
		send()
		got := ""
		proc.Await(t, 5*time.Second, "rules count "+want, func() string {
			got = fmt.Sprint(allowed(p, "any")-before[0], allowed(p, "target")-before[1], allowed(p, "slot")-before[2])
			return strings.TrimSuffix(got, want)
		})
	}
	status := func(path string) int { return p.Get(path, "x-slot", "1").Status }
	counts("1 0 1", func() {
		calls.Store(0)
		if got := status("/counted/flaky"); got != 200 || calls.Load() != 3 {
			t.Errorf("status %d after %d tries, want 200 at the third", got, calls.Load())
		}
	})
	counts("2 1 2", func() {
		if got := status("/counted/redirect"); got != 200 {
			t.Errorf("status %d, want that of the target: 200", got)
		}
	})
	counts("1 0 1", func() {
		conn, resp := ask(t, p, "/counted/ws", "connection: upgrade", "upgrade: websocket", "x-slot: 1")
		defer conn.Close()
		if beside := status("/counted/target"); resp.StatusCode != http.StatusSwitchingProtocols || beside != 429 {
			t.Errorf("status %d, and %d beside an open connection that holds the only slot, want 429", resp.StatusCode, beside)
		}
	})
	proc.Eventually(t, 5*time.Second, "the slot of a connection that ended is free", func() bool { return status("/counted/target") == 200 })
	for i, want := range []int{101, 429} { // the first one has cost what its response stated: 30 of 80, and so has this one
		conn, resp := ask(t, p, "/counted/ws", "connection: upgrade", "upgrade: websocket")
		if conn.Close(); resp.StatusCode != want {
			t.Errorf("upgrade %d: status %d, want %d", i+2, resp.StatusCode, want)
		}
	}
}

// allowed is how many requests a rule has admitted. The filter's counters are brought
// up to date every 100 ms, later on a busy machine: they are read until they stand still.
func allowed(p *stack.PoP, rule string) (n int64) {
	name := "wasmcustom.weir.decisions.rule." + rule + ".decision.allowed"
	for before := int64(-1); n != before; time.Sleep(300 * time.Millisecond) {
		n, before = p.Stat(name), n
	}
	return n
}

// Who sends a large body reads the rejection, whether it comes at once or after the region's answer, for which
// the body waits. Another plugin of this Envoy has used up the limit.
func largeBodies(t *testing.T, p *stack.PoP, other string) {
	p.Link.Slow(200 * time.Millisecond)
	defer p.Link.Heal()
	for i, expect := range []string{"", "100-continue", ""} {
		client := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: time.Minute}
		client.Protocols.SetHTTP1(i < 2)
		client.Protocols.SetUnencryptedHTTP2(i == 2)
		t.Cleanup(client.CloseIdleConnections)
		post := func(user string) *http.Response {
			body := bytes.NewReader(make([]byte, 20<<20))
			req := fatal.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.Addr+"/upload", body))(t)
			req.Header = http.Header{"X-User": {user}, "Expect": {expect}}
			resp, err := client.RoundTrip(req)
			if err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
			resp.Body.Close()
			return resp
		}
		proc.Eventually(t, time.Minute, "the region decides in time", func() bool {
			user := fmt.Sprint(i, time.Now().UnixNano())
			for r := (stack.Response{}); r.Status != http.StatusTooManyRequests; {
				r, _ = stack.Do(other, http.MethodGet, "/upload", "", "x-user", user)
			}
			for _, r := range []*http.Response{post(user), post(user)} { // the second one is rejected at once
				if r.StatusCode == http.StatusServiceUnavailable { // the machine is busy
					return false
				}
				if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("retry-after") == "" || (i == 2) != (r.ProtoMajor == 2) {
					t.Fatalf("client %d: %s, status %d, headers %v", i, r.Proto, r.StatusCode, r.Header)
				}
			}
			return true
		})
	}
}

// Paths that Envoy makes the same before the upstream gets them have one count. Other spellings are paths of their
// own for a rule, unless its match says otherwise.
func spellings(t *testing.T, p *stack.PoP) {
	for _, c := range []struct {
		target          string
		strict, lenient int    // status, behind a request for /login that used up the limit
		path            string // of requests that reach the upstream
	}{
		{"/login", 429, 429, ""},
		{"//login", 429, 429, ""},
		{"/x/../login?a=b", 429, 429, ""},
		{"/%6cogin", 429, 429, ""},
		{"/login?", 429, 429, ""},
		{"http://other/login", 429, 429, ""},
		{"/login/", 200, 429, "/login/"},
		{"/LOGIN", 200, 429, "/LOGIN"},
		{"/login;a=b", 200, 429, "/login;a=b"},
		{"/x%2f..%2flogin", 307, 307, ""}, // to /login
		{"/login#x", 400, 400, ""},
		{"/login%20", 200, 200, "/login%20"},
	} {
		for rule, want := range map[string]int{"strict": c.strict, "lenient": c.lenient} {
			p.Get("/login", "x-rule", rule)
			conn, r := ask(t, p, c.target, "x-rule: "+rule)
			conn.Close()
			if r.StatusCode != want || want == 200 && r.Header.Get("x-path") != c.path {
				t.Errorf("%s, %s: status %d, want %d, headers %v", c.target, rule, r.StatusCode, want, r.Header)
			}
		}
	}
}

// ask sends a request that no library would send, and returns its connection and the answer.
func ask(t *testing.T, p *stack.PoP, target string, headers ...string) (net.Conn, *http.Response) {
	t.Helper()
	conn := fatal.Get(net.Dial("tcp", p.Addr))(t)
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: pop\r\n%s\r\n\r\n", target, strings.Join(headers, "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return conn, resp
}

// Whatever ends a request gives back its slots of all rules.
func slotsComeBack(t *testing.T, p *stack.PoP) {
	for path, want := range map[string]int{"/slots/local": 403, "/slots/broken": 503, "/slots/slow": 504} {
		for range 20 {
			if r := p.Get(path, "x-user", "ann"); r.Status != want {
				t.Fatalf("%s: status %d, want %d", path, r.Status, want)
			}
		}
	}
	p.Link.Slow(300 * time.Millisecond)
	for i := range 20 { // each waits for the region, and its client leaves
		ctx, leave := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_ = stream(ctx, p.Addr, fmt.Sprint("/slots/local?", i))
		leave()
	}
	p.Link.Heal()
	proc.Eventually(t, time.Minute, "all slots are free", func() bool {
		var status [2]int
		proc.Together(2, func(i int) { status[i] = p.Get("/slots/pair", "x-user", "ann").Status })
		return status == [2]int{200, 200}
	})
}
