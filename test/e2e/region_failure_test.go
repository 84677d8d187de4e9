package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

const failureLimit = 10

const failureRules = `
rules:
  - name: fail-allow
    match: { path: /fail-allow }
    key: [ { header: x-user } ]
    limit: 10/1d
    algorithm: fixed_window
    on_failure: allow
  - name: fail-deny
    match: { path: /fail-deny }
    key: [ { header: x-user } ]
    limit: 10/1d
    algorithm: fixed_window
    on_failure: deny
  - name: fail-local
    match: { path: /fail-local }
    key: [ { header: x-user } ]
    limit: 10/1d
    algorithm: fixed_window
    on_failure: local
`

const failureBindings = `
bindings:
  - { domain: test, descriptor: [ { key: fail-allow } ], rule: fail-allow }
  - { domain: test, descriptor: [ { key: fail-deny } ], rule: fail-deny }
  - { domain: test, descriptor: [ { key: fail-local } ], rule: fail-local }
`

// While Redis is away, clients of Envoy's rate limit service are answered as each
// rule asks for: let through, refused, or by the replica's share of the limit, which it
// computes from the last count of replicas in Redis. Who was refused before stays
// refused. All of it is counted, and what was let through is charged afterwards.
func TestRedisFails(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	bindings := filepath.Join(t.TempDir(), "bindings.yaml")
	if err := os.WriteFile(bindings, []byte(failureBindings), 0o600); err != nil {
		t.Fatal(err)
	}
	var both []*replica
	for _, name := range []string{"replica-1", "replica-2"} {
		r := newReplica(t, name, failureRules, c.Addrs(), "--descriptors", bindings, "--rls-listen", proc.FreeAddr(t))
		r.Start()
		both = append(both, r)
	}
	rules := []string{"fail-allow", "fail-deny", "fail-local"}
	for _, r := range both {
		proc.Eventually(t, 15*time.Second, r.Name+" counts two replicas", func() bool { return r.Metrics()["weir_redis_replicas"] == 2 })
		for _, rule := range rules {
			proc.Eventually(t, 10*time.Second, rule+" is spent", func() bool { return r.offer(rule, "spent", 3*failureLimit) == 0 })
		}
	}

	killAll(c)
	for _, r := range both {
		for _, want := range []struct {
			rule, how string
			admitted  int
		}{
			{"fail-allow", "allow", 2 * failureLimit},
			{"fail-deny", "deny", 0},
			{"fail-local", "local", failureLimit / 2},
		} {
			before := r.Metrics()
			if got := r.offer(want.rule, "new", 2*failureLimit); got != want.admitted {
				t.Errorf("%s admitted %d of %d to a new key of %s, want %d", r.Name, got, 2*failureLimit, want.rule, want.admitted)
			}
			degraded := func(how string) float64 {
				sample := fmt.Sprintf(`weir_degraded_total{how=%q,rule=%q}`, how, want.rule)
				return r.Metrics()[sample] - before[sample]
			}
			if got := degraded(want.how); got == 0 {
				t.Errorf("%s: decisions of %s by on_failure are not counted", r.Name, want.rule)
			}
			// At first it is refused by a denial that is still young, as it would be with Redis.
			proc.Eventually(t, 10*time.Second, r.Name+" refuses as before the failure", func() bool {
				if got := r.offer(want.rule, "spent", failureLimit); got != 0 {
					t.Fatalf("%s admitted %d to a spent key of %s", r.Name, got, want.rule)
				}
				return degraded("denied") > 0
			})
		}
	}

	restartAll(c)
	proc.Eventually(t, 20*time.Second, "a limit holds over both replicas", func() bool {
		key := fmt.Sprint("again-", time.Now().UnixNano())
		return both[0].offer("fail-deny", key, 2*failureLimit)+both[1].offer("fail-deny", key, 2*failureLimit) == failureLimit
	})
	for _, r := range both {
		proc.Eventually(t, 20*time.Second, "what was let through is charged", func() bool { return r.offer("fail-allow", "new", 1) == 0 })
	}
}

// offer sends so many requests for a key of a rule, as a client of Envoy's rate limit
// service does, and counts what is within the limit.
func (r *replica) offer(rule, key string, n int) (admitted int) {
	r.t.Helper()
	body := fmt.Sprintf(`{"domain": "test", "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, rule, key)
	for range n {
		resp, err := r.HTTP.Post("http://"+r.Addr+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			r.t.Fatalf("%s: %v", r.Name, err)
		}
		resp.Body.Close()
		switch resp.StatusCode {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			r.t.Fatalf("%s: %s", r.Name, resp.Status)
		}
	}
	return admitted
}
