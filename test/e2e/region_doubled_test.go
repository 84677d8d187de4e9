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

// Two regions with one name, each with a Redis of its own, are reported by the aggregator and by both, and
// go on granting. Two replicas on one Redis, which have called for longer by then, are not.
func TestTwoRegionsOfOneName(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	dir := proc.LogDir(t)
	aggregator := region.New(t, region.Config{Dir: dir, Name: "global", Rules: doubledRules, Program: "weir-global", Flags: []string{"--state", "off"}})
	aggregator.Start()
	connected := func(process, name string, redis *redistest.Server) *replica {
		r := &replica{region.New(t, region.Config{
			Dir: dir, Name: process, Rules: doubledRules, Flags: []string{"--region", name, "--global", aggregator.Addr, "--redis", redis.Addr},
		}), t}
		r.Start()
		proc.Eventually(t, time.Minute, process+" is connected", func() bool { return r.Metrics()["weir_remote_up"] == 1 })
		return r
	}
	shared := redistest.Start(t)
	us := []*replica{connected("us-1", "us", shared), connected("us-2", "us", shared)}
	eu := []*replica{connected("eu-here", "eu", redistest.Start(t)), connected("eu-there", "eu", redistest.Start(t))}
	doubled := func(name string) float64 {
		value, ok := aggregator.Metrics()[`weir_region_doubled{region="`+name+`"}`]
		if !ok {
			t.Fatalf("the aggregator has no metric of %s", name)
		}
		return value
	}
	proc.Eventually(t, 2*time.Minute, "the aggregator reports eu", func() bool { return doubled("eu") == 1 })
	if doubled("us") != 0 {
		t.Error("two replicas on one Redis are reported")
	}
	if status, text := aggregator.Ready(); status != 200 {
		t.Errorf("the aggregator: %d %s", status, text)
	}
	for _, r := range eu {
		proc.Eventually(t, 20*time.Second, r.Name+" is told", func() bool { return r.Metrics()["weir_remote_doubled"] == 1 })
		proc.Eventually(t, 20*time.Second, r.Name+" logs it", func() bool { return logged(r.Region, "name of this region", "region=eu") })
		if status, text := r.Ready(); status != 200 {
			t.Errorf("%s: %d %s, want ready", r.Name, status, text)
		}
		h := r.newHolder()
		proc.Eventually(t, 20*time.Second, r.Name+" is granted units", func() bool {
			_, units, _, err := h.ask(t.Context(), "shared", r.Name)
			return err == nil && units > 0
		})
	}
	for _, r := range us {
		if r.Metrics()["weir_remote_doubled"] != 0 {
			t.Errorf("%s is told that it is doubled", r.Name)
		}
	}
	proc.Eventually(t, 20*time.Second, "the aggregator logs it", func() bool {
		return logged(aggregator, "region=eu", "two stores", "--region", "--redis", "at 127.0.0.1:")
	})
	if logged(aggregator, "region=us") {
		t.Error("the aggregator's log has us")
	}
	eu[1].Stop()
	proc.Eventually(t, time.Minute, "one has gone", func() bool { return doubled("eu") == 0 && eu[0].Metrics()["weir_remote_doubled"] == 0 })
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
