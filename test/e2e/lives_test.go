package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

var livesRules = "rules:\n" +
	rule("exact", "limit: 5/1d, consistency: exact, timeout: 1s, on_failure: { action: deny, status: 503 }") +
	rule("byte", "limit: 1/1d, consistency: exact, timeout: 1s, on_failure: { action: deny, status: 503 }")

// Whatever clients, the region and Envoy's configuration do at a bad moment, Envoy lives, no hook panics and limits hold.
// The native module has no sandbox, so it shows this with -short, too. The full form does all of it again and again, and no
// memory is left. WEIR_SOAK sets for how long: 30m.
func TestEnvoyLives(t *testing.T) {
	t.Parallel()
	for _, native := range []bool{false, true} {
		if native || !envoy.Native() {
			t.Run(map[bool]string{false: "WASM", true: "native"}[native], func(t *testing.T) {
				if !native {
					onlyLong(t)
				}
				t.Parallel()
				envoyLives(t, native)
			})
		}
	}
}

func envoyLives(t *testing.T, native bool) {
	lasts := orLong(0, 2*time.Minute)
	if text := os.Getenv("WEIR_SOAK"); text != "" {
		lasts = fatal.Get(time.ParseDuration(text))(t)
	}
	var update func(map[string]any)
	var cluster func(there bool)
	dir := t.TempDir()
	s := start(t, stack.Config{PoPs: 1, Rules: livesRules, Links: true, Bootstrap: func(b *envoy.Bootstrap) {
		if native {
			b.SetNative()
			if !testing.Short() {
				b.SetVariant(envoy.CgoChecked)
			}
		}
		b.SetMostHeaders(1100, 10_000)
		update = b.FilterFrom(filepath.Join(dir, "filter.json"))
		cluster = b.ClusterFrom("weir_region", filepath.Join(dir, "cluster.json"))
	}})
	p := s.PoPs[0]
	var memory []int64 // after each round
	for end := time.Now().Add(lasts); len(memory) == 0 || time.Now().Before(end) && !t.Failed(); memory = append(memory, p.Memory()) {
		for _, c := range []struct {
			name string
			run  func(t *testing.T)
		}{
			{"every byte in headers", func(t *testing.T) { everyByte(t, p) }},
			{"1 MiB of headers", func(t *testing.T) { largeHeaders(t, p) }},
			{"answers for streams that have ended", func(*testing.T) {
				p.Link.Slow(300 * time.Millisecond)
				waitAndReset(p, 100)
				time.Sleep(500 * time.Millisecond)
				p.Link.Heal()
			}},
			{"streams that end while the region hangs", func(t *testing.T) { p.Link.Swallow(); waitAndReset(p, 100); p.Link.Heal() }},
			{"streams that end while the region restarts", func(t *testing.T) { s.Region.Kill(); waitAndReset(p, 100); s.Region.Start() }},
			{"streams that end in the middle of a rejection", func(t *testing.T) { resetRejections(t, p) }},
			{"the cluster is removed", func(t *testing.T) { clusterIsRemoved(t, p, cluster) }},
			{"new configurations while calls are out", func(t *testing.T) { newConfigurations(t, p, update) }},
		} {
			t.Run(c.name, func(t *testing.T) {
				c.run(t)
				if p.Exited() {
					t.Fatalf("the PoP has ended: %s\n%s", p.Ended(), p.Tail(30))
				}
				decidesExactly(t, p)
				if n := panics(p); n != 0 {
					t.Errorf("%d panics", n)
				}
			})
		}
	}
	most := int64(16 << 20)
	if !native {
		most = 3 * 64 << 20 // a VM collects garbage when it has GOMEMLIMIT
	}
	if t.Logf("%d bytes after each round", memory); memory[len(memory)-1]-memory[len(memory)/3] > most {
		t.Error("the PoP grows")
	}
	for _, how := range []string{"SIGTERM", "/quitquitquit"} {
		t.Run("the end by "+how+" while calls are out", func(t *testing.T) { endsWhileCallsAreOut(t, p, how) })
	}
}

// decidesExactly: an exact limit of 5 admits 5.
func decidesExactly(t *testing.T, p *stack.PoP) {
	t.Helper()
	proc.Eventually(t, 20*time.Second, "an exact limit holds", func() bool {
		user, ok := time.Now().String(), 0
		for range 8 {
			if p.Get("/exact", "x-user", user).Status == http.StatusOK {
				ok++
			}
		}
		return ok == 5
	})
}

// everyByte has each byte in the value of a header that is a key, and in a name. Two requests with a byte that Envoy lets
// pass are one key, which passes once.
func everyByte(t *testing.T, p *stack.PoP) {
	passed := 0
	for b := range 256 {
		switch first, second := twice(t, p, string([]byte{byte(b)})+"z"); {
		case first == 200 && second == 429:
			passed++
		case first != 400 && first != 0:
			t.Errorf("byte %#x in a value: status %d and %d", b, first, second)
		}
		if status := raw(t, p.Addr, "/exact", "x-"+string([]byte{byte(b)})+": 1"); status != 200 && status != 429 && status != 400 && status != 0 {
			t.Errorf("byte %#x in a name: status %d", b, status)
		}
	}
	if t.Logf("%d bytes of values pass", passed); passed < 200 {
		t.Error("too few bytes pass")
	}
}

