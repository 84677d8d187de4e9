package consul

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

const service, id = "weir-regional-eu", "weir-regional-eu-127.0.0.1:8080"

// passing has one replica, whose check passes.
var passing = map[string]string{id: "passing"}

// A replica is in the catalog as what it is, and no longer when it has ended.
func TestRegister(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	a, _ := newAgent(t, c.Addr)
	r := startReplica(t, a, "127.0.0.1", 8080)
	c.AwaitReplicas(service, func(all []consultest.Replica) string {
		if len(all) != 1 || all[0].Status != "passing" {
			return "not one that passes"
		}
		delete(all[0].Meta, instanceMeta)
		got := fmt.Sprint(all[0].ID, all[0].Address, all[0].Port, all[0].Meta)
		if want := fmt.Sprint(id, "127.0.0.1", 8080, map[string]string{"region": "eu", "rules_revision": "0", "version": "v1.2.3"}); got != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		return ""
	})
	r.revision.Store(7)
	r.Changed()
	c.AwaitReplicas(service, func(all []consultest.Replica) string {
		if len(all) != 1 || all[0].Meta["rules_revision"] != "7" || all[0].Status != "passing" {
			return "not with revision 7"
		}
		return ""
	})
	r.setReady(false)
	c.AwaitReplicas(service, func(all []consultest.Replica) string {
		if len(all) != 1 || all[0].Status != "critical" || all[0].Output != "not ready: draining" {
			return "not critical with the reason"
		}
		return ""
	})
	r.setReady(true)
	c.AwaitStatus(service, passing)
	r.stop()
	c.AwaitStatus(service, nil)
}

// A new registration of a replica that passes, for another revision, leaves no moment in
// which its check does not pass.
func TestRevisionKeepsTheCheck(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	a, _ := newAgent(t, c.Addr)
	r := startReplica(t, a, "127.0.0.1", 8080)
	c.AwaitStatus(service, passing)
	r.stop() // it is deregistered: now one call of the agent at a time
	c.AwaitStatus(service, nil)
	r.times.ttl = time.Hour // nobody renews it here
	for revision := range uint64(3) {
		if err := r.register(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		c.AwaitStatus(service, passing)
	}
}

// crashEnv makes the test binary a replica that registers at this agent.
const crashEnv = "WEIR_DISCOVERY_TEST_AGENT"

// A replica that is killed deregisters nothing. Its check does so, unless the replica comes
// back before.
func TestCrash(t *testing.T) {
	t.Parallel()
	if address := os.Getenv(crashEnv); address != "" {
		a, _ := newAgent(t, address)
		r := a.Register(Replica{Service: service, Host: "127.0.0.1", Port: 8080, Revision: func() uint64 { return 1 }, Ready: func() []string { return nil }}, "here")
		r.times.renew, r.times.ttl = 200*time.Millisecond, 2*time.Second
		_ = r.Run(t.Context())
		return
	}
	c := startConsul(t)
	p := proc.Start(t, proc.LogDir(t), "replica", "env", crashEnv+"="+c.Addr, os.Args[0], "-test.run=^TestCrash$")
	c.AwaitStatus(service, passing)
	p.Kill()
	c.AwaitStatus(service, map[string]string{id: "critical"})
	p.Begin()
	c.AwaitStatus(service, passing)
	p.Kill()
	c.AwaitStatus(service, map[string]string{id: "critical"})
	if os.Getenv("WEIR_LONG") != "" { // Consul removes no replica before its check has been critical for a minute
		c.AwaitStatus(service, nil)
	}
}

// An agent that has restarted and forgotten everything gets the registration again.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	a, _ := newAgent(t, c.Addr)
	startReplica(t, a, "127.0.0.1", 8080)
	c.AwaitStatus(service, passing)
	c.Kill()
	c.Start()
	c.AwaitStatus(service, passing)
}

// Consul may be away at the start, later, or hang: what changes is logged once, and the
// registration comes by itself.
func TestConsulAway(t *testing.T) {
	t.Parallel()
	c := consultest.New(t, proc.LogDir(t))
	a, log := newAgent(t, c.Addr)
	r := startReplica(t, a, "127.0.0.1", 8080)
	away := func(what string) {
		t.Helper()
		proc.Eventually(t, time.Minute, what, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.task.failures >= 3
		})
	}
	back := func() {
		t.Helper()
		log.await(t, "register", "back")
		c.AwaitStatus(service, passing)
	}
	away("failures before Consul starts")
	c.Start()
	back()
	c.Kill()
	away("failures without Consul")
	c.Start()
	back()
	c.Pause()
	away("failures while Consul hangs")
	c.Resume()
	back()
	r.stop()
	changes := log.changes("register")
	if len(changes) < 6 || changes[0] != "away" {
		t.Errorf("logged %q", changes)
	}
	if repeated := slices.Compact(slices.Clone(changes)); len(repeated) != len(changes) {
		t.Errorf("a state is logged twice: %q", changes)
	}
}
