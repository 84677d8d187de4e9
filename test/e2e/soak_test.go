package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const soakRules = `
rules:
  - { name: exact, match: { path: /exact }, key: [ { header: x-user } ], limit: 5/1m, algorithm: fixed_window, consistency: exact }
  - { name: leased, match: { path: /leased }, key: [ { header: x-user } ], limit: 100/1s, on_failure: { action: deny, status: 429 } }
  - { name: slot, match: { path: /stream }, key: [], limit: 8, algorithm: concurrency, lease: { ttl: 2s },
      on_failure: { action: deny, status: 429 } }
`

// Under a low load, clients reset requests at any moment, the listener is replaced every second and the region is killed
// again and again. Envoy lives, no hook panics, and afterwards memory and slots are as before. WEIR_SOAK sets how long: 30m.
func TestSoak(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	lasts := 90 * time.Second
	if text := os.Getenv("WEIR_SOAK"); text != "" {
		lasts = fatal.Get(time.ParseDuration(text))(t)
	}
	var upstream stack.InFlight
	var boot *envoy.Bootstrap
	s := stack.Start(t, stack.Config{PoPs: 1, Rules: soakRules, Links: true,
		Plugin:   map[string]any{"table_pages": 64}, // which is full soon
		Upstream: upstream.Track(http.HandlerFunc(streams)), Bootstrap: func(b *envoy.Bootstrap) {
			boot = b
			b.ListenersFrom(filepath.Join(t.TempDir(), "listeners.json"))
		}})
	awaitRules(t, s)
	p := s.PoPs[0]
	holdSlots(t, s, &upstream, 8)
	warm := time.Now().Add(lasts / 5)
	soak(t, s, boot, warm)
	first := settled(t, p, &upstream)
	soak(t, s, boot, warm.Add(lasts))
	last := settled(t, p, &upstream)
	t.Logf("the PoP had %d kB after %v and %d kB after %v", first>>10, lasts/5, last>>10, lasts+lasts/5)
	if last-first > 8<<20 {
		t.Errorf("the PoP grew by %d kB", (last-first)>>10)
	}
	if n := panics(p); n != 0 {
		t.Errorf("%d panics", n)
	}
	decidesExactly(t, p)
	holdSlots(t, s, &upstream, 8)
}

// settled waits until nothing is in flight and old listeners have drained, and returns the memory of the PoP.
func settled(t *testing.T, p *stack.PoP, upstream *stack.InFlight) int64 {
	t.Helper()
	if p.Exited() {
		t.Fatalf("the PoP has exited: %s", p.Tail(20))
	}
	proc.Eventually(t, 15*time.Second, "the upstream is idle", func() bool { return upstream.Now() == 0 })
	time.Sleep(3 * time.Second)
	return p.Memory()
}

// soak does all at once until a time.
func soak(t *testing.T, s *stack.Stack, boot *envoy.Bootstrap, until time.Time) {
	t.Helper()
	var all sync.WaitGroup
	every := func(least, most time.Duration, f func(n int)) {
		all.Go(func() {
			for n := 0; time.Now().Before(until) && !s.PoPs[0].Exited(); n++ {
				f(n)
				time.Sleep(least + rand.N(most-least))
			}
		})
	}
	all.Go(func() {
		try(t, drive.Load{Addrs: s.Addrs(), Conns: 4, PerSecond: 100, Until: until, Request: drive.GetEach("/exact", "x-user", "u")})
	})
	for range 4 { // clients that reset
		every(time.Millisecond, 20*time.Millisecond, func(n int) { reset(s.PoPs[0].Addr, n) })
	}
	every(900*time.Millisecond, 1100*time.Millisecond, func(n int) {
		boot.SetTrustedHops(n % 2)
		boot.SetPlugin(map[string]any{"labels": map[string]any{"update": fmt.Sprint(n)}})
		boot.WriteListeners()
	})
	every(6*time.Second, 12*time.Second, func(n int) {
		switch n % 3 {
		case 0:
			s.Region.Kill()
			time.Sleep(time.Second)
			s.Region.Start()
		case 1:
			s.PoPs[0].Link.Swallow()
			time.Sleep(time.Second)
			s.PoPs[0].Link.Heal()
		default:
			s.PoPs[0].Link.Slow(300 * time.Millisecond)
			time.Sleep(time.Second)
			s.PoPs[0].Link.Heal()
		}
	})
	all.Wait()
}

// reset sends a request, and closes the connection at once or soon, or resets it.
func reset(addr string, n int) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return // the listener is being replaced
	}
	defer c.Close()
	path := []string{"/exact", "/leased", "/stream?for=1s"}[rand.IntN(3)]
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nhost: pop\r\nx-user: r%d\r\n\r\n", path, n%1000)
	time.Sleep(rand.N(30 * time.Millisecond))
	if n%2 == 0 {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}
