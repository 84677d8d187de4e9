package e2e

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const modeRules = `
  - { name: per-pop, match: { path: /per-pop }, key: [], limit: 10/1d, algorithm: fixed_window, scope: pop }
  - { name: optimistic, match: { path: /optimistic }, timeout: 1s, key: [ { header: x-user } ], limit: 100/1d,
      algorithm: fixed_window, consistency: optimistic, overdraft: 5, on_failure: { action: deny, status: 429 } }
  - { name: shadow, mode: shadow, match: { path: /shadow }, key: [], limit: 1/1d, algorithm: fixed_window }
  - { name: beside-shadow, match: { path: /shadow }, timeout: 1s, key: [], limit: 20/1d, algorithm: fixed_window,
      on_failure: { action: deny, status: 429 } }
  - { name: small, match: { path: /both, header: { x-small: "1" } }, timeout: 1s, key: [], limit: 5/1d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
  - { name: large, match: { path: /both }, timeout: 1s, key: [], limit: 50/1d, algorithm: fixed_window,
      on_failure: { action: deny, status: 429 } }
`

// modes checks what rules may be besides exact and leased ones of a region.
func modes(t *testing.T, s *stack.Stack) {
	flood := func(path string, headers ...string) func() int64 {
		return func() int64 {
			return offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get(path, headers...), Count: 400}).OK()
		}
	}
	t.Run("scope pop: each PoP has the limit for itself", func(t *testing.T) {
		for _, p := range s.PoPs {
			tally := offer(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.Get("/per-pop"), Count: 1000})
			if tally.OK() != 10 {
				t.Errorf("%s admitted %d, want 10", p.Name, tally.OK())
			}
		}
	})
	t.Run("optimistic: at most L and the overdraft of each holder", func(t *testing.T) {
		// Overdrawn units are reported until a reply acknowledges them: counted twice
		// they take from the limit as much as they may add to it.
		const overdraft = 2 * 5
		var admitted int64
		proc.Eventually(t, time.Minute, "/optimistic is spent", func() bool {
			n := flood("/optimistic", "x-user", "ann")()
			admitted += n
			return n == 0 && admitted >= 100-overdraft
		})
		if admitted > 100+overdraft {
			t.Errorf("admitted %d, want 100, give or take %d", admitted, overdraft)
		}
	})
	t.Run("a shadow rule changes no decision", func(t *testing.T) {
		spends(t, 20, flood("/shadow")) // what the rule beside it allows
	})
	t.Run("what one rule rejects costs nothing on the others", func(t *testing.T) {
		spends(t, 5, flood("/both", "x-small", "1"))
		spends(t, 45, flood("/both")) // what was rejected cost nothing
	})
}
