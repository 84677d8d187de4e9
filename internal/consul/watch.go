package consul

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// Watch makes what follows the replicas of a service that pass their checks until the context ends. An empty
// datacenter is that of the agent. It calls changed with their addresses, host:port in ascending order, at the first answer and whenever they change. No addresses means that
// Consul has a leader and lists none; while Consul is unavailable, changed is not called.
// task names the watch in the log and in metrics.
func (a *Agent) Watch(task string, service, datacenter string, changed func(addresses []string)) func(context.Context) error {
	f := &follow[[]string]{
		task: a.task(task), every: watchEvery, datacenter: datacenter, same: slices.Equal[[]string],
		ask: func(o *api.QueryOptions) ([]string, *api.QueryMeta, error) { return a.addresses(service, o) },
	}
	f.changed = func(_ context.Context, addresses []string) error {
		each := slices.Compact(slices.Clone(addresses))
		if len(each) < len(addresses) {
			a.log.Error("two replicas are registered with one address", "task", task, "addresses", addresses,
				"remedy", "give each replica an address of its own by --listen or --advertise")
		}
		changed(each)
		return nil
	}
	return f.run
}

// addresses are those of replicas, in ascending order.
func (a *Agent) addresses(service string, o *api.QueryOptions) (all []string, meta *api.QueryMeta, err error) {
	entries, meta, err := a.client.Health().Service(service, "", true, o)
	if err = visible(service, meta, err); err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		host := cmp.Or(e.Service.Address, e.Node.Address)
		all = append(all, net.JoinHostPort(host, strconv.Itoa(e.Service.Port)))
	}
	slices.Sort(all)
	return all, meta, nil
}

// visible is the error of a question for the replicas of a service, also if it is that the token may not
// see them all.
func visible(service string, meta *api.QueryMeta, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("replicas of %s: %w", service, err)
	case meta.ResultsFilteredByACLs:
		return fmt.Errorf("replicas of %[1]s: %[2]w: the token lacks service:read on %[1]q, or node:read on a node that has one",
			service, errHidden)
	}
	return nil
}
