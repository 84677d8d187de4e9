package e2e

import (
	"net/http"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const besideRules = `rules:
  - { name: once, match: { path: /once }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, timeout: 1s, charge_denied: true }
  - { name: page, match: { path: /page }, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, timeout: 1s,
      refusal: { status: 503, body: "<p>{rule}", content_type: text/html } }
`

// What stands beside the filter in a PoP, in front of the PoP and behind it.
func TestBeside(t *testing.T) {
	t.Parallel()
	front := proc.FreeAddr(t)
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: besideRules, Bootstrap: func(b *envoy.Bootstrap) {
		b.AddFront(front, map[string]any{
			"retry_on": "5xx,retriable-status-codes,resource-exhausted,unavailable", "retriable_status_codes": []any{429}, "num_retries": 3,
			"retry_back_off": map[string]any{"base_interval": "0.001s"},
		})
	}})
	awaitRules(t, s)
	t.Run("an Envoy in front does not retry", func(t *testing.T) { notRetried(t, s.PoPs[0], front) })
}

// notRetried sends two requests of each kind through an Envoy that retries refusals: the PoP sees two.
func notRetried(t *testing.T, p *stack.PoP, front string) {
	for name, c := range map[string]struct {
		path, kind string
		status     int
	}{
		"429":    {"/once", "text/plain", 429},
		"503":    {"/page", "text/plain", 503},
		"gRPC 8": {"/once", "application/grpc", 200},
	} {
		const seen = "http.pop.downstream_rq_total"
		before := p.Stats(seen)[seen]
		for i, want := range []int{200, c.status} {
			r, err := stack.Do(front, http.MethodPost, c.path, "", "x-user", "retried-"+name, "content-type", c.kind)
			if err != nil || r.Status != want || i == 1 && r.Header.Get("x-envoy-ratelimited") != "true" {
				t.Errorf("%s: status %d, want %d, headers %v, %v", name, r.Status, want, r.Header, err)
			}
		}
		if n := p.Stats(seen)[seen] - before; n != 2 {
			t.Errorf("%s: of 2 requests the PoP sees %d", name, n)
		}
	}
}
