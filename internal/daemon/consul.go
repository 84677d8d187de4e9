package daemon

import (
	"cmp"
	"context"
	"net"
	"os"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/telemetry"
)

// aggregatorService is the service as which weir-global registers.
const aggregatorService = "weir-global"

// membership is what a tier has registered and looks for. update and withdraw may be called
// on nil.
type membership struct {
	agent        *consul.Agent
	replica      consul.Replica
	registration *consul.Registration // nil before the ports are open
	watches      []*consul.Watch
}

// useConsul prepares the registration, and counts the replicas of a region.
func (t *Tier) useConsul(p *Program) error {
	if t.cfg.Consul == "" {
		return nil
	}
	reached, err := t.cfg.ConsulBy.reach(t.cfg.Consul, t.Metrics, t.Log)
	if err != nil {
		return err
	}
	agent, err := consul.New(reached, t.Metrics, t.Log)
	if err != nil {
		return err
	}
	t.consul = &membership{agent: agent, replica: consul.Replica{
		Service: p.Name, Version: telemetry.Version(), Ready: t.ready.Reasons, Follows: t.cfg.rulesInConsul(),
		Revision: func() uint64 { _, revision := t.Service.RulesVersion(); return revision },
	}}
	if p.Above == nil {
		return nil
	}
	t.consul.replica.Region = p.Above.Region
	t.Metrics.GaugeFunc("weir_region_replicas", "Replicas of this region that pass their check in Consul, by its last answer.", func() float64 { return float64(t.store.listed.Load()) })
	t.consul.watch("replicas", consul.Which{Service: p.Name, Tag: p.Above.Region}, func(addresses []string) { t.store.listed.Store(int64(len(addresses))) })
	return nil
}

// findAggregators calls move with the aggregators that Consul has and that may be called.
func (t *Tier) findAggregators(above *Above, move func(addresses []string)) {
	t.consul.watch("aggregators", consul.Which{Service: aggregatorService, Datacenter: t.cfg.ConsulBy.Primary}, func(addresses []string) {
		if len(addresses) == 0 {
			t.Log.Warn("consul lists no aggregator that passes its check; the last one is called")
			return
		}
		if addresses = above.usable(addresses, t.Log); len(addresses) > 0 {
			move(addresses)
			t.Log.Info("aggregators in consul", "addresses", addresses)
		}
	})
}

func (m *membership) watch(task string, which consul.Which, changed func(addresses []string)) {
	m.watches = append(m.watches, m.agent.Watch(task, which, changed))
}

// register makes the registration of a tier that listens on an address, which Run begins.
func (t *Tier) register(address string) {
	if t.consul == nil {
		return
	}
	hostname, _ := os.Hostname() // empty: the port alone names the replica
	replica := t.consul.replica
	replica.Host, replica.Port = advertised(t.cfg, address)
	t.consul.registration = t.consul.agent.Register(replica, hostname)
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
// agent has it, or is away.
func (m *membership) withdraw() {
	if m != nil {
		m.registration.Update(context.Background())
	}
}

// Run keeps the registration and the watches up until ctx ends, then deregisters.
func (m *membership) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return m.registration.Run(ctx) })
	for _, w := range m.watches {
		tasks.Go(func() error { return w.Run(ctx) })
	}
	return tasks.Wait()
}
