package e2e

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/test/kit/stack"
)

const clientIPRules = `
  - { name: by-address, match: { path: /by-address }, timeout: 1s, key: [ client_ip ], limit: 3/1d,
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
}

func admitted(yes bool) int {
	if yes {
		return 200
	}
	return 429
}
