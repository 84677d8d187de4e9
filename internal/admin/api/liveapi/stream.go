package liveapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2/sse"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/rule"
)

// streamEvery is how often a stream sends what has changed.
const streamEvery = time.Second

type streamInput struct {
	Status    bool   `query:"status" default:"true" doc:"Send the status."`
	Top       string `query:"top" enum:"key,denied,rule" doc:"Send what comes most: keys, keys that are rejected, or rules."`
	EachPoP   bool   `query:"each_pop" doc:"Of keys: count each PoP apart, at the aggregator each region."`
	Limit     int    `query:"limit" minimum:"1" maximum:"512" default:"50" doc:"Most items of what comes most."`
	Tap       bool   `query:"tap" doc:"Send single decisions, which have what follows."`
	Rule      string `query:"rule" doc:"Name of the decisions' rule; missing: any."`
	Key       string `query:"key" doc:"The decisions' key, its parts joined by |; missing: any."`
	Outcome   string `query:"outcome" enum:"admitted,rejected,fallback,would-be-rejected" doc:"Missing: any."`
	PerSecond uint32 `query:"per_second" minimum:"1" maximum:"1000" default:"10" doc:"Decisions a second at most."`
}

// tap is which decisions are to be sent; nil: none.
func (in *streamInput) tap() *quotav1.Tap {
	if !in.Tap {
		return nil
	}
	return &quotav1.Tap{
		Rule: in.Rule, Key: rule.ShortKey([]byte(in.Key)), PerSecond: in.PerSecond,
		Outcome: quotav1.Outcome(slices.Index(v1.Outcomes, in.Outcome)),
	}
}

// stream sends until ctx ends, or its reader takes nothing.
func (o *operations) stream(ctx context.Context, in *streamInput, send sse.Sender) {
	tap := in.tap()
	if tap != nil && tap.Rule != "" && !slices.ContainsFunc(o.Rules(), func(name string) bool { return name == tap.Rule || rule.Written(name) == tap.Rule }) {
		_ = send.Data(v1.NewProblem(http.StatusNotFound, v1.CodeNoRule, "no rule "+tap.Rule+" is in force")) // it ends
		return
	}
	renew, end := o.Collector.Begin(ctx, tap)
	defer end()
	var seen map[string]int64
	var last v1.InForce
	for first := true; first || repeat.Sleep(ctx, streamEvery); first = false {
		renew()
		events := make([]any, 0, 4)
		if now := o.InForce(); first || now != last {
			events, last = append(events, now), now
		}
		v, err := o.Collector.See(ctx)
		switch {
		case err != nil:
			events = append(events, problem(err))
		default:
			if in.Status {
				events = append(events, o.status(v))
			}
			if in.Top != "" {
				events = append(events, o.top(v, in.Top, in.EachPoP, in.Limit))
			}
			if tap == nil {
				break
			}
			var found []live.Decision
			if found, seen = v.Decisions(tap, seen); len(found) > 0 {
				events = append(events, decisions(found))
			}
		}
		for _, e := range events {
			if send.Data(e) != nil || ctx.Err() != nil {
				return
			}
		}
	}
}

// popsTime is for how long a key is watched.
const popsTime = 3 * time.Second

// ByPoP watches a key of a rule for a moment. It returns the last decision of each PoP that made one meanwhile.
func ByPoP(ctx context.Context, collector *live.Collector, rules string, key []byte) ([]v1.Decision, error) {
	tap := &quotav1.Tap{Rule: rules, Key: rule.ShortKey(key), PerSecond: 100}
	renew, end := collector.Begin(ctx, tap)
	defer end()
	last := map[string]v1.Decision{}
	var seen map[string]int64
	for began := time.Now(); ; renew() {
		v, err := collector.See(ctx)
		if err != nil {
			return nil, problem(err)
		}
		var found []live.Decision
		found, seen = v.Decisions(tap, seen)
		for _, d := range decisions(found).Items { // the oldest first
			last[d.From] = d
		}
		if time.Since(began) >= popsTime || !repeat.Sleep(ctx, streamEvery) {
			return slices.SortedFunc(maps.Values(last), func(a, b v1.Decision) int { return cmp.Compare(a.From, b.From) }), nil
		}
	}
}
