package e2e

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// The windows last a day, so that none ends within a scenario: see proc.AwaitDay.
var faultRules = rule("fail-allow", "limit: 10/1d, timeout: 300ms, on_failure: allow") +
	rule("fail-deny", "limit: 10/1d, timeout: 300ms, on_failure: deny") +
	rule("fail-deny-429", "limit: 10/1d, timeout: 300ms, on_failure: { action: deny, status: 429 }") +
	rule("fail-local", "limit: 10/1d, timeout: 300ms, on_failure: { action: local, expected_pops: 2 }") +
	rule("healed", "limit: 10/2s, timeout: 300ms, on_failure: deny")

// While the region does not answer, its on_failure decides for each rule: at once when the breaker is open, and before
// that never later than its timeout. What was rejected before stays rejected. When the region answers again, so do the
// limits. For a filter every failure is one of two: no reply, or no connection.
func regionFails(t *testing.T, s *stack.Stack) {
	for _, fault := range []struct {
		name        string
		begin, over func()
	}{
		{"hanging", s.Region.Pause, s.Region.Resume},
		{"stopped and started again", s.Region.Stop, s.Region.Start},
	} {
		t.Run(fault.name, func(t *testing.T) {
			spent := "spent before " + fault.name
			spend(t, s, spent)
			fault.begin()
			t.Run("on_failure: allow", func(t *testing.T) { failsOpen(t, s, fault.name) })
			t.Run("on_failure: deny", func(t *testing.T) {
				allGet(t, s, 503, fault.name, "/fail-deny")
				allGet(t, s, 429, fault.name, "/fail-deny-429")
			})
			t.Run("on_failure: local", func(t *testing.T) { failsLocal(t, s, fault.name) })
			t.Run("denied stays denied", func(t *testing.T) { allGet(t, s, 429, spent, spendable...) })
			t.Run("few calls", func(t *testing.T) { probesFew(t, s) })
			fault.over()
			t.Run("healed", func(t *testing.T) { heals(t, s) })
			t.Run("charged afterwards", func(t *testing.T) { chargedAfterwards(t, s, fault.name) })
		})
	}
}

// spendable are paths of limits that one key uses up before the region fails.
var spendable = []string{"/fail-allow", "/fail-deny", "/fail-local"}

// spend uses up the limit of one key under each rule, so that both PoPs have cached its denial.
func spend(t *testing.T, s *stack.Stack, user string) {
	t.Helper()
	for _, path := range spendable {
		proc.Eventually(t, 10*time.Second, path+" is spent", func() bool {
			tally := try(t, loadOf(s, path, user, 400)) // while the region is slow its on_failure decides
			time.Sleep(200 * time.Millisecond)          // for denials that are under way
			return tally.Status[429] == 400
		})
	}
}

func failsOpen(t *testing.T, s *stack.Stack, user string) {
	before := degraded(s)
	allGet(t, s, 200, user, "/fail-allow")
	// Each of them is counted as degraded, but those that a lease paid for.
	proc.Eventually(t, 10*time.Second, "the metric of degraded decisions", func() bool { return degraded(s)-before >= 380 })
}

// degraded counts the requests that passed because the region did not answer.
func degraded(s *stack.Stack) (n int64) {
	for _, p := range s.PoPs {
		n += p.Stat("wasmcustom.weir.decisions.rule.fail-allow.decision.allowed.reason.on_failure")
	}
	return n
}

// chargedAfterwards: what a PoP admitted while nobody answered is reported when
// somebody does, and leaves nothing of that key's limit.
func chargedAfterwards(t *testing.T, s *stack.Stack, user string) {
	proc.Eventually(t, 20*time.Second, "requests that passed without a lease are charged", func() bool {
		return try(t, loadOf(s, "/fail-allow", user, 32)).Status[429] == 32
	})
}

// allGet sends 400 requests of a user to each path, which all get this status.
func allGet(t *testing.T, s *stack.Stack, status int, user string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		tally := try(t, loadOf(s, path, user, 400))
		if tally.Status[status] != 400 {
			t.Errorf("%s: %v, want 400 times %d", path, tally.Status, status)
		}
		bounded(t, tally)
	}
}

// Each of the two PoPs admits its half of the limit, to the unit.
func failsLocal(t *testing.T, s *stack.Stack, user string) {
	for _, p := range s.PoPs {
		tally := offer(t, drive.Load{Addrs: []string{p.Addr}, Request: drive.Get("/fail-local", "x-user", user), Count: 100})
		if tally.OK() != 5 {
			t.Errorf("%s admitted %d, want 5: half of the limit", p.Name, tally.OK())
		}
		bounded(t, tally)
	}
}

// With its breaker open, a worker probes every 100 ms, and no request calls. The PoP asks
// for newer rules every 500 ms. Both times vary by 10 %.
func probesFew(t *testing.T, s *stack.Stack) {
	const workers = 2
	calls, took := callsIn(s, time.Second, func(until time.Time) {
		try(t, drive.Load{
			Addrs:   s.Addrs(),
			Request: drive.GetEach("/fail-allow", "x-user", t.Name()), // every key is new: all would ask
			Until:   until,
		})
	})
	for i, p := range s.PoPs {
		probes, rules := took/(90*time.Millisecond)+1, took/(450*time.Millisecond)+1
		if most := int64(workers*probes + rules); calls[i] > most {
			t.Errorf("%s made %d calls in %v while the region did not answer, at most %d", p.Name, calls[i], took, most)
		}
	}
}

// heals waits until a limit holds over both PoPs again.
func heals(t *testing.T, s *stack.Stack) {
	proc.Eventually(t, 15*time.Second, "10 of 100 requests are admitted, 90 rejected", func() bool {
		user := time.Now().String()
		tally := try(t, loadOf(s, "/healed", user, 100))
		return tally.OK() == 10 && tally.Status[429] == 90
	})
}

// bounded fails when a request waited for long: the rule's timeout is 300 ms, the
// rest is for a busy machine. What waits for an answer that does not come waits longer.
func bounded(t *testing.T, tally *drive.Result) {
	t.Helper()
	if tally.Slowest > 10*time.Second {
		t.Errorf("a request took %v, the rule's timeout is 300ms", tally.Slowest)
	}
}
