package explain

import (
	"cmp"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// Request explains a request of the admin API by each rule of a set, at a time, at a PoP of this region if the request
// states none; an empty region is unknown. Without a secret, keys of rules with hash: true are not known.
func Request(r *v1.Request, set *rule.Set, secret *rule.Secret, region string, now limit.Micros) ([]Verdict, error) {
	stated := request.Request{Method: r.Method, Headers: r.Headers, Client: r.Client, Claims: r.Claims, Metadata: r.Metadata, SAN: r.SAN, Route: r.Route}
	if err := cmp.Or(stated.Locate(r.URL), stated.Check()); err != nil {
		return nil, err
	}
	pop := &rule.PoP{Region: cmp.Or(r.Region, region), Labels: r.Labels}
	var known request.Known
	if r.Known != nil {
		known = request.Known{"region": pop.Region != ""}
		for _, word := range r.Known {
			known[word] = true
		}
	}
	return Rules(set, known, func(inputs *rule.Inputs) *rule.Request {
		q := new(rule.Request)
		stated.Fill(inputs, q)
		q.Secret, q.PoP, q.Now = secret, pop, now
		return q
	}), nil
}

// Answer is the verdict in the admin API, without the state of counters.
func (v *Verdict) Answer() v1.Explained {
	e := v1.Explained{
		Rule: v.Rule.Name, Mode: v.Rule.Mode.String(), Applies: v.Applies(), Unknown: v.Unknown(), Failed: v.Failed,
		ExemptBy: v.ExemptBy, Override: v.Override, Unlimited: v.Unlimited, Needs: v.Needs,
	}
	if v.Hit != nil {
		e.Cost, e.Counted, e.Consistency = v.Hit.Cost, string(v.Hit.Key), v.Consistency()
	}
	if v.Shed != nil {
		e.Class, e.Counted = v.Shed.Class.String(), string(v.Shed.Key)
	}
	if limit := v.Capacity(); limit >= 0 {
		e.Limit = &limit
	}
	return e
}
