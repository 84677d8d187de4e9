package e2e

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/stack"
)

const clientIPRules = `
  - { name: by-address, match: { path: /by-address }, timeout: 1s, key: [ client_ip ], limit: 3/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny }
  - { name: by-hop, match: { path: /by-hop }, timeout: 1s, key: [ { client_ip: { trusted_hops: 2 } } ], limit: 3/1d,
      algorithm: fixed_window, consistency: exact, on_failure: deny }
`

// A client is its address, not what it claims in X-Forwarded-For: by claiming a
// new one with every request it gains nothing.
func forgedForwardedForGainsNothing(t *testing.T, s *stack.Stack) {
	for i := range 6 {
		forged := fmt.Sprintf("203.0.113.%d", i)
		if got, want := s.PoPs[i%2].Get("/by-address", "X-Forwarded-For", forged).Status, admitted(i < 3); got != want {
			t.Errorf("request %d from one address, forging %s: status %d, want %d", i+1, forged, got, want)
		}
	}
	// Behind one trusted proxy the filter sees: what the client claims, the client
	// as the proxy saw it, the proxy as Envoy saw it.
	for _, client := range []string{"198.51.100.1", "198.51.100.2"} {
		for i := range 6 {
			claims := fmt.Sprintf("203.0.113.%d, %s", i, client)
			if got, want := s.PoPs[i%2].Get("/by-hop", "X-Forwarded-For", claims).Status, admitted(i < 3); got != want {
				t.Errorf("request %d of %s with X-Forwarded-For %q: status %d, want %d", i+1, client, claims, got, want)
			}
		}
	}
}

// Behind one trusted proxy, which Envoy's settings name, the client is the one that the proxy saw.
func TestClientBehindTrustedProxy(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Config{
		PoPs: 1, Workers: 1,
		Rules:     "rules:\n" + clientIPRules,
		Bootstrap: func(b *envoy.Bootstrap) { b.SetTrustedHops(1) },
	})
	awaitRules(t, s)
	for _, client := range []string{"198.51.100.1", "198.51.100.2", "2001:db8::1"} {
		for i := range 5 {
			claims := fmt.Sprintf("203.0.113.%d, %s", i, client)
			if got, want := s.PoPs[0].Get("/by-address", "X-Forwarded-For", claims).Status, admitted(i < 3); got != want {
				t.Errorf("request %d of %s with X-Forwarded-For %q: status %d, want %d", i+1, client, claims, got, want)
			}
		}
	}
	// One customer has a whole /64 of IPv6.
	if got := s.PoPs[0].Get("/by-address", "X-Forwarded-For", "2001:db8::ffff:1").Status; got != 429 {
		t.Errorf("another address in the /64 that is spent: status %d, want 429", got)
	}
}

func admitted(yes bool) int {
	if yes {
		return 200
	}
	return 429
}
