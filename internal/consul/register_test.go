package consul

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// statusOf has one replica, at port 8080, with this status.
func statusOf(service, status string) map[string]string {
	return map[string]string{service + "-127.0.0.1:8080": status}
}

// TestOneAgent has the tests that leave their agent well: they share it, and each has a service of its own.
func TestOneAgent(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, proc.LogDir(t))
	for name, test := range map[string]func(*testing.T, *consultest.Agent, string){
		"registers": registers, "revision": revisionKeepsTheCheck, "crash": crashes, "two": twoWithOneID, "watch": watches,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c, "weir-"+name)
		})
	}
}

// A replica is in the catalog as what it is, and no longer when it has ended.
func registers(t *testing.T, c *consultest.Agent, service string) {
	a, _ := newAgent(t, Config{Address: c.Addr})
	r := startReplica(t, a, service, "127.0.0.1", 8080)
	await := func(revision, status, output string) {
		t.Helper()
		meta := map[string]string{"region": "eu", "rules_revision": revision, "version": "v1.2.3", instanceMeta: r.instance}
		want := fmt.Sprint(service+"-127.0.0.1:8080", "127.0.0.1", 8080, meta, status)
		c.AwaitReplicas(service, func(all []consultest.Replica) string {
			if len(all) != 1 || fmt.Sprint(all[0].ID, all[0].Address, all[0].Port, all[0].Meta, all[0].Status) != want || !strings.Contains(all[0].Output, output) {
				return "not " + want + output
			}
			return ""
		})
	}
	await("0", "passing", "")
	r.revision.Store(7)
	r.Changed()
	await("7", "passing", "")
	r.setReady(false)
	await("7", "critical", "not ready: draining")
	r.setReady(true)
	await("7", "passing", "")
	r.stop()
	c.AwaitStatus(service, nil)
}

// A new registration of a replica that passes, for another revision, leaves no moment in which its check does not pass.
func revisionKeepsTheCheck(t *testing.T, c *consultest.Agent, service string) {
	a, _ := newAgent(t, Config{Address: c.Addr})
	r := startReplica(t, a, service, "127.0.0.1", 8080)
	c.AwaitStatus(service, statusOf(service, "passing"))
	r.stop() // it is deregistered: now one call of the agent at a time
	c.AwaitStatus(service, nil)
	r.times.ttl = time.Hour // nobody renews it here
	for revision := range uint64(3) {
		fatal.If(t, r.register(t.Context(), revision))
		c.AwaitStatus(service, statusOf(service, "passing"))
	}
}

// A replica that is killed deregisters nothing. Its check does so, unless the replica comes back before.
func crashes(t *testing.T, c *consultest.Agent, service string) {
	a, _ := newAgent(t, Config{Address: c.Addr})
	begin := func() (kill func()) {
		r := a.Register(Replica{Service: service, Host: "127.0.0.1", Port: 8080, Revision: func() uint64 { return 1 }, Ready: func() []string { return nil }}, "here")
		r.times.ttl = 2 * time.Second
		return run(t, func(ctx context.Context) error {
			for r.Update(ctx); repeat.Sleep(ctx, 200*time.Millisecond); r.Update(ctx) {
			}
			return nil
		})
	}
	for range 2 {
		kill := begin()
		c.AwaitStatus(service, statusOf(service, "passing"))
		kill()
		c.AwaitStatus(service, statusOf(service, "critical"))
	}
	if !testing.Short() { // Consul removes no replica before its check has been critical for a minute
		c.AwaitStatus(service, nil)
	}
}

// Two replicas with one address: the older one keeps it, both report it, and the younger one has
// it when the older one has ended.
func twoWithOneID(t *testing.T, c *consultest.Agent, service string) {
	holds := func(r *replica) {
		t.Helper()
		c.AwaitReplicas(service, func(all []consultest.Replica) string {
			if len(all) != 1 || all[0].Meta[instanceMeta] != r.instance || all[0].Status != "passing" {
				return "not " + r.instance
			}
			return ""
		})
	}
	a, log := newAgent(t, Config{Address: c.Addr})
	older := startReplica(t, a, service, "127.0.0.1", 8080)
	holds(older)
	proc.Eventually(t, time.Minute, "it knows that", func() bool {
		older.mu.Lock()
		defer older.mu.Unlock()
		return older.registered
	})
	b, logOfYounger := newAgent(t, Config{Address: c.Addr})
	younger := startReplica(t, b, service, "127.0.0.1", 8080)
	log.Await(t, 1, "another process has registered with this replica's id")
	younger.mu.Lock()
	younger.task.failures++ // Consul was late just before
	younger.mu.Unlock()
	logOfYounger.Await(t, 1, "a process that is older has this id")
	holds(older)
	older.stop()
	holds(younger)
	younger.stop()
	c.AwaitStatus(service, nil)
}

// Consul may be away at the start, later, or hang: what changes is logged once, a watch keeps what it has, and
// registrations come by themselves, also at an agent that has forgotten everything.
func TestConsulAway(t *testing.T) {
	t.Parallel()
	const service = "weir-regional-eu"
	c := consultest.New(t, proc.LogDir(t))
	a, log := newAgent(t, Config{Address: c.Addr})
	r, l := startReplica(t, a, service, "127.0.0.1", 8080), new(list)
	run(t, a.Watch("replicas", service, "", l.set))
	away := func(what string) {
		t.Helper()
		proc.Eventually(t, time.Minute, what, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.task.failures >= 2
		})
	}
	back := func() {
		t.Helper()
		awaitState(t, log, "register", "back")
		c.AwaitStatus(service, statusOf(service, "passing"))
		l.await(t, "127.0.0.1:8080")
	}
	away("failures before Consul starts")
	c.Start()
	back()
	before := len(l.all())
	c.Kill()
	away("failures without Consul")
	awaitState(t, log, "replicas", "away")
	if calls := l.all(); len(calls) != before {
		t.Errorf("called while Consul is unavailable: %q", calls[before:])
	}
	c.Start() // its index is smaller than the watch's
	back()
	c.Pause()
	away("failures while Consul hangs")
	c.Resume()
	back()
	r.stop()
	all := changes(log, "register")
	if len(all) < 6 || all[0] != "away" || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("logged %q, want each change once", all)
	}
}
