package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// callTime bounds a call of the agent that is not a watch.
const callTime = time.Second

// times are those of a replica's check.
type times struct {
	renew    time.Duration // how often the replica renews it
	ttl      time.Duration // when it becomes critical, if it is not renewed
	critical time.Duration // how long it is that before the agent removes the replica
}

// usual is what all replicas have but in tests. Consul allows no less than a minute until
// the removal, and looks every 30 s.
var usual = times{renew: 3 * time.Second, ttl: 10 * time.Second, critical: time.Minute}

// Fields of the meta of a replica.
const (
	revisionMeta = "rules_revision"
	rulesMeta    = "rules" // rulesHere, or there is none
	rulesHere    = "consul"
)

// Replica is what others find in Consul. The functions are safe for concurrent use.
type Replica struct {
	Service  string // its name in Consul
	Host     string // where callers reach it; empty: the address of the agent's node
	Port     int
	Region   string          // meta; empty: none
	Version  string          // of the program
	Revision func() uint64   // of the rules in force
	Follows  bool            // the rules come from Consul
	Ready    func() []string // reasons why it should not get calls; none: its check passes
}

// id is the same after a restart, so that a replica replaces what a crash left.
func (r *Replica) id(hostname string) string {
	host := r.Host
	if host == "" {
		host = hostname
	}
	return r.Service + "-" + net.JoinHostPort(host, strconv.Itoa(r.Port))
}

// Registration keeps a replica registered. It is safe for concurrent use.
type Registration struct {
	agent    *api.Agent
	replica  Replica
	id       string
	instance string // of this process
	times    times
	changed  chan struct{}

	mu         sync.Mutex
	task       *task
	registered bool   // the agent had it, when it last answered
	revision   uint64 // that was registered
	yields     string // instance of the older process that has the id; empty: none
}

// Register makes a registration of a replica on the machine hostname. [Registration.Run]
// registers it.
func (a *Agent) Register(replica Replica, hostname string) *Registration {
	return &Registration{
		agent: a.client.Agent(), replica: replica, id: replica.id(hostname), instance: newInstance(),
		times: usual, task: a.task("register"), changed: make(chan struct{}, 1),
	}
}

// Run keeps the replica registered and its check renewed until ctx ends, then deregisters
// it. An agent that has forgotten it gets it again.
func (r *Registration) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		r.Update(ctx)
		r.mu.Lock()
		wait := r.task.wait(r.times.renew)
		r.mu.Unlock()
		pause(ctx, wait, r.changed)
	}
	r.deregister()
	return nil
}

// Changed makes Run call the agent now: readiness or the rules have changed.
func (r *Registration) Changed() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Update reports to the agent what the replica is now. It takes at most callTime, and a call that
// is under way as long again.
func (r *Registration) Update(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := r.refresh(limited); ctx.Err() == nil {
		r.task.note(err)
	}
}

// refresh renews the check. It registers the replica before that if the agent does not have
// it, or has it with an earlier revision. The caller holds mu.
func (r *Registration) refresh(ctx context.Context) error {
	if err := r.share(ctx); err != nil {
		return err
	}
	revision := r.replica.Revision()
	if r.registered && r.revision == revision {
		err := r.renew(ctx)
		if !errors.As(err, new(api.StatusError)) {
			return err
		}
		r.registered = false // the agent answers, and has forgotten it
	}
	if err := r.register(ctx, revision); err != nil {
		return err
	}
	r.registered, r.revision = true, revision
	return r.renew(ctx)
}

// state is that of the check, and why.
func (r *Registration) state() (status, output string) {
	if reasons := r.replica.Ready(); len(reasons) > 0 {
		return api.HealthCritical, "not ready: " + strings.Join(reasons, "\n")
	}
	return api.HealthPassing, "ready"
}

func (r *Registration) renew(ctx context.Context) error {
	status, output := r.state()
	return r.agent.UpdateTTLOpts(r.checkID(), output, status, new(api.QueryOptions).WithContext(ctx))
}

func (r *Registration) checkID() string { return "service:" + r.id }

func (r *Registration) register(ctx context.Context, revision uint64) error {
	meta := map[string]string{"version": r.replica.Version, revisionMeta: strconv.FormatUint(revision, 10), instanceMeta: r.instance}
	if r.replica.Follows {
		meta[rulesMeta] = rulesHere
	}
	if r.replica.Region != "" {
		meta["region"] = r.replica.Region
	}
	status, _ := r.state() // a new registration must not make a passing check critical
	err := r.agent.ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: r.id, Name: r.replica.Service, Address: r.replica.Host, Port: r.replica.Port, Meta: meta,
		Check: &api.AgentServiceCheck{
			CheckID: r.checkID(), Name: "readiness, as " + r.replica.Service + " reports it",
			TTL: r.times.ttl.String(), Status: status, DeregisterCriticalServiceAfter: r.times.critical.String(),
		},
	}, api.ServiceRegisterOpts{}.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("registration of %s: %w", r.id, err)
	}
	return nil
}

// deregister removes the replica, unless another process has its id.
func (r *Registration) deregister() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.yields != "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if err := r.agent.ServiceDeregisterOpts(r.id, new(api.QueryOptions).WithContext(ctx)); err != nil {
		r.task.log.Warn("cannot deregister from consul; the failing check will remove this replica", "after", r.times.critical, "error", err)
		return
	}
	r.task.log.Info("deregistered from consul")
}
