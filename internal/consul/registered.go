package consul

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// Registered are the replicas of a service, and of those whose names begin with a prefix, in all datacenters, also those
// whose checks do not pass. An error means that some may be missing.
func (a *Agent) Registered(ctx context.Context, service, prefix string) (all []Registered, err error) {
	var datacenters []string
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := a.client.Raw().Query("/v1/catalog/datacenters", &datacenters, new(api.QueryOptions).WithContext(limited)); err != nil {
		return nil, fmt.Errorf("datacenters: %w", err)
	}
	for _, datacenter := range datacenters {
		names, wrong := a.services(ctx, datacenter, prefix)
		err = errors.Join(err, wrong)
		for _, name := range append(names, service) {
			some, wrong := a.registered(ctx, datacenter, name)
			all, err = append(all, some...), errors.Join(err, wrong)
		}
	}
	return all, err
}

// services are the names that begin with a prefix. Every replica has a check, so the names are those of checks. Consul
// reports that it hides some, and not whether these are of others: that is an error only where none is seen.
func (a *Agent) services(ctx context.Context, datacenter, prefix string) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	o := &api.QueryOptions{Datacenter: datacenter, Filter: fmt.Sprintf("ServiceName matches %q", "^"+regexp.QuoteMeta(prefix))}
	checks, meta, err := a.client.Health().State(api.HealthAny, o.WithContext(ctx))
	if err == nil && len(checks) == 0 && meta.ResultsFilteredByACLs {
		err = fmt.Errorf("%w: the token lacks service:read on names that begin with %q, or node:read", errHidden, prefix)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: services: %w", datacenter, err)
	}
	for _, c := range checks {
		names = append(names, c.ServiceName)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
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