// twice sends two requests of a new user, whose lines of headers end in rest. A busy machine may hold an answer up for longer
// than a rule may wait, and there are hundreds of calls: after a 503 there is another try with another user. A line that
// breaks its call breaks it each time.
func twice(t *testing.T, p *stack.PoP, rest string) (first, second int) {
	thrice(t, func(string) bool {
		line := fmt.Sprint("x-user: ", time.Now().UnixNano(), rest)
		first, second = raw(t, p.Addr, "/byte", line), raw(t, p.Addr, "/byte", line)
		return first != 503 && second != 503
	})
	return first, second
}

// raw sends a request with a line of headers over a connection of its own; 0 if the connection is closed without an answer.
func raw(t *testing.T, addr, path, line string) (status int) {
	t.Helper()
	c := fatal.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nhost: pop\r\nconnection: close\r\n%s\r\n\r\n", path, line)
	answer, _ := bufio.NewReader(c).ReadString('\n')
	_, _ = fmt.Sscanf(answer, "HTTP/1.1 %d", &status)
	return status
}

// largeHeaders has a key of nearly 1 MiB, and 9,000 headers.
func largeHeaders(t *testing.T, p *stack.PoP) {
	for name, rest := range map[string]string{
		"one value":    strings.Repeat("u", 1<<20-1000),
		"many headers": strings.Repeat("\r\nx-other: "+strings.Repeat("v", 90), 9000),
	} {
		// 431 is of the upstream, which takes less.
		if first, second := twice(t, p, rest); first != 431 || second != 429 {
			t.Errorf("%s: status %d and then %d, want 431 and 429", name, first, second)
		}
	}
}

// waitAndReset begins requests that wait for the region, and resets them after 50 ms.
func waitAndReset(p *stack.PoP, n int) {
	proc.Together(n, func(i int) {
		request := fmt.Sprintf("GET /exact HTTP/1.1\r\nhost: pop\r\nx-user: %d-%d\r\n\r\n", time.Now().UnixNano(), i)
		sendAndReset(p, request, 50*time.Millisecond)
	})
}

// sendAndReset resets a connection a while after it has sent requests.
func sendAndReset(p *stack.PoP, requests string, after time.Duration) {
	if c, err := net.Dial("tcp", p.Addr); err == nil {
		_, _ = io.WriteString(c, requests)
		time.Sleep(after)
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// resetRejections has clients reset connections with several rejected requests on their way.
func resetRejections(t *testing.T, p *stack.PoP) {
	t.Helper()
	for range 8 {
		raw(t, p.Addr, "/exact", "x-user: spent")
	}
	request := "GET /exact HTTP/1.1\r\nhost: pop\r\nx-user: spent\r\n\r\n"
	proc.Together(16, func(int) {
		for i := range 50 {
			sendAndReset(p, strings.Repeat(request, 1+i%4), time.Duration(i%5)*100*time.Microsecond)
		}
	})
}

// clusterIsRemoved while calls to it are out: requests fall back, and the cluster that comes back is used.
func clusterIsRemoved(t *testing.T, p *stack.PoP, cluster func(there bool)) {
	p.Link.Slow(300 * time.Millisecond)
	var reset sync.WaitGroup
	reset.Go(func() { waitAndReset(p, 50) })
	time.Sleep(20 * time.Millisecond)
	cluster(false)
	reset.Wait()
	proc.Eventually(t, 10*time.Second, "requests fall back", func() bool {
		return p.Get("/exact", "x-user", time.Now().String()).Status == http.StatusServiceUnavailable
	})
	logs(t, p.LogPath(), "no call can be made to the Envoy cluster weir_region")
	cluster(true)
	p.Link.Heal()
}

// newConfigurations replaces the filter's configuration while requests wait, and others have ended before their answers: the
// old configurations end on any thread, with their calls.
func newConfigurations(t *testing.T, p *stack.PoP, update func(fields map[string]any)) {
	p.Link.Slow(200 * time.Millisecond)
	load := make(chan *drive.Result)
	until := time.Now().Add(6 * time.Second)
	go func() {
		r, _ := drive.Run(t.Context(), drive.Load{Addrs: []string{p.Addr}, Conns: 32, PerSecond: 500, Until: until, Request: drive.GetEach("/exact", "x-user", "load-")})
		load <- r
	}()
	for i := 0; time.Now().Before(until) && !p.Exited(); i++ {
		update(map[string]any{"labels": map[string]any{"update": fmt.Sprint(i)}})
		waitAndReset(p, 20) // takes 50 ms
	}
	r := <-load
	if passed := r.OK() + r.Status[429]; passed == 0 || r.Failed > 0 { // rounds have the same keys
		t.Errorf("%d requests passed, and %d have no answer: %v, %v", passed, r.Failed, r.Status, r.FirstError)
	}
	p.Link.Heal()
}

// endsWhileCallsAreOut ends Envoy while requests wait, and starts it again.
func endsWhileCallsAreOut(t *testing.T, p *stack.PoP, how string) {
	p.Link.Swallow()
	var reset sync.WaitGroup
	reset.Go(func() { waitAndReset(p, 50) })
	time.Sleep(30 * time.Millisecond)
	if how == "SIGTERM" {
		p.Stop()
	} else if r := do(t, p.Admin, http.MethodPost, how); r.Status != http.StatusOK {
		t.Errorf("%s: status %d", how, r.Status)
	}
	reset.Wait()
	if end := p.Ended(); end != "exit status 0" {
		t.Errorf("Envoy ends with %s:\n%s", end, p.Tail(30))
	}
	p.Link.Heal()
	p.Start()
	decidesExactly(t, p)
}
