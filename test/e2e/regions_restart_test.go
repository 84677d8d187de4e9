package e2e

import (
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const sharedWindow = 20 * time.Second

const cutOffRules = `
regions: { eu: 1, us: 3 }
rules:
  - { name: shared, key: [ { header: x-key } ], limit: 400/20s, algorithm: fixed_window, scope: global, timeout: 1s }
`

// An aggregator that starts again while a region is cut off goes on to withhold that region's
// share of the window: it ended in order, or was killed.
func TestAggregatorRestartsWhileARegionIsCutOff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes two windows of 20 s")
	}
	dir := proc.LogDir(t)
	aggregator := region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: cutOffRules, Program: "weir-global",
		Flags: []string{"--state", filepath.Join(dir, "global.state")},
	})
	aggregator.Start()
	link := stack.NewLink(t, aggregator.Addr)
	regional := func(name, global string) *replica {
		r := &replica{region.New(t, region.Config{
			Dir: dir, Name: name, Rules: cutOffRules, Flags: []string{"--region", name, "--global", global, "--state", "off"},
		}), t}
		r.Start()
		return r
	}
	eu, us := regional("eu", link.Addr), regional("us", aggregator.Addr)
	connected := func(r *replica) func() bool { return func() bool { return r.Metrics()["weir_remote_up"] == 1 } }
	for _, r := range []*replica{eu, us} {
		proc.Eventually(t, time.Minute, r.Name+" knows its share", func() bool { return r.Metrics()[`weir_remote_calls_total{result="answered"}`] > 3 })
	}
	link.Swallow()
	proc.Eventually(t, time.Minute, "eu is cut off for both sides", func() bool {
		return aggregator.Metrics()[`weir_region_withheld{region="eu"}`] > 0 && eu.Metrics()["weir_reserve_in_use"] == 1
	})
	for _, end := range []struct {
		name string
		stop func()
	}{{"in order", aggregator.Stop}, {"killed", aggregator.Kill}} {
		t.Run(end.name, func(t *testing.T) {
			for try := 1; ; try++ {
				start := time.Now().Truncate(sharedWindow).Add(sharedWindow)
				time.Sleep(time.Until(start) + 100*time.Millisecond)
				end.stop()
				aggregator.Start()
				proc.Eventually(t, time.Minute, "us is connected again", connected(us))
				own, lost := eu.spend("shared", end.name)
				others, lostToo := us.spend("shared", end.name)
				switch {
				case time.Since(start) < sharedWindow:
					if own > 100 || own < 100-lost || others > 300 || others < 280-lostToo {
						t.Errorf("of 400 eu was granted %d while it was cut off, and us %d; their shares are 100 and 300 (%d and %d asks were not answered in time)",
							own, others, lost, lostToo)
					}
					return
				case try == 5:
					t.Fatal("this machine takes longer than a window")
				}
			}
		})
	}
}

// spend asks for single units until none was granted for a second, and returns how many were,
// and how many asks a busy machine did not answer in time: each may have cost a unit.
func (r *replica) spend(rule, key string) (units, lost int) {
	r.t.Helper()
	h := r.newHolder()
	for granted := time.Now(); time.Since(granted) < time.Second; {
		status, n, _, err := h.ask(r.t.Context(), rule, key)
		if connect.CodeOf(err) == connect.CodeDeadlineExceeded {
			lost++
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if units += int(n); n > 0 {
			granted = time.Now()
		}
		if status != quotapb.Status_STATUS_OK {
			time.Sleep(50 * time.Millisecond)
		}
	}
	return units, lost
}
