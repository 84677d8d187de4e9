package regions

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// startAggregator starts the one that has its counters in memory, and chooses where the two will be
// that share a Redis.
func (w *World) startAggregator() {
	w.t.Helper()
	w.alone = w.newAggregator("global", "", "--state", filepath.Join(w.dir, "global.state"))
	w.alone.Begin()
	w.Aggregators = []*region.Region{w.alone}
	for range each {
		w.places = append(w.places, proc.FreeAddr(w.t))
	}
}

func (w *World) newAggregator(name, addr string, flags ...string) *region.Region {
	return region.New(w.t, region.Config{
		Dir: w.dir, Name: name, Program: "weir-global", Addr: addr,
		Flags: append(w.inConsul(name, w.Regions[0].Consul.Servers[0].Addr), flags...),
	})
}

// share has the two aggregators in use that share a Redis, or the one that has its counters in
// memory. Regions find them in Consul.
func (w *World) share(shared bool) {
	w.t.Helper()
	if shared == (w.Aggregators[0] != w.alone) {
		return
	}
	for _, a := range w.Aggregators {
		a.Stop()
	}
	for _, r := range w.Regions {
		for _, replica := range r.Replicas {
			proc.Await(w.t, time.Minute, replica.Name+" has noticed that the aggregators are gone", func() string {
				if replica.Metrics()["weir_remote_up"] != 0 {
					return "it takes them for up"
				}
				return ""
			})
		}
	}
	w.Aggregators = []*region.Region{w.alone}
	if shared {
		w.Aggregators = w.two()
	}
	for _, a := range w.Aggregators {
		a.Begin()
	}
	for _, a := range w.Aggregators {
		a.AwaitReady()
	}
}

// two are the aggregators that share a Redis Cluster, of which the first use starts the masters.
func (w *World) two() []*region.Region {
	w.t.Helper()
	if w.redis == nil {
		w.redis = startMasters(w.t)
		for i, addr := range w.places {
			w.shared = append(w.shared, w.newAggregator(fmt.Sprintf("global-%d", i+1), addr,
				"--redis", strings.Join(w.redis.Addrs(), ","), "--replicas", fmt.Sprint(len(w.places))))
		}
	}
	return w.shared
}

// theirs is the Redis of the aggregators in use.
func (w *World) theirs() *masters {
	w.t.Helper()
	if w.redis == nil {
		w.t.Fatalf("an aggregator alone has no redis")
	}
	return w.redis
}

// startAggregators starts those in use that are down.
func (w *World) startAggregators() {
	for _, a := range w.Aggregators {
		if a.Exited() {
			a.Begin()
		}
	}
}

// busiest is the aggregator that has answered most.
func (w *World) busiest() *region.Region {
	return slices.MaxFunc(w.Aggregators, func(a, b *region.Region) int { return cmp.Compare(w.asked(a), w.asked(b)) })
}

func (w *World) asked(a *region.Region) float64 { return w.counted(a).Sum("weir_region_wants_total") }

// counted is what an aggregator has counted: nothing if it is down.
func (w *World) counted(a *region.Region) measure.Metrics {
	if !a.Answers() {
		return nil
	}
	m, err := measure.Scrape(w.t.Context(), a.HTTP, "http://"+a.Admin+"/metrics")
	if err != nil {
		return nil
	}
	return m
}
