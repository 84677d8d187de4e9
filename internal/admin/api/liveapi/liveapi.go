// Package liveapi has the operations of the admin API for live reporting. While a caller uses one of them, members report
// to the collector.
//
//	liveapi.go  answers to one call
//	stream.go   the same once a second, and single decisions
//	show.go     the reports of the collector in the form of the API
//	history.go  what reports said in the past
package liveapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/rule"
)

// Config is what there is to see.
type Config struct {
	Collector *live.Collector
	// Rules are the names of all rules in force, in order.
	Rules func() []string
	// Rule is one of them; nil: there is none of this name.
	Rule func(name string) *rule.Rule
	// InForce is what the program has in force.
	InForce func() v1.InForce
}

type operations struct{ Config }

// Add adds the operations to an API.
func Add(a *api.API, c Config) {
	o := &operations{c}
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-status", Method: http.MethodGet, Path: "/v1/status", Summary: "All members, and what rules did",
		Description: "A region shows itself, an aggregator all regions.",
	}, o.getStatus)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-top", Method: http.MethodGet, Path: "/v1/top", Summary: "What comes most, or is rejected most",
	}, o.getTop)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/v1/history", Summary: "What rules decided in the last hour or day",
		Description: "Of a region. An aggregator keeps no history: ask a region.",
	}, o.getHistory)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-history-keys", Method: http.MethodGet, Path: "/v1/history/keys", Summary: "Keys and trials of the last hours",
		Description: "Which keys came most, or were rejected most, and how many keys rules on trial would have rejected. Of a region.",
	}, o.getHistoryKeys)
	api.AddStream(a, access.Viewer, huma.Operation{
		OperationID: "stream", Method: http.MethodGet, Path: api.StreamPath, Summary: "The status, what comes most and single decisions, once a second",
	}, map[string]any{
		v1.EventStatus: v1.Status{}, v1.EventTop: v1.Top{}, v1.EventDecisions: v1.Decisions{}, v1.EventRules: v1.InForce{}, v1.EventProblem: v1.Problem{},
	}, o.stream)
}

type statusInput struct {
	Wait int `query:"wait" minimum:"0" maximum:"20" default:"4" doc:"For how long somebody must have watched before this answers, in seconds. PoPs without traffic report last."`
}

func (o *operations) getStatus(ctx context.Context, in *statusInput) (*api.Body[*v1.Status], error) {
	v, err := o.see(ctx, in.Wait)
	if err != nil {
		return nil, err
	}
	return &api.Body[*v1.Status]{Body: o.status(v)}, nil
}

type topInput struct {
	Wait    int    `query:"wait" minimum:"0" maximum:"20" default:"4" doc:"As for the status."`
	By      string `query:"by" enum:"key,denied,rule" default:"key" doc:"Keys that come most, keys that are rejected most, or rules."`
	EachPoP bool   `query:"each_pop" doc:"Count each PoP apart, at the aggregator each region."`
	Limit   int    `query:"limit" minimum:"1" maximum:"512" default:"50" doc:"Most items of the list."`
}

func (o *operations) getTop(ctx context.Context, in *topInput) (*api.Body[*v1.Top], error) {
	v, err := o.see(ctx, in.Wait)
	if err != nil {
		return nil, err
	}
	return &api.Body[*v1.Top]{Body: o.top(v, in.By, in.EachPoP, in.Limit)}, nil
}

// see is the view once somebody has watched for so many seconds. The watch lasts for some seconds more: who calls again
// in time need not wait.
func (o *operations) see(ctx context.Context, wait int) (*live.View, error) {
	const pause, late = time.Second, time.Second
	want, began := time.Duration(wait)*time.Second, time.Now()
	renew, _ := o.Collector.Begin(ctx, nil)
	for {
		v, err := o.Collector.See(ctx)
		if err != nil {
			return nil, problem(err)
		}
		left := want - v.Watched
		if left <= 0 || time.Since(began) > want+late || !repeat.Sleep(ctx, min(max(left, pause/10), pause)) {
			return v, nil
		}
		renew()
	}
}

func problem(err error) *v1.Problem {
	return v1.NewProblem(http.StatusServiceUnavailable, v1.CodeStore, err.Error())
}
