package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const reportsRules = `rules:
  - { name: upload, match: { path: /upload }, key: [{ header: x-user }], limit: 1/1d, timeout: 1s, on_failure: deny }
  - { name: strict, match: { path: /login, header: { x-rule: strict } }, key: [path], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: lenient, match: { path: /login, header: { x-rule: lenient }, ignore_case: true, trailing_slash: ignore, path_parameters: ignore },
      key: [path], limit: 1/1d, algorithm: fixed_window, scope: pop }
  - { name: all, match: { path: { prefix: /slots/ } }, key: [], limit: 2, algorithm: concurrency, timeout: 1s, on_failure: deny }
  - { name: each, match: { path: { prefix: /slots/ } }, key: [{ header: x-user }], limit: 2, algorithm: concurrency, timeout: 1s, on_failure: deny }
  - { name: socket, match: { path: { prefix: /ws } }, key: [], limit: 1/1d, algorithm: fixed_window, scope: pop }
`

// reported plays the upstream. It states the path that it got.
type reported struct{ pairs chan struct{} }

func (u reported) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	case "/ws", "/ws-free":
		w.Header().Set("connection", "upgrade")
		w.Header().Set("upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}
}

// Public reports about other products that need a real Envoy; the package comment of test/reports lists them.
func TestReports(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	type m = map[string]any
	other := proc.FreeAddr(t)
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Links: true, Rules: reportsRules, Upstream: reported{make(chan struct{})},
		Bootstrap: func(b *envoy.Bootstrap) {
			b.AddPlugin(other, "other", m{"pop": "other"})
			b.AddUpgrade("websocket")
			b.AddRoute(m{"match": m{"path": "/slots/local"}, "direct_response": m{"status": 403}})
			b.AddRoute(m{"match": m{"path": "/slots/slow"}, "route": m{"cluster": "upstream", "timeout": "0.05s"}})
			b.AddRoute(m{"match": m{"path": "/ws-free"}, "route": m{"cluster": "upstream"}, "typed_per_filter_config": m{
				"weir": m{"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true}}})
		}})
	awaitRules(t, s)
	t.Run("6", func(t *testing.T) { largeBodies(t, s.PoPs[0], other) })
	t.Run("7", func(t *testing.T) { spellings(t, s.PoPs[0]) })
	t.Run("11", func(t *testing.T) { slotsComeBack(t, s.PoPs[0]) })
	t.Run("15", func(t *testing.T) { upgradesOfFreeRoute(t, s.PoPs[0]) })
}

// Report 6: who sends a large body reads the rejection, whether it comes at once or after the region's answer, for which
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
			for _, r := range []*http.Response{post(user), post(user)} { // the second one is refused at once
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

// Report 7: paths that Envoy makes the same before the upstream gets them have one count. Other spellings are paths of their
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
			if r := send(t, p, c.target, "x-rule: "+rule); r.StatusCode != want || want == 200 && r.Header.Get("x-path") != c.path {
				t.Errorf("%s, %s: status %d, want %d, headers %v", c.target, rule, r.StatusCode, want, r.Header)
			}
		}
	}
}

// send sends a request whose target no library would send.
func send(t *testing.T, p *stack.PoP, target string, headers ...string) *http.Response {
	t.Helper()
	conn := fatal.Get(net.Dial("tcp", p.Addr))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: pop\r\n%s\r\n\r\n", target, strings.Join(headers, "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	return resp
}

// Report 11: whatever ends a request gives back its slots of all rules.
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
		var two sync.WaitGroup
		var status [2]int
		for i := range status {
			two.Go(func() { status[i] = p.Get("/slots/pair", "x-user", "ann").Status })
		}
		two.Wait()
		return status == [2]int{200, 200}
	})
}

// Report 15: a route without the filter is without it for upgrades, too.
func upgradesOfFreeRoute(t *testing.T, p *stack.PoP) {
	for i, want := range []int{101, 429, 101, 101, 101} {
		path := []string{"/ws", "/ws-free"}[min(i/2, 1)]
		if r := send(t, p, path, "connection: upgrade", "upgrade: websocket"); r.StatusCode != want {
			t.Errorf("%s, request %d: status %d, want %d, headers %v", path, i, r.StatusCode, want, r.Header)
		}
	}
}

// Reports 16 and 17: updates of the filter by ECDS lose no request and no count, and with those of its listener by LDS they
// leave no VM and little memory.
func TestReportsOfUpdates(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	var boot *envoy.Bootstrap
	var update func(fields map[string]any)
	dir := t.TempDir()
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: "rules:\n" + quotaRule(5), Bootstrap: func(b *envoy.Bootstrap) {
		boot, update = b, b.FilterFrom(filepath.Join(dir, "filter.json"))
		b.ListenersFrom(filepath.Join(dir, "listeners.json"))
	}})
	awaitRules(t, s)
	p := s.PoPs[0]
	awaits := func(stat string, n int64) {
		t.Helper()
		proc.Eventually(t, time.Minute, fmt.Sprint(stat, " is ", n), func() bool { return p.Stats(stat)[stat] == n })
	}
	const reloads, vms = "extension_config_discovery.http_filter.weir.config_reload", "wasm.envoy.wasm.runtime.v8.active"
	isUsedUp := func() bool { return p.Get("/quota", "x-user", "ann").Status == http.StatusTooManyRequests }
	proc.Eventually(t, time.Minute, "the limit is used up", isUsedUp)
	stop := background(t, s, "/", 300)
	for i := range int64(20) {
		update(map[string]any{"labels": map[string]any{"update": fmt.Sprint(i)}})
		awaits(reloads, 2+i)
	}
	if r := stop(); r.OK() == 0 || r.OK() < r.Sent() {
		t.Errorf("the load that went on meanwhile got %v, %v", r.Status, r.FirstError)
	}
	if !isUsedUp() {
		t.Error("a limit that was used up is not any more")
	}

	running, bundled, memory := p.Stats(vms)[vms], "rules:\n"+quotaRule(5), int64(0)
	for i := range 500 {
		bundled += fmt.Sprintf("  - { name: other-%d, match: { path: /other/%d }, key: [client_ip], limit: 1000/1m }\n", i, i)
	}
	for i := range int64(20) {
		update(map[string]any{"labels": map[string]any{"bundle": fmt.Sprint(i)}, "rules": compiled(t, bundled)})
		boot.SetTrustedHops(int(i+1) % 2)
		boot.WriteListeners()
		awaits(reloads, 22+i)
		awaits("listener_manager.lds.update_success", 2+i)
		if i == 9 {
			memory = p.Memory()
		}
	}
	awaits(vms, running)
	if more := p.Memory() - memory; more > 50<<20 { // 4 MiB were measured
		t.Errorf("ten updates took %d MiB", more>>20)
	}
}
