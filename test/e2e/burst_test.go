package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// burstRules are small limits. Each rule has a timeout of its own, and so calls and a breaker of its own.
var burstRules = "rules:\n" +
	userRule("window", "limit: 1/1d, timeout: 101ms, algorithm: fixed_window, on_failure: deny") +
	userRule("sliding", "limit: 1/1d, timeout: 102ms, algorithm: sliding_window, on_failure: allow") +
	userRule("log", "limit: 1/1d, timeout: 103ms, algorithm: sliding_log, on_failure: deny") +
	userRule("bucket", "limit: 1/1d, timeout: 104ms, algorithm: token_bucket, on_failure: local") +
	userRule("slots", "limit: 1, timeout: 105ms, algorithm: concurrency, on_failure: deny") +
	userRule("exact", "limit: 1/1d, timeout: 106ms, algorithm: fixed_window, consistency: exact, on_failure: deny")

var burstPaths = []string{"/window", "/sliding", "/log", "/bucket", "/slots", "/exact"}

// A thousand requests that wait are decided at once: by the answer of their region, by its silence, or
// because Envoy rejects the next call. Whatever decides them, no VM of the filter is replaced, each request
// gets its answer, and no request of another client fails, with either module.
func TestBurstsOfWaitingRequests(t *testing.T) {
	t.Parallel()
	for _, workers := range orLong([]int{2}, []int{1, 2}) {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			s := startBurst(t, workers)
			bystanders := background(t, s, "/other", 200)
			for end, first := time.Now().Add(orLong(0, time.Minute)), true; first || time.Now().Before(end) && !t.Failed(); first = false {
				for _, f := range burstFaults {
					for _, p := range s.PoPs {
						burstOfEachRule(t, p, f)
					}
				}
			}
			if others := bystanders(); others.Sent() == 0 || others.OK() != others.Sent() {
				t.Errorf("another client sent %d requests, of which %d were served: %v, %v", others.Sent(), others.OK(), others.Status, others.FirstError)
			}
			for _, p := range s.PoPs {
				checkBurst(t, p)
			}
		})
	}
}

// burstFaults are what may be with the region, and with the way to it.
var burstFaults = []burstFault{
	{"healthy", func(*stack.PoP) {}, func(*stack.PoP) {}},
	{"slow", func(p *stack.PoP) { p.Link.Slow(60 * time.Millisecond) }, func(p *stack.PoP) { p.Link.Heal() }},
	{"hung", func(p *stack.PoP) { p.Link.SwallowCalls() }, func(p *stack.PoP) { p.Link.Heal() }},
	{"rejected", func(p *stack.PoP) { p.SetRuntime(maxCalls, "0") }, func(p *stack.PoP) { p.SetRuntime(maxCalls, "") }},
}

type burstFault struct {
	name      string
	set, heal func(*stack.PoP)
}

// maxCalls is the setting of Envoy's circuit breaker for calls to the region.
const maxCalls = "circuit_breakers.weir_region.default.max_requests"

// startBurst starts a PoP of each module.
func startBurst(t *testing.T, workers int) *stack.Stack {
	edit := func(b *envoy.Bootstrap, _ bool) {
		b.AllowRuntime()
		for _, path := range []string{"/other", "/sliding"} { // on_failure: allow is too much for an upstream
			b.AddRoute(map[string]any{"match": map[string]any{"path": path}, "direct_response": map[string]any{"status": 200}})
		}
	}
	return start(t, stack.Config{Workers: workers, Rules: burstRules, Links: true, Bootstrap: bothModules(edit)})
}

func checkBurst(t *testing.T, p *stack.PoP) {
	t.Helper()
	for name, n := range p.Stats("wasm.*vm_reload|wasmcustom.weir.panics|wasmcustom.weir.vm_replaced") {
		if n > 0 {
			t.Errorf("%s is %d", name, n)
		}
	}
	for size, want := range map[int]int{15 << 10: 200, 17 << 10: 431} {
		if r := p.Get("/other", "cookie", strings.Repeat("c", size)); r.Status != want {
			t.Errorf("a cookie of %d bytes: status %d, want %d", size, r.Status, want)
		}
	}
}

// burstOfEachRule sends a burst to each rule for one new key, and two with a new key for each request, all
// at once.
func burstOfEachRule(t *testing.T, p *stack.PoP, f burstFault) {
	t.Helper()
	f.set(p)
	defer f.heal(p)
	user := fmt.Sprint(f.name, time.Now().UnixNano())
	var bursts []*burst
	for _, path := range burstPaths {
		bursts = append(bursts, newBurst(t, p.Addr, path, user, false))
	}
	bursts = append(bursts, newBurst(t, p.Addr, "/window", user, true), newBurst(t, p.Addr, "/sliding", user, true))
	proc.Together(len(bursts), func(i int) { bursts[i].run() })
	for _, b := range bursts {
		if n := b.got["200"] + b.got["429"] + b.got["503"]; n != burstSize {
			t.Errorf("region %s, %s, a key for each %v: of %d requests: %v", f.name, b.path, b.each, burstSize, b.got)
		}
	}
}

// burst is requests that a client sends at once, over several connections with HTTP/2.
type burst struct {
	path, user string
	each       bool // a user of its own for each request
	conns      [10]net.Conn
	got        map[string]int // answers by their status
}

const burstSize = 1000

func newBurst(t *testing.T, addr, path, user string, each bool) *burst {
	t.Helper()
	b := &burst{path: path, user: user, each: each, got: map[string]int{}}
	for i := range b.conns {
		b.conns[i] = fatal.Get(net.Dial("tcp", addr))(t)
		t.Cleanup(func() { b.conns[i].Close() })
		_ = b.conns[i].SetDeadline(time.Now().Add(time.Minute))
	}
	return b
}

// run sends the burst and reads all answers.
func (b *burst) run() {
	const each = burstSize / len(b.conns)
	for i, conn := range b.conns {
		_, _ = conn.Write(b.requests(i, each))
	}
	for _, conn := range b.conns {
		b.read(conn, each)
		conn.Close()
	}
}

// requests are the bytes that a connection sends.
func (b *burst) requests(conn, n int) []byte {
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer, encoder := http2.NewFramer(&out, nil), hpack.NewEncoder(&block)
	_ = framer.WriteSettings() // as all below, into a buffer
	for i := range n {
		user := b.user
		if b.each {
			user += fmt.Sprint("-", conn, "-", i)
		}
		block.Reset()
		for _, h := range [...]hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"},
			{Name: ":path", Value: b.path}, {Name: ":authority", Value: "pop"}, {Name: "x-user", Value: user}} {
			_ = encoder.WriteField(h)
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true})
	}
	return out.Bytes()
}

// read counts the answers to so many requests of a connection.
func (b *burst) read(conn net.Conn, requests int) {
	framer := http2.NewFramer(conn, bufio.NewReader(conn))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for requests > 0 {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			b.got[f.PseudoValue("status")]++
			ended = f.StreamEnded()
		case *http2.DataFrame:
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			ended = true
		}
		if ended {
			requests--
		}
	}
}
