package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Rules that count requests in flight, at a PoP of each module: slots, a shed rule, and VMs of the filter that crash.
func TestStreams(t *testing.T) {
	t.Parallel()
	var one, two, slots stack.InFlight
	mux := http.NewServeMux()
	mux.Handle("/", http.HandlerFunc(streams))
	mux.Handle("/one", one.Track(http.HandlerFunc(streams)))
	mux.Handle("/two", two.Track(http.HandlerFunc(streams)))
	mux.Handle("/stream", slots.Track(http.HandlerFunc(streams)))
	var upstreams []*loaded // of /v1/, by PoP
	dir := t.TempDir()
	s := start(t, stack.Config{Rules: "rules:\n" + fewSlotsRules + shedRules + crashRules, Links: true, Upstream: mux,
		Bootstrap: bothModules(func(b *envoy.Bootstrap, native bool) {
			if !native {
				b.SetVariant(envoy.Panicking)
			}
			u, own := new(loaded), fmt.Sprint("/", len(upstreams))
			u.log = filepath.Join(dir, own+".log")
			b.SetAccessLog(u.log)
			b.AddRoute(map[string]any{"match": map[string]any{"prefix": "/v1/"}, "route": map[string]any{"cluster": "upstream", "prefix_rewrite": own + "/v1/"}})
			mux.Handle(own+"/v1/", u.held.Track(u))
			upstreams = append(upstreams, u)
		})})
	t.Run("slots", func(t *testing.T) {
		slotsAreFreeAndNotExceeded(t, s, &one, &two)
		handOver(t, s, &one)
	})
	t.Run("shed rule", func(t *testing.T) {
		for i, p := range s.PoPs {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				sheds(t, p, upstreams[i])
			})
		}
	})
	if !envoy.Native() { // nothing replaces Envoy
		t.Run("a VM crashes", func(t *testing.T) { vmCrashes(t, s, &slots) })
	}
}

// streams answers at once, or a byte at once and the end as late as ?for says.
func streams(w http.ResponseWriter, r *http.Request) {
	d, _ := time.ParseDuration(r.URL.Query().Get("for"))
	if d == 0 {
		return
	}
	_, _ = w.Write([]byte("."))
	_ = http.NewResponseController(w).Flush()
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// fillSlots opens streams until so many are at the upstream, which only works with as many slots free. Their clients
// leave, all at once, with the function that it returns.
func fillSlots(t *testing.T, s *stack.Stack, upstream *stack.InFlight, slots int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	proc.Eventually(t, 15*time.Second, fmt.Sprintf("%d streams at a time", slots), func() bool {
		if n := upstream.Now(); n < slots {
			go func() { _ = stream(ctx, s.PoPs[n%len(s.PoPs)].Addr, "/stream?for=20s") }()
		}
		return upstream.Now() == slots
	})
	return func() {
		cancel()
		proc.Eventually(t, 15*time.Second, "the upstream is idle", func() bool { return upstream.Now() == 0 })
	}
}

// onItsOwn is a client that has a connection for each request.
var onItsOwn = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// stream reads one response to its end, or to that of ctx.
func stream(ctx context.Context, addr, path string) error {
	_, _, err := page.Get(ctx, &onItsOwn, "http://"+addr+path)
	return err
}
