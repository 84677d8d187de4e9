package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const countRules = `
  - { name: exact, match: { path: { prefix: /exact } }, key: [ { header: x-user } ], limit: 5/1d, timeout: 1s, on_failure: deny, count: { status: [401, 5xx] } }
  - { name: locked, match: { path: { prefix: /locked } }, key: [ { header: x-user } ], limit: 5/1d, timeout: 1s, on_failure: deny, count: { status: [401] }, on_limit: { block: 1h } }
  - { name: grpc, match: { path: { prefix: /grpc } }, key: [ { header: x-user } ], limit: 5/1d, timeout: 1s, on_failure: deny, count: { grpc_status: [16] } }
`

// A rule with count counts the responses of the upstream that have its statuses, each once, and nothing else: five 401 lock a
// key out, in all PoPs of the region at once. Both modules do that.
func countsByResponse(t *testing.T, s *stack.Stack, upstream *model) {
	get := func(pop int, path, user, answer string) stack.Response {
		return s.PoPs[pop].Get(path, "x-user", user, "x-answer", answer)
	}
	for one, p := range s.PoPs {
		other := 1 - one
		undisturbed(t, "exact at "+p.Name, s, func(t proc.T, user string) {
			ann, eve := fmt.Sprint("ann-", one, user), fmt.Sprint("eve-", one, user)
			for i := range 20 {
				expect(t, get(i%2, "/exact", ann, "200"), 200, nil)
			}
			expect(t, get(one, "/exact", eve, "200"), 200, map[string]string{"RateLimit": `^"exact";r=5;`})
			expect(t, get(one, "/exact", eve, "401"), 401, map[string]string{"RateLimit": `^"exact";r=4;`})
			for range 6 { // Envoy answers
				expect(t, get(one, "/exact/direct", ann, ""), 401, nil)
				expect(t, get(one, "/exact/late", ann, "hold"), 504, nil)
			}
			if r, err := stack.Do(p.Addr, http.MethodHead, "/exact", "", "x-user", ann, "x-answer", "401"); err != nil || r.Status != 401 {
				t.Errorf("HEAD: %v, status %d", err, r.Status)
			}
			upstream.attempts.Store(0)
			expect(t, get(one, "/exact/retried", ann, "third 401"), 401, nil)
			expect(t, get(one, "/exact/retried", ann, "third 200"), 200, nil)
			expect(t, get(one, "/exact", ann, "early 401"), 401, nil)
			expect(t, get(one, "/exact", ann, "early 200"), 200, nil)
			expect(t, get(other, "/exact", ann, "502"), 502, nil)
			expect(t, get(one, "/exact", ann, "403"), 403, nil)
			proc.Eventually(t, 10*time.Second, "what has not counted is back", func() bool { return get(other, "/exact", ann, "401").Status == 401 })
			for i := range 4 {
				expect(t, get(i%2, "/exact", ann, "200"), 429, map[string]string{"RateLimit": `^"exact";r=0;`})
			}
			if n := upstream.attempts.Load(); n != 6 {
				t.Errorf("%d attempts of two requests that Envoy tried three times each", n)
			}
		})
		undisturbed(t, "gRPC at "+p.Name, s, func(t proc.T, user string) {
			ann, bob, eve := fmt.Sprint("ann-", one, user), fmt.Sprint("bob-", one, user), fmt.Sprint("eve-", one, user)
			for range 5 {
				expect(t, get(one, "/grpc", ann, "grpc-trailer 0"), 200, nil)
				expect(t, get(one, "/grpc", ann, "grpc-header 7"), 200, nil)
				expect(t, get(one, "/grpc", ann, "401"), 401, nil)
				expect(t, get(one, "/grpc", eve, "grpc-header 16"), 200, nil)
				expect(t, get(one, "/grpc", bob, "grpc-trailer 16"), 200, nil)
			}
			expect(t, get(one, "/grpc", ann, "grpc-trailer 0"), 200, map[string]string{"Grpc-Status": `^$`})
			status := func(user string) string {
				return p.Get("/grpc", "x-user", user, "x-answer", "grpc-header 0", "content-type", "application/grpc").Header.Get("grpc-status")
			}
			if got := status(eve); got != "8" {
				t.Errorf("after five failures in headers: grpc-status %s", got)
			}
			if got, want := status(bob), map[bool]string{false: "0", true: "8"}[isNative(one)]; got != want {
				t.Errorf("after five failures in trailers: grpc-status %s, want %s", got, want)
			}
		})
	}
	undisturbed(t, "lock-out", s, func(t proc.T, user string) {
		ann, blocks := "ann-"+user, s.Region.Metrics()[`weir_blocks_total{rule="locked"}`]
		blocked := map[string]string{"Retry-After": `^3(600|59\d)$`, "RateLimit": `^"locked";r=0;t=3`}
		for i := range 5 {
			expect(t, get(i%2, "/locked", ann, "401"), 401, nil)
		}
		proc.Eventually(t, 10*time.Second, "the block begins", func() bool {
			return get(0, "/locked", ann, "200").Header.Get("Retry-After") > "1"
		})
		for i := range 4 {
			expect(t, get(i%2, "/locked", ann, "200"), 429, blocked)
		}
		expect(t, get(1, "/locked", "eve-"+user, "200"), 200, nil)
		if n := s.Region.Metrics()[`weir_blocks_total{rule="locked"}`]; n != blocks+1 {
			t.Errorf("%v blocks are counted, and %v before", n, blocks)
		}
		reset, err := http.Post("http://"+s.Region.Admin+"/v1/keys:reset", "application/json", strings.NewReader(`{"rule":"locked","counted":"`+ann+`","why":"it was ann"}`))
		if err != nil || reset.StatusCode != 200 {
			t.Fatalf("reset: %v, %v", reset, err)
		}
		proc.Eventually(t, 10*time.Second, "the reset ends the block", func() bool {
			return get(0, "/locked", ann, "200").Status == 200 && get(1, "/locked", ann, "200").Status == 200
		})
	})
}

