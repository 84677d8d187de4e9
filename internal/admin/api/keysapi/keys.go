// Package keysapi has the operations of the admin API on requests and keys: explain a request, read counters, reset them.
//
//	keys.go     counters of a key, and the share that is withheld for a region
//	explain.go  the decision of each rule on a request
package keysapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/admin/api/liveapi"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service"
)

// Config is what the operations need of a program.
type Config struct {
	Service   *service.Service
	Collector *live.Collector
	Region    string // of the program; empty: none
	// InForce is what the program has in force.
	InForce func() v1.InForce
	// Forget takes a region for dead; nil: the program divides nothing among regions.
	Forget func(ctx context.Context, region string) error
}

// countersTime bounds the calls of the store of the counters for one operation.
const countersTime = 5 * time.Second

// operations answers the calls.
type operations struct {
	Config
	api *api.API
	one sync.Mutex // is held while a request is explained
}

// Add adds the operations to an API.
func Add(a *api.API, c Config) {
	o := &operations{Config: c, api: a}
	api.Add(a, access.Operator, huma.Operation{
		OperationID: "peek-key", Method: http.MethodPost, Path: "/v1/keys:peek", Summary: "What the counters of a key hold, and what PoPs decide for it",
	}, o.peek)
	api.Add(a, access.Operator, huma.Operation{
		OperationID: "reset-key", Method: http.MethodPost, Path: "/v1/keys:reset", Summary: "Reset the counters of a key",
		Description: "What is on lease stays there: at most limit and out are admitted after it. Requests in flight keep their slots. PoPs and other replicas keep rejecting for a short time.",
	}, o.reset)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "explain", Method: http.MethodPost, Path: "/v1/explain", Summary: "What becomes of a request, by each rule in force",
		Description: "Nothing is counted.", MaxBodyBytes: maxRequest,
	}, o.explain)
	if c.Forget != nil {
		api.Add(a, access.Admin, huma.Operation{
			OperationID: "forget-region", Method: http.MethodPost, Path: "/v1/regions:forget", Summary: "Declare a region dead: nothing is withheld for it any more",
			Description: "This is rejected for ten seconds after the region called last.",
		}, o.forget)
	}
}

func (o *operations) peek(ctx context.Context, in *api.Body[v1.Peek]) (*api.Body[v1.Counters], error) {
	key := []byte(in.Body.Counted)
	bounded, cancel := context.WithTimeout(ctx, countersTime)
	defer cancel()
	all, err := o.Service.Peek(bounded, in.Body.Rule, key)
	out := &api.Body[v1.Counters]{Body: v1.Counters{Items: []v1.Counter{}}}
	if err == nil {
		out.Body.Items = all
	}
	if in.Body.Watch && (err == nil || errors.Is(err, service.ErrElsewhere)) {
		key = []byte(all[0].Counted) // hashed, if the rule does so
		out.Body.PoPs, err = liveapi.ByPoP(ctx, o.Collector, in.Body.Rule, key)
		return out, err
	}
	return out, problem(err)
}

// reset does not end with the call: the audit has what became of it.
func (o *operations) reset(ctx context.Context, in *api.Body[v1.Reset]) (*api.Body[v1.Counters], error) {
	caller, b := api.Caller(ctx), &in.Body
	if !caller.May(rule.Written(b.Rule)) {
		return nil, v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, caller.Name+" may reset keys of rules whose names begin with "+caller.Prefix)
	}
	key := []byte(b.Counted)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countersTime)
	defer cancel()
	before, err := o.Service.Peek(ctx, b.Rule, key)
	if err != nil {
		return nil, problem(err)
	}
	after, err := o.Service.Reset(ctx, b.Rule, key)
	if err == nil || errors.Is(err, service.ErrUndecided) {
		entry := v1.AuditEntry{What: "key.reset", On: strings.TrimSpace(b.Rule + " " + before[0].Counted), Before: text(before), After: text(after), Why: b.Why}
		if err != nil {
			entry.After = "unknown: " + err.Error()
		}
		o.api.Record(ctx, entry)
	}
	return &api.Body[v1.Counters]{Body: v1.Counters{Items: append([]v1.Counter{}, after...)}}, problem(err)
}

func (o *operations) forget(ctx context.Context, in *api.Body[v1.Region]) (*struct{}, error) {
	if p := api.Unbound(api.Caller(ctx)); p != nil {
		return nil, p
	}
	if err := o.Forget(ctx, in.Body.Region); err != nil {
		return nil, v1.NewProblem(http.StatusConflict, v1.CodeRegion, err.Error())
	}
	o.api.Record(ctx, v1.AuditEntry{What: "region.dead", On: in.Body.Region})
	return nil, nil
}

// problem is the problem that an error of the service is; nil: there is none.
func problem(err error) error {
	switch {
	case errors.Is(err, service.ErrNoRule):
		return v1.NewProblem(http.StatusNotFound, v1.CodeNoRule, err.Error())
	case errors.Is(err, service.ErrElsewhere):
		return v1.NewProblem(http.StatusConflict, v1.CodeElsewhere, err.Error())
	case errors.Is(err, service.ErrKey):
		return v1.NewProblem(http.StatusUnprocessableEntity, v1.CodeKey, err.Error())
	case errors.Is(err, service.ErrUndecided):
		return v1.NewProblem(http.StatusServiceUnavailable, v1.CodeUndecided, err.Error())
	}
	return err
}

// text is what counters hold, for the audit.
func text(all []v1.Counter) string {
	var texts []string
	for i := range all {
		c := &all[i]
		texts = append(texts, fmt.Sprintf("%s: %d of %d left, %d out", c.Rule, c.Remaining, c.Limit, c.Out))
	}
	return strings.Join(texts, "; ")
}
