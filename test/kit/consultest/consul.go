// Package consultest runs agents of Consul: one alone, which keeps nothing through a restart, or
// datacenters of servers, joined over WAN, with ACL and TLS.
package consultest

import (
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Agent is one agent. Stop it, pause it and begin it again by its Process.
type Agent struct {
	Addr  string // HTTP, or HTTPS where the datacenter has TLS
	DNS   string // UDP and TCP
	Token string // of the operator; empty: without ACL
	*proc.Process

	t      proc.T
	scheme string
	client *http.Client
	server string // address of its RPC port; an agent alone has none
}

// Start starts an agent alone, with its log in dir, and waits until it has a leader.
func Start(t proc.T, dir string) *Agent {
	t.Helper()
	a := New(t, dir)
	a.Start()
	return a
}

// New prepares an agent alone, which [Agent.Start] starts, with more command line.
func New(t proc.T, dir string, more ...string) *Agent {
	t.Helper()
	a := newAgent(t)
	port := func() string { return strconv.Itoa(proc.FreePort(t)) }
	argv := []string{program(t), "agent", "-dev",
		"-bind", "127.0.0.1", "-client", "127.0.0.1", "-node", "tester", "-log-level", "warn",
		"-http-port", portOf(a.Addr), "-dns-port", portOf(a.DNS), "-grpc-port", "-1", "-grpc-tls-port", "-1",
		"-server-port", port(), "-serf-lan-port", port(), "-serf-wan-port", port()}
	a.Process = proc.New(t, dir, "consul", append(argv, more...)...)
	return a
}

// newAgent is an agent without its program. Its client makes a connection for each question: agents end.
func newAgent(t proc.T) *Agent {
	return &Agent{
		Addr: proc.FreeAddr(t), DNS: proc.FreeAddr(t), t: t, scheme: "http",
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

func program(t proc.T) string {
	t.Helper()
	return proc.Built(t, ".tools/consul", "setup")
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // is from proc.FreeAddr
	return port
}

// Start starts the agent, or starts it again, and waits until it has a leader.
func (a *Agent) Start() {
	a.t.Helper()
	a.Begin()
	a.AwaitLeader()
}

// AwaitLeader waits until the agent has a leader, and answers with the operator's token.
func (a *Agent) AwaitLeader() {
	a.t.Helper()
	a.AwaitUp(func() string {
		leader, err := a.leader()
		switch {
		case err != nil:
			return err.Error()
		case leader == "":
			return "no leader"
		case a.Token == "":
			return ""
		}
		_, _, err = a.API(a.Token).ACL().TokenReadSelf(nil)
		return textOf(err)
	})
}

// leader is the address of the leader's RPC port; empty: there is none.
func (a *Agent) leader() (address string, err error) { return a.API(a.Token).Status().Leader() }

// API is a client of the agent with a token.
func (a *Agent) API(token string) *api.Client {
	a.t.Helper()
	return fatal.Get(api.NewClient(&api.Config{Address: a.Addr, Scheme: a.scheme, HttpClient: a.client, Token: token}))(a.t)
}

// textOf is the text of an error; empty: none.
func textOf(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