const modeRules = `
  - { name: per-pop, match: { path: /per-pop }, key: [], limit: 10/1d, algorithm: fixed_window, scope: pop }
  - { name: optimistic, match: { path: /optimistic }, timeout: 1s, key: [ { header: x-user } ], limit: 100/1d,
      algorithm: fixed_window, consistency: optimistic, overdraft: 5, on_failure: { action: deny, status: 429 } }
  - { name: shadow, mode: shadow, match: { path: /shadow }, key: [ { header: x-user } ], limit: 1/1d, algorithm: fixed_window }
  - { name: beside-shadow, match: { path: /shadow }, timeout: 1s, key: [ { header: x-user } ], limit: 20/1d, algorithm: fixed_window,
      on_failure: { action: deny, status: 429 } }
  - { name: small, match: { path: /both, header: { x-small: "1" } }, timeout: 1s, key: [ { header: x-user } ], limit: 5/1d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
  - { name: large, match: { path: /both }, timeout: 1s, key: [ { header: x-user } ], limit: 50/1d, algorithm: fixed_window,
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
		// Overdrawn units are reported until a reply acknowledges them: counted twice they take from the limit as much as they may add.
		const overdraft = 2 * 5
		thrice(t, func(user string) bool {
			return spent(t, 100-overdraft, 100+overdraft, flood("/optimistic", "x-user", user))
		})
	})
	t.Run("a shadow rule changes no decision", func(t *testing.T) {
		thrice(t, func(user string) bool { return spent(t, 20, 20, flood("/shadow", "x-user", user)) }) // what the rule beside it allows
	})
	t.Run("what one rule rejects costs nothing on the others", func(t *testing.T) {
		thrice(t, func(user string) bool { // what was rejected cost nothing
			return spent(t, 5, 5, flood("/both", "x-user", user, "x-small", "1")) && spent(t, 45, 45, flood("/both", "x-user", user))
		})
	})
}
