package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Each request asks the aggregator: one that is not decided there is refused with 503.
const federationRules = `
rules:
  - name: each
    match: { path: /each }
    key: [path]
    limit: 1000000/1h
    algorithm: fixed_window
    scope: global
    consistency: exact
    timeout: 1s
    on_failure: deny
  - name: few
    match: { path: /few }
    key: [path]
    limit: 20/1d
    algorithm: fixed_window
    scope: global
    consistency: exact
    timeout: 1s
    on_failure: deny
`

// federation is an aggregator in the primary datacenter of three servers, and a region in
// another datacenter, each with the agent of its machine. Nothing is allowed but what the
// policies of the repository allow, and all calls of Consul are encrypted.
type federation struct {
	t               *testing.T
	dir             string
	primary, second *consul.Datacenter
	agents          []*consul.Agent // of the aggregator, of the region
	programs        []*region.Region
	pop             *stack.Stack
	aggregator, eu  map[string]string // what the catalog has to have
}

func startFederation(t *testing.T) *federation {
	t.Helper()
	f := &federation{t: t, dir: proc.LogDir(t)}
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.Write(f.dir, "weir", "weir"); err != nil {
		t.Fatal(err)
	}
	ca := proc.WriteFile(t, filepath.Join(f.dir, "ca.pem"), string(authority.PEM))
	f.primary = consul.StartDatacenter(t, consul.Config{Dir: f.dir, Servers: 3, ACL: true, TLS: authority})
	f.second = consul.StartDatacenter(t, consul.Config{Dir: f.dir, Name: "dc2", Primary: f.primary})
	f.agents = []*consul.Agent{f.primary.StartClient(), f.second.StartClient()}
	f.agents[1].SetDNSToken(f.token("dns"))
	flags := func(agent *consul.Agent, policy string, more ...string) []string {
		return append([]string{"--consul", agent.Addr, "--consul-token-file", proc.WriteFile(t, filepath.Join(f.dir, policy+".token"), f.token(policy)),
			"--consul-tls", "--consul-tls-ca", ca, "--consul-tls-cert", filepath.Join(f.dir, "weir.pem"), "--consul-tls-key", filepath.Join(f.dir, "weir.key")}, more...)
	}
	f.programs = []*region.Region{
		region.New(t, region.Config{
			Dir: f.dir, Name: "global", Rules: federationRules, Program: "weir-global",
			Flags: flags(f.agents[0], "weir-global", "--state", filepath.Join(f.dir, "global.state")),
		}),
		region.New(t, region.Config{
			Dir: f.dir, Name: "eu", Rules: federationRules, Flags: flags(f.agents[1], "weir-regional", "--region", "eu", "--consul-primary", "dc1", "--state", "off"),
		}),
	}
	for _, p := range f.programs {
		p.Start()
	}
	f.aggregator, f.eu = map[string]string{"weir-global-" + f.programs[0].Addr: "passing"}, map[string]string{"weir-regional-" + f.programs[1].Addr: "passing"}
	f.awaitWhole("at the start")
	_, port, _ := net.SplitHostPort(f.programs[1].Addr) // is from proc.FreeAddr
	f.pop = stack.Start(t, stack.Config{PoPs: 1, Workers: 1, RegionAddr: f.programs[1].Addr, Bootstrap: func(b *envoy.Bootstrap) { b.FindRegion("eu", port, f.agents[1].DNS) }})
	awaitRules(t, f.pop)
	return f
}

// token makes a token of a policy of the repository.
func (f *federation) token(policy string) string {
	f.t.Helper()
	rules, err := os.ReadFile(filepath.Join(proc.Root(f.t), "consul", "policies", policy+".hcl"))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.primary.NewToken(string(rules))
}

// awaitWhole waits until Consul does all that the programs ask for, and each datacenter has its
// replicas.
func (f *federation) awaitWhole(when string) {
	f.t.Helper()
	began := time.Now()
	for i, tasks := range [][]string{{"register"}, {"register", "replicas", "aggregators"}} {
		p := f.programs[i]
		proc.Await(f.t, time.Minute, p.Name+" has Consul "+when, func() string {
			m := p.Metrics()
			for _, task := range tasks {
				if m[`weir_consul_ok{task="`+task+`"}`] != 1 {
					return task
				}
			}
			return ""
		})
	}
	f.agents[0].AwaitStatus("weir-global", f.aggregator)
	f.agents[1].AwaitStatus("weir-regional", f.eu)
	f.t.Logf("%s: whole after %v", when, time.Since(began).Round(10*time.Millisecond))
}

// everybody are all agents of Consul.
func (f *federation) everybody() []*consul.Agent {
	return append(append(append([]*consul.Agent{}, f.primary.Servers...), f.second.Servers...), f.agents...)
}

// Requests are decided by the aggregator in another datacenter while the leader there is killed,
// while agents restart, and while no agent of Consul is up. What was registered before is
// registered again afterwards.
func TestConsulFaults(t *testing.T) {
	t.Parallel()
	f := startFederation(t)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	offered := make(chan *drive.Result, 1)
	go func() {
		result, err := drive.Run(ctx, drive.Load{Addrs: f.pop.Addrs(), Conns: 4, Request: drive.Get("/each"), PerSecond: 50, Until: time.Now().Add(3 * time.Minute)})
		if err != nil {
			t.Error(err)
		}
		offered <- result
	}()

	leader := f.primary.Leader()
	leader.Kill()
	f.primary.Leader()
	f.awaitWhole("after the leader was killed")
	leader.Start()

	for _, a := range f.agents {
		a.Kill()
		a.Start()
	}
	f.awaitWhole("after the agents restarted")

	for _, a := range f.everybody() {
		a.Kill()
	}
	f.awaitTask("register", 0)
	f.decides("while Consul is away")
	for _, a := range f.everybody() {
		a.Begin()
	}
	f.awaitWhole("after all of Consul was away")

	end()
	r := <-offered
	t.Logf("%v, slowest %v", r.Status, r.Slowest)
	// On a busy machine an answer may be late.
	if late := r.Status[http.StatusServiceUnavailable]; late > r.OK()/100 || r.Other(http.StatusOK, http.StatusServiceUnavailable) > 0 || r.Failed > 0 {
		t.Errorf("%v, %d failed: %v", r.Status, r.Failed, r.FirstError)
	}
}

// awaitTask waits until a metric of both programs shows whether Consul does a task.
func (f *federation) awaitTask(task string, want float64) {
	f.t.Helper()
	name := `weir_consul_ok{task="` + task + `"}`
	for _, p := range f.programs {
		proc.Eventually(f.t, time.Minute, fmt.Sprint(p.Name, " ", name, " ", want), func() bool { return p.Metrics()[name] == want })
	}
}

// decides offers more than an exact limit, and checks that the aggregator admits just that.
func (f *federation) decides(when string) {
	f.t.Helper()
	exactly(f.t, when, 20, func() map[int]int {
		statuses := map[int]int{}
		for range 30 {
			statuses[f.pop.PoPs[0].Get("/few").Status]++
		}
		return statuses
	})
}
