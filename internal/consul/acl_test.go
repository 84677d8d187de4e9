package consul

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// policy is one that the repository has for operators.
func policy(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), "consul", "policies", name+".hcl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

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
	t     *testing.T
	dir   string
	files certs.Files
}

func startSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{t: t, dir: proc.LogDir(t)}
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s.files = certs.Files{CA: filepath.Join(s.dir, "ca.pem"), Cert: filepath.Join(s.dir, "weir.pem"), Key: filepath.Join(s.dir, "weir.key")}
	proc.WriteFile(t, s.files.CA, string(authority.PEM))
	if err := authority.Write(s.dir, "weir", "weir"); err != nil {
		t.Fatal(err)
	}
	s.Datacenter = consultest.StartDatacenter(t, consultest.Config{Dir: s.dir, ACL: true, TLS: authority})
	return s
}

// agent is the one of the datacenter, called with the token in a file.
func (s *secured) agent(tokenFile string) (*Agent, *consulLog) {
	s.t.Helper()
	log := new(consulLog)
	set, err := certs.Load("consul", s.files, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := New(Config{Address: s.Servers[0].Addr, TLS: set, TokenFile: tokenFile}, telemetry.NewRegistry("test"), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		s.t.Fatal(err)
	}
	return a, log
}

// with is the agent, called with a token of these rules.
func (s *secured) with(rules string) (*Agent, *consulLog) {
	s.t.Helper()
	secret := s.NewToken(rules)
	return s.agent(proc.WriteFile(s.t, filepath.Join(s.dir, secret), secret+"\n"))
}

// awaitError waits until a task has logged this error.
func (l *consulLog) awaitError(t *testing.T, task, message string) {
	t.Helper()
	proc.Await(t, time.Minute, task+" reports "+message, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		for line := range strings.Lines(l.text.String()) {
			if strings.Contains(line, "task="+task) && strings.Contains(line, message) {
				return ""
			}
		}
		return "in the log: " + l.text.String()
	})
}

// startGlobal registers an aggregator.
func startGlobal(t *testing.T, a *Agent) {
	t.Helper()
	r := a.Register(Replica{Service: "weir-global", Host: "127.0.0.1", Port: 8090, Revision: func() uint64 { return 1 }, Ready: func() []string { return nil }}, "here")
	run(t, r.Run)
}

