package consul

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"
)

// instanceMeta is the meta field that distinguishes processes with one id.
const instanceMeta = "instance"

// newInstance names a process. Names are in the order in which processes of a machine started.
func newInstance() string { return fmt.Sprintf("%016x-%08x", time.Now().UnixNano(), rand.Uint32()) }

// share settles who has the id if two processes do, by mistake or after a crash. The later one takes it; the earlier one, if it
// is alive, takes it back; then the later one leaves it until the other's check does not pass. The caller holds mu.
func (r *Registration) share(ctx context.Context) error {
	o := new(api.QueryOptions).WithContext(ctx)
	found, _, err := r.agent.Service(r.id, o)
	switch {
	case errors.As(err, new(api.StatusError)): // there is none; or a right is missing: the registration states which
		r.yields = ""
		return nil
	case err != nil:
		return fmt.Errorf("registration of %s: %w", r.id, err)
	}
	other := found.Meta[instanceMeta]
	switch {
	case other == "" || other == r.instance || r.yields != "" && !r.passes(o):
		r.yields = ""
	case r.yields != "" || r.registered && other < r.instance:
		if r.yields == "" {
			r.task.failures = 0 // the error below is logged, also if Consul has just been late
		}
		r.registered, r.yields = false, other
		return fmt.Errorf("%s: a process that is older has this id, and renews it: give each replica an address of its own by --listen or --advertise", r.id)
	case r.registered:
		r.registered = false
		r.task.log.Error("another process has registered with this replica's id; registering again", "id", r.id,
			"remedy", "give each replica an address of its own by --listen or --advertise")
	}
	return nil
}

// passes reports whether the check of whoever has the id passes.
func (r *Registration) passes(o *api.QueryOptions) bool {
	status, _, err := r.agent.AgentHealthServiceByIDOpts(r.id, o)
	return err != nil || status == api.HealthPassing
}
