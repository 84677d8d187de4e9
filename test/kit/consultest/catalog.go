package consultest

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Replica is an instance of a service as the catalog has it.
type Replica struct {
	ID, Address string
	Port        int
	Meta        map[string]string
	Status      string // of its own check
	Output      string // what that stated last
}

// Replicas are the instances of a service, whether they pass their checks or not. The error
// is that the agent does not answer.
func (a *Agent) Replicas(service string) (all []Replica, err error) {
	entries, _, err := a.API(a.Token).Health().Service(service, "", false, nil)
	for _, e := range entries {
		r := Replica{ID: e.Service.ID, Address: e.Service.Address, Port: e.Service.Port, Meta: e.Service.Meta}
		for _, c := range e.Checks {
			if c.ServiceID == r.ID {
				r.Status, r.Output = c.Status, c.Output
			}
		}
		all = append(all, r)
	}
	return all, err
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

// AwaitStatus waits until a service has these instances and no others: ids and the statuses of their checks.
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

// KV is all that the key-value store has, by key.
func (a *Agent) KV() map[string]string {
	a.t.Helper()
	pairs, _, err := a.API(a.Token).KV().List("", nil)
	fatal.If(a.t, err)
	all := map[string]string{}
	for _, p := range pairs {
		all[p.Key] = string(p.Value)
	}
	return all
}
