package consul

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestMain lets four tests run at once, also on a machine of two cores: they wait for Consul.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}

// changes are the states of a task in the order in which they were logged.
func changes(log *proc.Lines, task string) (all []string) {
	for _, line := range log.With("task=" + task) {
		switch {
		case strings.Contains(line, "does not answer"):
			all = append(all, "away")
		case strings.Contains(line, "consul answers"):
			all = append(all, "back")
		}
	}
	return all
}

// news is how long Consul may take with news, and with the news that it is away: a question that
// it keeps takes watchTime, and Consul's own connections to another datacenter may be slower.
const news = 2 * time.Minute

// awaitState waits until the last change of a task was this one.
func awaitState(t *testing.T, log *proc.Lines, task, state string) {
	t.Helper()
	proc.Await(t, news, task+" is "+state, func() string {
		if all := changes(log, task); len(all) == 0 || all[len(all)-1] != state {
			return fmt.Sprint(all)
		}
		return ""
	})
}

// newAgent is an agent, and what it logs.
func newAgent(t *testing.T, c Config) (*Agent, *proc.Lines) {
	t.Helper()
	log := new(proc.Lines)
	a := fatal.Get(New(c, telemetry.NewRegistry("test"), slog.New(slog.NewTextHandler(log, nil))))(t)
	return a, log
}

// replica is one whose readiness and revision a test changes.
type replica struct {
	*Registration
	revision atomic.Uint64
	ready    atomic.Bool
	stop     func() // ends Run, and waits for it
}

// startReplica runs a replica of region eu, under the name of a service, at an address of this machine.
func startReplica(t *testing.T, a *Agent, service, host string, port int) *replica {
	t.Helper()
	r := new(replica)
	r.ready.Store(true)
	r.Registration = a.Register(Replica{
		Service: service, Host: host, Port: port, Region: "eu", Version: "v1.2.3", Revision: r.revision.Load,
		Ready: func() []string {
			if r.ready.Load() {
				return nil
			}
			return []string{"draining"}
		},
	}, "here")
	r.times.ttl = news // the check does not lapse while Consul is unavailable
	r.stop = run(t, r.Run)
	return r
}

// setReady changes the readiness and reports it to the agent.
func (r *replica) setReady(ready bool) {
	r.ready.Store(ready)
	r.Changed()
}

// run runs something until stop is called or the test ends.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}
