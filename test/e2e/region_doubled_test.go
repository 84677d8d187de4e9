package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

const doubledRules = `
regions: { eu: 1, us: 1 }
rules:
  - { name: shared, key: [ { header: x-key } ], limit: 400/1d, algorithm: fixed_window, scope: global, timeout: 1s }
`

// Of two regions with one name, each with a Redis of its own, the aggregator hears the first, which goes on, and refuses
// the second: both logs say so. Two replicas on one Redis are one region. When the first one is gone, the second is heard.
func TestTwoRegionsOfOneName(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	aggregator := region.New(t, region.Config{Dir: dir, Name: "global", Rules: doubledRules, Program: "weir-global", Flags: []string{"--state", "off"}})
	aggregator.Start()
	started := func(process, name string, redis *redistest.Server) *replica {
		r := &replica{region.New(t, region.Config{
			Dir: dir, Name: process, Rules: doubledRules, Flags: []string{"--region", name, "--global", aggregator.Addr, "--redis", redis.Addr},
		}), t}
		r.Start()
		return r
	}
	granted := func(r *replica) {
		t.Helper()
		h := r.newHolder()
		proc.Eventually(t, time.Minute, r.Name+" is granted units", func() bool {
			_, units, _, err := h.ask(t.Context(), "shared", r.Name)
			return err == nil && units > 0
		})
	}
	shared := redistest.Start(t)
	us := []*replica{started("us-1", "us", shared), started("us-2", "us", shared)}
	here := started("eu-here", "eu", redistest.Start(t))
	for _, r := range append(us, here) {
		granted(r)
	}
	there := started("eu-there", "eu", redistest.Start(t))
	proc.Eventually(t, time.Minute, "the second one logs that it is refused", func() bool { return logged(there.Region, "refuses the calls", "region=eu") })
	proc.Eventually(t, time.Minute, "the aggregator logs it", func() bool { return logged(aggregator, "two records", "region=eu", "name of its own") })
	proc.Eventually(t, time.Minute, "the second one is not answered", func() bool { return there.Metrics()["weir_remote_up"] == 0 })
	if status, text := there.Ready(); status != 200 {
		t.Errorf("the second one: %d %s, want ready", status, text)
	}
	for _, r := range append(us, here) {
		granted(r)
		if logged(r.Region, "refuses the calls") || r.Metrics()["weir_remote_up"] != 1 {
			t.Errorf("%s is refused", r.Name)
		}
	}
	if logged(aggregator, "region=us") {
		t.Error("the aggregator's log has us")
	}
	here.Stop()
	proc.Eventually(t, time.Minute, "the second one is heard", func() bool { return there.Metrics()["weir_remote_up"] == 1 })
	granted(there)
}

// logged reports whether the log has an error with these words.
func logged(r *region.Region, words ...string) bool {
	for line := range strings.Lines(r.Log()) {
		has := strings.Contains(line, "level=ERROR")
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			return true
		}
	}
	return false
}
