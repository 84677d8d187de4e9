package consul

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// Registered is a replica as others find it in Consul.
type Registered struct {
	ID       string
	Passes   bool   // its checks do
	Revision uint64 // of its rules in force; 0: it has none
	Follows  bool   // it takes its rules from Consul
}

// Registered are the replicas of services in all datacenters, also those whose checks do not
// pass. An error means that some may be missing.
func (a *Agent) Registered(ctx context.Context, services ...string) (all []Registered, err error) {
	var datacenters []string
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := a.client.Raw().Query("/v1/catalog/datacenters", &datacenters, new(api.QueryOptions).WithContext(limited)); err != nil {
		return nil, fmt.Errorf("datacenters: %w", err)
	}
	for _, datacenter := range datacenters {
		for _, service := range services {
			some, wrong := a.registered(ctx, datacenter, service)
			all, err = append(all, some...), errors.Join(err, wrong)
		}
	}
	return all, err
}

func (a *Agent) registered(ctx context.Context, datacenter, service string) (all []Registered, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o := &api.QueryOptions{Datacenter: datacenter}
	entries, meta, err := a.client.Health().Service(service, "", false, o.WithContext(ctx))
	if err = visible(service, meta, err); err != nil {
		err = fmt.Errorf("%s: %w", datacenter, err)
	}
	for _, e := range entries {
		revision, _ := strconv.ParseUint(e.Service.Meta[revisionMeta], 10, 64) // 0: this is not ours
		all = append(all, Registered{
			ID: e.Service.ID, Passes: e.Checks.AggregatedStatus() == api.HealthPassing, Revision: revision, Follows: e.Service.Meta[rulesMeta] == rulesHere,
		})
	}
	return all, err
}
