package consul

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/consul/policies"
	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// without is a policy without the line of this right.
func without(t *testing.T, rules, right string) string {
	t.Helper()
	less := strings.Replace(rules, right+"\n", "", 1)
	if less == rules {
		t.Fatalf("the policy has no line %s:\n%s", right, rules)
	}
	return less
}

// secured is a datacenter with ACL and TLS, and the files for its callers.
type secured struct {
	*consultest.Datacenter
	dir   string
	files certs.Files
}

// agent is the one of the datacenter, called with the token in a file.
func (s *secured) agent(t *testing.T, tokenFile string) (*Agent, *proc.Lines) {
	t.Helper()
	set := fatal.Get(certs.Load("consul", s.files, nil, slog.New(slog.DiscardHandler)))(t)
	return newAgent(t, Config{Address: s.Servers[0].Addr, TLS: set, TokenFile: tokenFile})
}

// with is the agent, called with a token of these rules.
func (s *secured) with(t *testing.T, rules string) (*Agent, *proc.Lines) {
	t.Helper()
	secret := s.NewToken(rules)
	return s.agent(t, proc.WriteFile(t, filepath.Join(s.dir, secret), secret+"\n"))
}

// TestPolicies has the tests that share a datacenter with ACL and TLS.
func TestPolicies(t *testing.T) {
	t.Parallel()
	s := &secured{dir: proc.LogDir(t)}
	authority := pki.NewAuthority()
	s.files = certs.Files{CA: filepath.Join(s.dir, "ca.pem"), Cert: filepath.Join(s.dir, "weir.pem"), Key: filepath.Join(s.dir, "weir.key")}
	fatal.If(t, authority.Write(s.dir, "weir", "weir"))
	s.Datacenter = consultest.StartDatacenter(t, consultest.Config{Dir: s.dir, ACL: true, TLS: authority})
	for name, test := range map[string]func(*testing.T, *secured){
		"programs": policiesOfPrograms, "keys": policiesOfKeys, "agents": policyOfAgents, "dns": policyOfDNS, "token": tokenChanges,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// The policies of the repository are what the programs need, over TLS: without one of the
// rights they report which one, and they have no others.
func policiesOfPrograms(t *testing.T, s *secured) {
	const service = "weir-regional-eu"
	global, _ := s.with(t, policies.Aggregator())
	startReplica(t, global, "weir-global", "127.0.0.1", 8090)
	rules := policies.Regional("eu")
	port := 8080
	start := func(rules string) (a *Agent, log *proc.Lines, aggregators *list) {
		var replicas *list
		a, log = s.with(t, rules)
		replicas, aggregators = new(list), new(list)
		run(t, a.Watch("replicas", service, "", replicas.set))
		run(t, a.Watch("aggregators", "weir-global", "", aggregators.set))
		startReplica(t, a, service, "127.0.0.1", port)
		port++
		return a, log, aggregators
	}
	regional, _, found := start(rules)
	found.await(t, "127.0.0.1:8090")
	s.Servers[0].AwaitStatus(service, statusOf(service, "passing"))

	for _, c := range []struct{ right, task, message string }{
		{`service "weir-regional-eu" { policy = "write" }`, "register", "lacks permission 'service:write' on \\\"weir-regional-eu\\\""},
		{`service "weir-global" { policy = "read" }`, "aggregators", "the token lacks service:read on \\\"weir-global\\\""},
		{`node_prefix "" { policy = "read" }`, "replicas", "or node:read"},
	} {
		_, log, _ := start(without(t, rules, c.right))
		log.Await(t, 1, "task="+c.task, c.message)
	}
	nobody, log := s.with(t, without(t, policies.Aggregator(), `service "weir-global" { policy = "write" }`))
	startReplica(t, nobody, "weir-global", "127.0.0.1", 8090)
	log.Await(t, 1, "task=register", "lacks permission 'service:write' on \\\"weir-global\\\"")

	person := policies.People()
	applies, _ := s.with(t, person)
	strangers, _ := s.with(t, `service "db" { policy = "write" }`)
	fatal.If(t, strangers.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "db", Check: &api.AgentServiceCheck{TTL: "1h"}}))
	// A call that takes more than a second is made again; a right too much or too little is seen at the first answer.
	registered := func(a *Agent) (all []Registered, err error) {
		proc.Eventually(t, time.Minute, "Consul answers within its second", func() bool {
			all, err = a.Registered(t.Context(), "weir-global", "weir-regional-")
			return !errors.Is(err, context.DeadlineExceeded)
		})
		return all, err
	}
	if all, err := registered(applies); err != nil || len(all) < 2 {
		t.Errorf("a person who applies rules sees %+v, %v", all, err)
	}
	for _, right := range []string{`service_prefix "weir-regional-" { policy = "read" }`, `service "weir-global" { policy = "read" }`, `node_prefix "" { policy = "read" }`} {
		lacks, _ := s.with(t, without(t, person, right))
		if _, err := registered(lacks); !lacksRight(err) {
			t.Errorf("a person without %s: %v", right, err)
		}
	}

	for name, rejected := range map[string]error{
		"the region registers an aggregator":            regional.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "weir-global", Port: 1}),
		"the region registers a replica of another one": regional.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "weir-regional-us", Port: 1}),
		"the region registers one past the agent":       regional.catalog("tester", "weir-regional-us"),
		"the region registers a replica as before":      regional.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "weir-regional", Port: 1}),
		"the aggregator registers a replica":            global.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: service, Port: 1}),
	} {
		if !lacksRight(rejected) {
			t.Errorf("%s: %v", name, rejected)
		}
	}
}

