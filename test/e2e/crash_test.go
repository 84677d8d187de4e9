package e2e

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

const crashRules = `
  - { name: panic-quota, match: { path: /panic-quota }, timeout: 1s, key: [ { header: x-user } ], limit: 100/1d,
      algorithm: fixed_window, on_failure: { action: deny, status: 429 } }
  - { name: slots, match: { path: /stream }, timeout: 1s, key: [], limit: 4, algorithm: concurrency,
      lease: { ttl: 2s }, on_failure: { action: deny, status: 429 } }
`

// A build for tests kills its VM on a request. A new VM stands within a second, and the table, which belongs
// to Envoy, has lost nothing: what was spent stays spent, with the region away, so
// that the filter could not learn it again. No slot is lost either.
func vmCrashes(t *testing.T, s *stack.Stack, upstream *stack.InFlight) {
	p := s.PoPs[0]
	spends(t, 100, func() int64 {
		return offer(t, loadOf(s, "/panic-quota", "ann", 500)).OK()
	})
	p.Link.Cut()
	crash(t, p)

	t.Run("heals within a second", func(t *testing.T) {
		// The machine may be busy: what is looked at is that requests are served
		// again and that it took one reload per VM, not many.
		proc.Eventually(t, 5*time.Second, "requests are served", func() bool {
			tally := try(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/other"), Count: 50})
			return tally.OK() == 50
		})
	})
	t.Run("what was spent stays spent", func(t *testing.T) {
		tally := offer(t, loadOf(s, "/panic-quota", "ann", 500))
		if tally.OK() > 0 {
			t.Errorf("admitted %d of a spent key", tally.OK())
		}
	})
	p.Link.Heal()
	t.Run("leaks no slot", func(t *testing.T) {
		leave := fillSlots(t, s, upstream, 4)
		crash(t, p) // the VM of these streams is gone
		leave()
		proc.Eventually(t, 15*time.Second, "the upstream is idle", func() bool { return upstream.Now() == 0 })
		holdSlots(t, s, upstream, 4)
	})
	t.Run("counts a replaced VM", func(t *testing.T) { // also where the crashes so far came too early
		proc.Eventually(t, 30*time.Second, "a replaced VM is counted", func() bool {
			if p.Stat("wasmcustom.weir.vm_replaced") > 0 {
				return true
			}
			crash(t, p)
			return false
		})
	})
}

// crash kills the VM of each worker while requests are under way.
func crash(t *testing.T, p *stack.PoP) {
	t.Helper()
	before := p.Stats("wasm.weir.vm_reload_success")
	proc.Eventually(t, 30*time.Second, "both workers' VMs have crashed and are back", func() bool {
		try(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.Get("/other", "x-weir-test-panic", "stack"), Count: 8})
		time.Sleep(200 * time.Millisecond)
		for name, n := range p.Stats("wasm.weir.vm_reload_success") {
			if n >= before[name]+2 {
				return true
			}
		}
		return false
	})
}
