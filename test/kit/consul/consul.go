// Package consul runs agents of Consul, each a server of its own that keeps nothing through
// a restart.
package consul

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Agent is one agent. Stop it, pause it and begin it again by its Process.
type Agent struct {
	Addr string // HTTP
	DNS  string // UDP and TCP
	*proc.Process

	t proc.T
}

// Start starts an agent with its log in dir, and waits until it has a leader.
func Start(t proc.T, dir string) *Agent {
	t.Helper()
	a := New(t, dir)
	a.Start()
	return a
}

// New prepares an agent, which [Agent.Start] starts, with more command line.
func New(t proc.T, dir string, more ...string) *Agent {
	t.Helper()
	a := &Agent{Addr: proc.FreeAddr(t), DNS: proc.FreeAddr(t), t: t}
	port := func() string { return strconv.Itoa(proc.FreePort(t)) }
	argv := []string{proc.Built(t, ".tools/consul", "setup"), "agent", "-dev",
		"-bind", "127.0.0.1", "-client", "127.0.0.1", "-node", "tester", "-log-level", "warn",
		"-http-port", portOf(a.Addr), "-dns-port", portOf(a.DNS), "-grpc-port", "-1", "-grpc-tls-port", "-1",
		"-server-port", port(), "-serf-lan-port", port(), "-serf-wan-port", port()}
	a.Process = proc.New(t, dir, "consul", append(argv, more...)...)
	return a
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // is from proc.FreeAddr
	return port
}

// Start starts the agent, or starts it again, and waits until it has a leader.
func (a *Agent) Start() {
	a.t.Helper()
	a.Begin()
	a.AwaitUp(func() string {
		var leader string
		switch err := a.read("/v1/status/leader", &leader); {
		case err != nil:
			return err.Error()
		case leader == "":
			return "no leader"
		}
		return ""
	})
}

// client makes a connection for each question: agents end.
var client = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (a *Agent) read(path string, into any) error {
	resp, body, err := page.Get(context.Background(), &client, "http://"+a.Addr+path)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return json.Unmarshal(body, into)
}

// Replica is an instance of a service as the catalog has it.
type Replica struct {
	ID, Address string
	Port        int
	Tags        []string
	Meta        map[string]string
	Status      string // of its own check
	Output      string // what that stated last
}

// Replicas are the instances of a service, whether they pass their checks or not. The error
// is that the agent does not answer.
func (a *Agent) Replicas(service string) (all []Replica, err error) {
	var entries []struct {
		Service Replica
		Checks  []struct{ ServiceID, Status, Output string }
	}
	if err := a.read("/v1/health/service/"+service, &entries); err != nil {
		return nil, err
	}
	for _, e := range entries {
		for _, c := range e.Checks {
			if c.ServiceID == e.Service.ID {
				e.Service.Status, e.Service.Output = c.Status, c.Output
			}
		}
		all = append(all, e.Service)
	}
	return all, nil
}

// AwaitReplicas waits until check returns an empty text for the instances of a service. An
// agent removes replicas after 60 to 90 s with a critical check.
func (a *Agent) AwaitReplicas(service string, check func([]Replica) string) {
	a.t.Helper()
	proc.Await(a.t, 3*time.Minute, "replicas of "+service, func() string {
		all, err := a.Replicas(service)
		if err != nil {
			return err.Error()
		}
		if wrong := check(all); wrong != "" {
			return fmt.Sprintf("%s: %+v", wrong, all)
		}
		return ""
	})
}

// AwaitStatus waits until a service has these instances and no others: ids and the statuses
// of their checks.
func (a *Agent) AwaitStatus(service string, want map[string]string) {
	a.t.Helper()
	a.AwaitReplicas(service, func(all []Replica) string {
		if len(all) != len(want) {
			return fmt.Sprintf("%d instances, want %d", len(all), len(want))
		}
		for _, r := range all {
			if r.Status != want[r.ID] {
				return fmt.Sprintf("%s is %s, want %q", r.ID, r.Status, want[r.ID])
			}
		}
		return ""
	})
}
