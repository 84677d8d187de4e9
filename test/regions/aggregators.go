package regions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/region"
)

// beginAggregators starts two aggregators that share a Redis Cluster. Regions find them in Consul.
func (w *World) beginAggregators() {
	w.t.Helper()
	redis := startMasters(w.t)
	for i := range each {
		name := fmt.Sprintf("global-%d", i+1)
		w.Aggregators = append(w.Aggregators, region.New(w.t, region.Config{
			Dir: w.dir, Name: name, Program: "weir-global",
			Flags: append(w.inConsul(name, w.Regions[0].Consul.Servers[0].Addr),
				"--redis", strings.Join(redis.Addrs(), ","), "--replicas", fmt.Sprint(each)),
		}))
	}
	for _, a := range w.Aggregators {
		a.Begin()
	}
}

func (w *World) killAggregators() {
	for _, a := range w.Aggregators {
		a.Kill()
	}
}

// startAggregators starts those that are down.
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
