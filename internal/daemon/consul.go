package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/version"
)

// Consul has the settings of calls of Consul's agent. Without them Consul's own variables
// decide, such as CONSUL_HTTP_TOKEN, CONSUL_HTTP_SSL and CONSUL_CACERT.
type Consul struct {
	// Primary is the datacenter of the aggregators, and of the rules in Consul. Empty: that of
	// the agent.
	Primary string `help:"Datacenter of the aggregators and of rules in Consul; default: that of the agent." placeholder:"DC"`

	// TokenFile has the ACL token; white space around it is ignored. It is read for each
	// call, so that a token is changed by changing the file; while that is empty or cannot
	// be read, the last token stays.
	TokenFile string `help:"File with the ACL token, read for each call." placeholder:"FILE"`

	ClientTLS `embed:"" set:"calls=calls of Consul's agent"`
}

func (c *Config) checkConsul() error {
	if c.Consul == "" {
		return errors.Join(
			settings.Reject(c.Advertise != "", "consul: is missing; advertise is the address that it gives to callers"),
			settings.Reject(c.ConsulBy != Consul{}, "consul: is missing, but consul_* is set; give the address of the agent, such as --consul 127.0.0.1:8500"),
		)
	}
	errs := []error{settings.Address("consul", c.Consul), c.ConsulBy.check("consul")}
	if c.Advertise != "" {
		_, err := strconv.ParseUint(portOf(c.Advertise), 10, 16)
		errs = append(errs, settings.Reject(err != nil, "advertise: %q must be host:port with a number", c.Advertise))
	}
	return errors.Join(errs...)
}

// reach is how the agent is reached. The error is a file that cannot be used.
func (c *Consul) reach(address string, metrics *telemetry.Registry, log *slog.Logger) (consul.Config, error) {
	set, err := c.load("consul", metrics, log)
	return consul.Config{Address: address, TLS: set, ServerName: c.TLSName, TokenFile: c.TokenFile}, err
}

// aggregatorService is the service as which weir-global registers.
const aggregatorService = "weir-global"

// serviceOf is the service as which a program registers. Replicas of a region have one of their own, so that a
// token can be for one region.
func serviceOf(p *Program) string {
	if p.AggregatorCalls == nil {
		return p.Name
	}
	return p.Name + "-" + p.AggregatorCalls.Region
}

// membership is what a tier has registered. update and withdraw may be called on nil.
type membership struct {
	agent        *consul.Agent
	replica      consul.Replica
	registration *consul.Registration // nil before the ports are open
}

// openConsul prepares the registration, and counts the replicas of a region; nil without Consul.
func (t *Tier) openConsul(p *Program) (*membership, error) {
	if t.cfg.Consul == "" {
		return nil, nil
	}
	reached, err := t.cfg.ConsulBy.reach(t.cfg.Consul, t.Metrics, t.Log)
	if err != nil {
		return nil, err
	}
	agent, err := consul.New(reached, t.Metrics, t.Log)
	if err != nil {
		return nil, err
	}
	m := &membership{agent: agent, replica: consul.Replica{
		Service: serviceOf(p), Version: version.Version, Ready: t.Ready.Reasons, Follows: t.cfg.rulesInConsul(), Revision: t.revision,
	}}
	if p.AggregatorCalls != nil {
		m.replica.Region = p.AggregatorCalls.Region
		listed := &t.counters.listed
		t.Metrics.GaugeFunc("weir_region_replicas", "Replicas of this region that pass their check in Consul, by its last answer.", func() float64 { return float64(listed.Load()) })
		t.behind = append(t.behind, agent.Watch("replicas", serviceOf(p), "", func(addresses []string) { listed.Store(int64(len(addresses))) }))
	}
	return m, nil
}

// findAggregators calls move with the aggregators that Consul has and that may be called.
func (t *Tier) findAggregators(calls *AggregatorCalls, move func(addresses []string)) {
	called := "none is called until one does"
	t.behind = append(t.behind, t.consul.agent.Watch("aggregators", aggregatorService, t.cfg.ConsulBy.Primary, func(addresses []string) {
		if len(addresses) == 0 {
			t.Log.Warn("consul lists no aggregator that passes its check; " + called)
			return
		}
		if addresses = calls.usable(addresses, t.Log); len(addresses) > 0 {
			move(addresses)
			called = "the last one is called"
			t.Log.Info("aggregators in consul", "addresses", addresses)
		}
	}))
}

// register has a tier registered that listens on an address, until its end.
func (t *Tier) register(address string) {
	m := t.consul
	if m == nil {
		return
	}
	hostname, _ := os.Hostname() // empty: the port alone names the replica
	m.replica.Host, m.replica.Port = advertised(t.cfg, address)
	m.registration = m.agent.Register(m.replica, hostname)
	t.behind = append(t.behind, m.registration.Run)
}

// advertised is the address that others get for the one that is listened on. No host: that
// of the agent's node.
func advertised(cfg *Config, address string) (host string, port int) {
	address = cmp.Or(cfg.Advertise, address)
	host, _, _ = net.SplitHostPort(address) // has been checked
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	port, _ = strconv.Atoi(portOf(address))
	return host, port
}

// portOf is the port of host:port; empty if it is not that.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// update renews the registration soon, with what has changed.
func (m *membership) update() {
	if m != nil && m.registration != nil {
		m.registration.Changed()
	}
}

// withdraw makes the check critical, so that nobody new is sent here. It returns when the
// agent has it, or is unavailable.
func (m *membership) withdraw() {
	if m != nil {
		m.registration.Update(context.Background())
	}
}