// The policies of the repository are what the programs need, over TLS: without one of the
// rights they report which one, and they have no others.
func TestPolicies(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	global, _ := s.with(policy(t, "weir-global"))
	startGlobal(t, global)
	rules := policy(t, "weir-regional")
	port := 8080
	start := func(rules string) (a *Agent, log *consulLog, aggregators *list) {
		var replicas *list
		a, log = s.with(rules)
		replicas, aggregators = new(list), new(list)
		run(t, a.Watch("replicas", Which{Service: service, Tag: "eu"}, replicas.set))
		run(t, a.Watch("aggregators", Which{Service: "weir-global"}, aggregators.set))
		startReplica(t, a, "127.0.0.1", port)
		port++
		return a, log, aggregators
	}
	regional, _, found := start(rules)
	found.await(t, "127.0.0.1:8090")
	s.Servers[0].AwaitStatus(service, passing)

	for _, c := range []struct{ right, task, message string }{
		{`service "weir-regional" { policy = "write" }`, "register", "lacks permission 'service:write' on \\\"weir-regional\\\""},
		{`service "weir-global" { policy = "read" }`, "aggregators", "the token lacks service:read on \\\"weir-global\\\""},
		{`node_prefix "" { policy = "read" }`, "replicas", "or node:read"},
	} {
		_, log, _ := start(without(t, rules, c.right))
		log.awaitError(t, c.task, c.message)
	}
	nobody, log := s.with(without(t, policy(t, "weir-global"), `service "weir-global" { policy = "write" }`))
	startGlobal(t, nobody)
	log.awaitError(t, "register", "lacks permission 'service:write' on \\\"weir-global\\\"")

	person := policy(t, "weir-rules")
	applies, _ := s.with(person)
	if all, err := applies.Registered(t.Context(), service, "weir-global"); err != nil || len(all) < 2 {
		t.Errorf("a person who applies rules sees %+v, %v", all, err)
	}
	for _, right := range []string{`service "weir-regional" { policy = "read" }`, `service "weir-global" { policy = "read" }`, `node_prefix "" { policy = "read" }`} {
		lacks, _ := s.with(without(t, person, right))
		if _, err := lacks.Registered(t.Context(), service, "weir-global"); !lacksRight(err) {
			t.Errorf("a person without %s: %v", right, err)
		}
	}

	for name, refused := range map[string]error{
		"the region registers an aggregator": regional.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "weir-global", Port: 1}),
		"the aggregator registers a replica": global.client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: service, Port: 1}),
	} {
		if !lacksRight(refused) {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// The policies give whom they are for the keys of the rules that it needs, and without one of
// these rights the call is refused.
func TestPoliciesOfKeys(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	rules := &api.KVPair{Key: "weir/rules/manifest", Value: []byte("x")}
	copied := &api.KVPair{Key: "weir/rules-copy/manifest", Value: []byte("x")}
	put := func(pair *api.KVPair) func(*Agent) error {
		return func(a *Agent) error { _, err := a.client.KV().Put(pair, nil); return err }
	}
	get := func(a *Agent) error { _, _, err := a.client.KV().Get(rules.Key, nil); return err }
	check := func(what string, policy string, call func(*Agent) error, may bool) {
		t.Helper()
		a, _ := s.with(policy)
		if err := call(a); may && err != nil || !may && !lacksRight(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	const write, read, keep = `key_prefix "weir/rules/" { policy = "write" }`, `key_prefix "weir/rules/" { policy = "read" }`, `key_prefix "weir/rules-copy/" { policy = "write" }`
	check("a person applies", policy(t, "weir-rules"), put(rules), true)
	check("a person without the right applies", without(t, policy(t, "weir-rules"), write), put(rules), false)
	check("a person writes a copy", policy(t, "weir-rules"), put(copied), false)
	for _, program := range []string{"weir-regional", "weir-global"} {
		all := policy(t, program)
		check(program+" reads", all, get, true)
		check(program+" keeps a copy", all, put(copied), true)
		check(program+" applies", all, put(rules), false)
		check(program+" without the right reads", without(t, all, read), get, false)
		check(program+" without the right keeps a copy", without(t, all, keep), put(copied), false)
	}
}

// An agent with the policy for DNS has the replicas there, and none without one of its rights.
func TestPolicyOfDNS(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	c, rules := s.Servers[0], policy(t, "dns")
	a, _ := s.with(policy(t, "weir-regional"))
	startReplica(t, a, "127.0.0.1", 8080)
	c.AwaitStatus(service, passing)
	for policy, want := range map[string]string{
		rules: "127.0.0.1",
		without(t, rules, `service "weir-regional" { policy = "read" }`): "no such host",
		without(t, rules, `node_prefix "" { policy = "read" }`):          "no such host",
	} {
		c.SetDNSToken(s.NewToken(policy))
		proc.Await(t, time.Minute, want, func() string {
			if got := lookup(c, "eu."+service); !strings.Contains(got, want) || want == "127.0.0.1" && got != want {
				return "the answer " + got
			}
			return ""
		})
	}
}

// A token is changed by changing its file, and an empty file changes nothing.
func TestTokenChanges(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	file := filepath.Join(s.dir, "token")
	if _, err := New(Config{Address: "127.0.0.1:1", TokenFile: file}, telemetry.NewRegistry("test"), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("without the file: %v", err)
	}
	proc.WriteFile(t, file, s.NewToken(`service "other" { policy = "write" }`))
	a, log := s.agent(file)
	startReplica(t, a, "127.0.0.1", 8080)
	log.awaitError(t, "register", "Permission denied")
	proc.WriteFile(t, file+".next", s.NewToken(policy(t, "weir-regional")))
	if err := os.Rename(file+".next", file); err != nil {
		t.Fatal(err)
	}
	log.await(t, "register", "back")
	proc.WriteFile(t, file, "")
	log.awaitText(t, "is empty")
	s.Servers[0].AwaitStatus(service, passing)
}
