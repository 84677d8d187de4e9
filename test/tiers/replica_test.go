// Package tiers runs weir-regional and weir-global as real processes, without an Envoy, through what happens to
// them: Redis restarts and splits, clocks are wrong, networks swallow packets, replicas end.
package tiers

import (
	"context"
	"crypto/rand"
	"flag"
	"strings"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// TestMain lets four tests run at once, also on a machine of two cores: they mostly wait.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}

// replica is one of several weir-regional that share a Redis.
type replica struct {
	*region.Region
	t *testing.T
}

// newReplica prepares a replica that is to run by cfg.
func newReplica(t *testing.T, cfg region.Config, redis []string) *replica {
	t.Helper()
	proc.AwaitDay()
	cfg.Dir = proc.LogDir(t)
	cfg.Flags = append([]string{"--redis", strings.Join(redis, ",")}, cfg.Flags...)
	return &replica{region.New(t, cfg), t}
}

// holder asks a replica for units, one call after the other.
type holder struct {
	*region.Worker
	budget time.Duration
}

func (r *replica) newHolder() *holder {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return &holder{region.NewWorker(r.HTTP, r.Addr, "", id, 0), callBudget}
}

// callBudget is how long a call may take, unless its holder has another budget. The caller itself
// waits on, to see that the answer comes in time.
const callBudget = 100 * time.Millisecond

// ask asks for one unit of a key. granted is 0 or 1; took is how long it took.
func (h *holder) ask(ctx context.Context, rule, key string) (status quotav1.Status, granted uint64, took time.Duration, err error) {
	begin := time.Now()
	grants, err := h.Acquire(ctx, h.budget, region.Single(rule, []byte(key)))
	took = time.Since(begin)
	if err != nil {
		return 0, 0, took, err
	}
	return grants[0].GetStatus(), grants[0].GetGranted(), took, nil
}

// take takes single units of a key, until there are so many, one is denied, or nothing was decided for two
// seconds. An ask that a busy machine did not decide in time may have cost a unit.
func (r *replica) take(rule, key string, most int) (granted int) {
	h := r.newHolder()
	for decided := time.Now(); granted < most && time.Since(decided) < 2*time.Second; {
		status, n, _, _ := h.ask(r.t.Context(), rule, key)
		granted += int(n)
		switch status {
		case quotav1.Status_STATUS_DENIED:
			return granted
		case quotav1.Status_STATUS_OK:
			decided = time.Now()
		}
	}
	return granted
}
