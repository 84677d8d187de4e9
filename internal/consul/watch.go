package consul

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// watchTime is how long Consul may keep a question that has no news. It adds a
	// sixteenth to it at random. It is short because one that is lost on its way to another
	// datacenter, which a network that drops packets does not report, is missed only after it.
	watchTime = 10 * time.Second
	// watchGrace is how much later its answer may come.
	watchGrace = 5 * time.Second
	// watchEvery is the shortest time between two questions: changes that come together
	// are one answer.
	watchEvery = 100 * time.Millisecond
)

// Watch follows the replicas of a service that pass their checks.
type Watch struct {
	health  *api.Health
	which   Which
	changed func(addresses []string)
	task    *task
}

// Which are the replicas that a watch follows, of those that pass their checks.
type Which struct {
	Service    string
	Tag        string // empty: with any
	Datacenter string // empty: that of the agent
}

// Watch makes a watch of replicas. [Watch.Run] calls changed with their addresses, host:port in
// ascending order, at the first answer and whenever they change. No addresses means that
// Consul has a leader and lists none; while Consul is away, changed is not called.
// task names the watch in the log and in metrics.
func (a *Agent) Watch(task string, which Which, changed func(addresses []string)) *Watch {
	return &Watch{health: a.client.Health(), which: which, changed: changed, task: a.task(task)}
}

// Run watches until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	var index uint64 // of the last answer; 0: answer at once
	var last []string
	for known := false; ; {
		addresses, next, err := w.ask(ctx, index)
		if ctx.Err() != nil {
			return nil
		}
		w.task.note(err)
		index = following(index, next, err)
		if err == nil && (!known || !slices.Equal(addresses, last)) {
			known, last = true, addresses
			each := slices.Compact(slices.Clone(addresses))
			if len(each) < len(addresses) {
				w.task.log.Error("two replicas are registered with one address", "task", w.task.name, "addresses", addresses,
					"remedy", "give each replica an address of its own by --listen or --advertise")
			}
			w.changed(each)
		}
		pause(ctx, w.task.wait(watchEvery), nil)
	}
}

// following is the index to ask with after an answer with the next one; 0: answer at once.
func following(index, next uint64, err error) uint64 {
	if err != nil || next < index { // other servers, or those of before with an earlier state
		return 0
	}
	return next
}

// blocking is for a question that waits for an answer with another index than this one.
func blocking(ctx context.Context, datacenter string, index uint64) (*api.QueryOptions, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, watchTime+watchTime/16+watchGrace)
	o := &api.QueryOptions{Datacenter: datacenter, WaitIndex: index, WaitTime: watchTime}
	return o.WithContext(ctx), cancel
}

// ask waits for an answer with another index. Without a leader Consul answers with an error.
// (meta.KnownLeader does not show it: it is false in answers that come from an agent's stream.)
func (w *Watch) ask(ctx context.Context, index uint64) (addresses []string, next uint64, err error) {
	o, cancel := blocking(ctx, w.which.Datacenter, index)
	defer cancel()
	entries, meta, err := w.health.Service(w.which.Service, w.which.Tag, true, o)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("replicas of %s: %w", w.which.Service, err)
	case meta.ResultsFilteredByACLs:
		return nil, 0, fmt.Errorf("replicas of %[1]s: %[2]w: the token lacks service:read on %[1]q, or node:read on a node that has one", w.which.Service, errHidden)
	}
	for _, e := range entries {
		host := cmp.Or(e.Service.Address, e.Node.Address)
		addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(e.Service.Port)))
	}
	slices.Sort(addresses)
	return addresses, max(meta.LastIndex, 1), nil
}