// The policies give whom they are for the keys of the rules that it needs, and without one of
// these rights the call is rejected.
func policiesOfKeys(t *testing.T, s *secured) {
	rules := &api.KVPair{Key: "weir/rules/manifest", Value: []byte("x")}
	copied := &api.KVPair{Key: "weir/rules-copy/eu/manifest", Value: []byte("x")}
	put := func(pair *api.KVPair) func(*Agent) error {
		return func(a *Agent) error { _, err := a.client.KV().Put(pair, nil); return err }
	}
	get := func(a *Agent) error { _, _, err := a.client.KV().Get(rules.Key, nil); return err }
	check := func(what string, policy string, call func(*Agent) error, may bool) {
		t.Helper()
		a, _ := s.with(t, policy)
		if err := call(a); may && err != nil || !may && !lacksRight(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const write, read, keep = `key_prefix "weir/rules/" { policy = "write" }`, `key_prefix "weir/rules/" { policy = "read" }`, `key_prefix "weir/rules-copy/eu/" { policy = "write" }`
	check("a person applies", policies.People(), put(rules), true)
	check("a person without the right applies", without(t, policies.People(), write), put(rules), false)
	check("a person writes a copy", policies.People(), put(copied), false)
	check("an aggregator reads", policies.Aggregator(), get, true)
	check("an aggregator applies", policies.Aggregator(), put(rules), true)
	check("an aggregator without the right applies", without(t, policies.Aggregator(), write), put(rules), false)
	check("a replica reads", policies.Regional("eu"), get, true)
	check("a replica applies", policies.Regional("eu"), put(rules), false)
	check("a replica without the right reads", without(t, policies.Regional("eu"), read), get, false)
	check("a replica keeps a copy", policies.Regional("eu"), put(copied), true)
	check("a replica without the right keeps a copy", without(t, policies.Regional("eu"), keep), put(copied), false)
	check("a replica of another region writes the copy", policies.Regional("us"), put(copied), false)
	check("an aggregator writes the copy", policies.Aggregator(), put(copied), false)
}

// An agent changes and removes the nodes of its own region and role only, with all that is registered there.
func policyOfAgents(t *testing.T, s *secured) {
	operator, _ := s.with(t, `node_prefix "" { policy = "write" } service_prefix "" { policy = "write" }`)
	agent, _ := s.with(t, policies.Agent("eu", policies.PoP))
	const own, service = "eu-pop-1", "weir-regional-mx"
	others := []string{"eu-service-1", "eu-global-1", "eu-consul-1", "us-pop-1", "us-service-1", "eu-popular-1"}
	for _, node := range append(others, own) {
		fatal.If(t, operator.catalog(node, service))
	}
	remove := func(node string) error {
		_, err := agent.client.Catalog().Deregister(&api.CatalogDeregistration{Node: node}, nil)
		return err
	}
	for _, node := range append(others, s.Servers[0].Name) {
		moved := &api.CatalogRegistration{Node: node, Address: "192.0.2.1"}
		if _, err := agent.client.Catalog().Register(moved, nil); !lacksRight(err) {
			t.Errorf("the agent of a PoP moves %s: %v", node, err)
		}
		if err := remove(node); !lacksRight(err) {
			t.Errorf("the agent of a PoP removes %s: %v", node, err)
		}
	}
	if err := agent.catalog(own, service); !lacksRight(err) {
		t.Errorf("the agent of a PoP registers a replica: %v", err)
	}
	if err := remove(own); err != nil {
		t.Errorf("the agent of a PoP removes its own node: %v", err)
	}
}

// catalog registers a replica on a node, past the node's agent.
func (a *Agent) catalog(node, service string) error {
	_, err := a.client.Catalog().Register(&api.CatalogRegistration{Node: node, Address: "127.0.0.1",
		Service: &api.AgentService{Service: service, Address: "127.0.0.1", Port: 1}}, nil)
	return err
}

// An agent with the policy for DNS has the replicas there that pass, and none without one of its rights.
func policyOfDNS(t *testing.T, s *secured) {
	const service = "weir-regional-ap"
	c, rules := s.Servers[0], policies.DNS("ap")
	a, _ := s.with(t, policies.Regional("ap"))
	startReplica(t, a, service, "127.0.0.1", 8080)
	startReplica(t, a, service, "127.0.0.3", 8080).setReady(false)
	c.AwaitStatus(service, map[string]string{service + "-127.0.0.1:8080": "passing", service + "-127.0.0.3:8080": "critical"})
	for policy, want := range map[string]string{
		rules: "127.0.0.1",
		without(t, rules, `service "weir-regional-ap" { policy = "read" }`): "no such host",
		without(t, rules, `node_prefix "" { policy = "read" }`):             "no such host",
	} {
		c.SetDNSToken(s.NewToken(policy))
		proc.Await(t, time.Minute, want, func() string {
			if got := lookup(c, service); !strings.Contains(got, want) || want == "127.0.0.1" && got != want {
				return "the answer " + got
			}
			return ""
		})
	}
}

// A token is changed by changing its file, and an empty file changes nothing.
func tokenChanges(t *testing.T, s *secured) {
	const service = "weir-regional-sa"
	file := filepath.Join(s.dir, "token")
	if _, err := New(Config{Address: "127.0.0.1:1", TokenFile: file}, telemetry.NewRegistry("test"), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	proc.WriteFile(t, file, s.NewToken(`service "other" { policy = "write" }`))
	a, log := s.agent(t, file)
	startReplica(t, a, service, "127.0.0.1", 8080)
	log.Await(t, 1, "task=register", "Permission denied")
	proc.WriteFile(t, file+".next", s.NewToken(policies.Regional("sa")))
	fatal.If(t, os.Rename(file+".next", file))
	awaitState(t, log, "register", "back")
	proc.WriteFile(t, file, "")
	log.Await(t, 1, "is empty")
	s.Servers[0].AwaitStatus(service, statusOf(service, "passing"))
}
