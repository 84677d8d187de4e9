package leasecache_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// allowing is a rule of so many per period with on_failure: allow.
func allowing(t testing.TB, spec limit.Spec, c lease.Consistency) *engine.Policy {
	p := ruled(t, "flooded", spec, c)
	p.OnFailure = lease.FailureAllow
	return p
}

// Whatever counts it, a key that is flooded stays denied when the store fails, at
// any moment, until its counter is as good as new: also where units trickle back, so that
// most replies before the failure granted some. What the store reported as left is
// admitted, and no more.
func TestFloodedKeyStaysDeniedThroughAFailure(t *testing.T) {
	t.Parallel()
	failures, spent, phases := 0, 0, 5
	if testing.Short() {
		phases = 1
	}
	for name, spec := range algorithms {
		for _, rate := range []struct {
			count int64
			per   limit.Micros
		}{{10, limit.Second}, {100, 10 * limit.Second}} {
			for _, c := range []lease.Consistency{lease.Leased, lease.Exact} {
				spec.Count, spec.Period = rate.count, rate.per
				t.Run(fmt.Sprintf("%s %d in %ds, %d", name, rate.count, rate.per/limit.Second, c), func(t *testing.T) {
					for phase := range phases {
						onReplicas(t, 3, 1000, func(t *testing.T, r *replicas) {
							if failures++; failsInAFlood(t, r, allowing(t, spec, c), phase) {
								spent++
							}
						})
					}
				})
			}
		}
	}
	if spent < failures*3/4 {
		t.Errorf("the limit was spent in %d of %d failures", spent, failures)
	}
}

// failsInAFlood fails the store in the middle of a flood. False if the limit is not
// spent just then: its window has begun, the first charges of its log have gone, or all
// still wait for the last units.
func failsInAFlood(t *testing.T, r *replicas, p *engine.Policy, phase int) bool {
	s := p.Limit.Spec()
	trickle := s.Count*110*int64(limit.Millisecond)/int64(s.Period) + 1 // between two asks
	flooded := min(time.Duration(s.Period)*time.Microsecond*14/10, 12*time.Second) + time.Second
	r.flood(t, p, "spent", flooded+time.Duration(phase)*47*time.Millisecond)
	lately, how, _ := r.flood(t, p, "spent", 100*time.Millisecond)
	refused := int64(how[engine.Sound]) - lately
	state := make([]lease.Grant, 1)
	r.behind.Store.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte("spent")}}, state)
	if lately > trickle || refused < lately || 4*state[0].Remaining >= s.Count {
		return false
	}
	r.behind.down.Store(true)
	long := min(time.Duration(state[0].Reset)*time.Millisecond*7/10, 2*time.Second)
	admitted, how, _ := r.flood(t, p, "spent", long)
	if most := 3 * (state[0].Remaining + trickle); admitted > most {
		t.Errorf("phase %d: admitted %d in %v after the failure, want at most the %d that 3 replicas have as left; %v", phase, admitted, long, most, how)
	}
	return true
}
