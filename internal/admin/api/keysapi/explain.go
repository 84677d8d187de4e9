package keysapi

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/explain"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// maxRequest bounds a request, in bytes: Envoy takes no more of headers, and regular expressions read all of it.
const maxRequest = 64 << 10

func (o *operations) explain(ctx context.Context, in *api.Body[v1.Request]) (*api.Body[v1.Explanation], error) {
	set, secret := o.Service.InForce()
	if set == nil {
		return nil, v1.NewProblem(http.StatusServiceUnavailable, v1.CodeNoRule, "no rules are in force here")
	}
	b := &in.Body
	stated := request.Request{Method: b.Method, Headers: b.Headers, Client: b.Client, Claims: b.Claims, SAN: b.SAN, Route: b.Route}
	if err := cmp.Or(stated.Locate(b.URL), stated.Check()); err != nil {
		return nil, v1.NewProblem(http.StatusUnprocessableEntity, "", err.Error())
	}
	pop := &rule.PoP{Region: cmp.Or(b.Region, o.Region), Labels: b.Labels}
	var known request.Known
	if b.Known != nil {
		known = request.Known{}
		for _, word := range b.Known {
			known[word] = true
		}
		known["region"] = known["region"] || pop.Region != "" // the default of a PoP that calls this program
	}
	now := limit.Micros(time.Now().UnixMicro())
	o.one.Lock() // with 1,000 rules it takes a processor for 30 ms
	verdicts := explain.Rules(set, known, func(inputs *rule.Inputs) *rule.Request {
		q := new(rule.Request)
		stated.Fill(inputs, q)
		q.Secret, q.PoP, q.Now = secret, pop, now
		return q
	})
	o.one.Unlock()
	ctx, cancel := context.WithTimeout(ctx, countersTime)
	defer cancel()
	out := &api.Body[v1.Explanation]{Body: v1.Explanation{InForce: o.InForce(), Rules: make([]v1.Explained, len(verdicts))}}
	operator := api.Caller(ctx).Role >= access.Operator
	for i := range verdicts {
		v, e := &verdicts[i], &out.Body.Rules[i]
		*e = v1.Explain(v)
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
	refuser := explain.Refuser(verdicts, func(i int) int64 {
		switch c := out.Body.Rules[i].Counters; {
		case len(c) == 0:
			return -1
		case c[0].Unlimited:
			return math.MaxInt64
		default:
			return c[0].Remaining
		}
	})
	if refuser >= 0 {
		out.Body.RefusedBy = verdicts[refuser].Rule.Name
	}
	return out, nil
}
