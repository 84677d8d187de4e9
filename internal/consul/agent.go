// Package consul registers replicas with Consul and finds them there.
//
//	agent.go     the agent of Consul, and its errors
//	connect.go   TLS and tokens
//	register.go  registration of a replica, and its check
//	instance.go  two replicas with one id
//	follow.go    a value in Consul that changes, such as a key
//	watch.go     the replicas of a service that pass their checks
//	registered.go  all replicas, with their rules
//	kv.go        the key-value store of a datacenter
//
// No decision on a request needs this package: while Consul is unavailable, a replica uses the values that it found last.
package consul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Agent is an agent of Consul. Create it with [New]. It is safe for concurrent use.
type Agent struct {
	client  *api.Client
	address string
	ok      *telemetry.GaugeVec
	log     *slog.Logger
}

// New makes an agent. It makes no call. The error is a file that cannot be read.
func New(cfg Config, r *telemetry.Registry, log *slog.Logger) (*Agent, error) {
	client, err := cfg.client(log)
	if err != nil {
		return nil, fmt.Errorf("consul: %w", err)
	}
	return &Agent{client: client, address: cfg.Address, log: log, ok: r.Gauges("weir_consul_ok", "1 while Consul does what it is asked for: register this replica, list the aggregators or the replicas of the region, or return the rules.", "task")}, nil
}

// The longest and the shortest time between tries while Consul is unavailable.
const (
	retryFirst = 250 * time.Millisecond
	retryMost  = 2 * time.Second // an election takes a few seconds
)

// task is something that the agent is asked for again and again. One goroutine at a time
// uses it.
type task struct {
	name     string
	ok       telemetry.Gauge
	log      *slog.Logger
	done     bool // the last call was
	failures int  // since then
	denied   bool // the last call was, for want of a right
}

func (a *Agent) task(name string) *task {
	return &task{name: name, ok: a.ok.WithLabelValues(name), log: a.log}
}

// note takes the outcome of a call. What changes is logged once, and so is a right that the
// token lacks.
func (t *task) note(err error) {
	denied := lacksRight(err)
	switch {
	case err == nil && !t.done:
		t.log.Info("consul answers", "task", t.name)
		t.ok.Set(1)
		t.done, t.failures = true, 0
	case err != nil:
		if t.failures++; t.failures == 1 || denied && !t.denied {
			t.log.Warn("consul does not answer; the last result stays in use", "task", t.name, "error", err,
				"runbook", "docs/runbooks/WeirConsulUnavailable.md")
		}
		t.ok.Set(0)
		t.done = false
	}
	t.denied = denied
}

// errHidden is that Consul leaves out what the token may not read.
var errHidden = errors.New("permission denied")

// lacksRight reports whether an error is that of a token without a right.
func lacksRight(err error) bool {
	var status api.StatusError
	var rejected *RejectedError
	return errors.Is(err, errHidden) || errors.As(err, &rejected) && rejected.Code == http.StatusForbidden || errors.As(err, &status) && status.Code == http.StatusForbidden
}

// wait is the time until the next call: every, or less while calls fail.
func (t *task) wait(every time.Duration) time.Duration {
	if t.failures == 0 {
		return repeat.Jittered(every)
	}
	most := min(retryMost, retryFirst<<min(t.failures-1, 10))
	return most/2 + rand.N(most/2)
}

// pause waits, or until ctx ends or something is received.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}
