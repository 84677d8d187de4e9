package keysapi

import (
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/explain"
)

// maxRequest bounds a request, in bytes: Envoy takes no more of headers, and regular expressions read all of it.
const maxRequest = 64 << 10

func (o *operations) explain(ctx context.Context, in *api.Body[v1.Request]) (*api.Body[v1.Explanation], error) {
	set, secret := o.Service.InForce()
	if set == nil {
		return nil, v1.NewProblem(http.StatusServiceUnavailable, v1.CodeNoRule, "no rules are in force here")
	}
	o.one.Lock() // with 1,000 rules it takes a processor for 30 ms
	verdicts, err := explain.Request(&in.Body, set, secret, o.Region, limit.Micros(time.Now().UnixMicro()))
	o.one.Unlock()
	if err != nil {
		return nil, v1.NewProblem(http.StatusUnprocessableEntity, "", err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, countersTime)
	defer cancel()
	out := &api.Body[v1.Explanation]{Body: v1.Explanation{InForce: o.InForce(), Rules: make([]v1.Explained, len(verdicts))}}
	operator := api.Caller(ctx).Role >= access.Operator
	for i := range verdicts {
		v, e := &verdicts[i], &out.Body.Rules[i]
		*e = v.Answer()
		if !operator && v.Rule.Hash { // else viewers could find out whose a hash is, by trying keys
			e.Counted = ""
		}
		if v.Hit == nil || !operator {
			continue
		}
		all, err := o.Service.Peek(ctx, v.Rule.Name, v.Hit.Key)
		all = slices.DeleteFunc(all, func(c v1.Counter) bool { return c.Rule != v.Rule.Name || c.Variant != v.Hit.Variant })
		if e.Counters = all; err != nil {
			e.Problem = err.Error()
		}
	}
	rejecter := explain.Rejecter(verdicts, func(i int) int64 {
		switch c := out.Body.Rules[i].Counters; {
		case len(c) == 0:
			return -1
		case c[0].Unlimited:
			return math.MaxInt64
		default:
			return c[0].Remaining
		}
	})
	if rejecter >= 0 {
		out.Body.RejectedBy = verdicts[rejecter].Rule.Name
	}
	return out, nil
}
