package consultest

import (
	"fmt"
	"time"

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
	var entries []struct {
		Service Replica
		Checks  []struct{ ServiceID, Status, Output string }
	}
	if err := a.read("/v1/health/service/"+service, &entries); err != nil {
		return nil, err
	}
	for _, e := range entries {
		for _, c := range e.Checks {
			if c.ServiceID == e.Service.ID {
				e.Service.Status, e.Service.Output = c.Status, c.Output
			}
		}
		all = append(all, e.Service)
	}
	return all, nil
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
