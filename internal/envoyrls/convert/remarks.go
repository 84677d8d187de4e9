package convert

import (
	"slices"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
)

// Kind is a difference between the two languages.
type Kind struct {
	What string // its name
	// There is the effect in envoyproxy/ratelimit, Here the effect in Weir, and Do what
	// the operator should do.
	There, Here, Do string
	Left            bool // rate limits are left out because of it
}

// keep is advice for everything that is left out.
const keep = "leave it in the configuration, see above"

// left makes a kind because of which rate limits are left out; or continues the advice to
// keep them.
func left(what, there, here, or string) *Kind {
	return &Kind{What: what, There: there, Here: here, Do: keep + or, Left: true}
}

func changed(what, there, here, do string) *Kind {
	return &Kind{What: what, There: there, Here: here, Do: do}
}

// The kinds, in the order of the list.
var (
	quota = left("quota_mode",
		"a request is rejected only if all rate limits of this mode that it matches are over",
		"each rule rejects for itself",
		"; or remove quota_mode, if one that is over is reason enough to reject")
	replaces = left("replaces",
		"the rate limits that it names do not count for a request that matches both",
		"all rules that a request matches count",
		", together with what it replaces; or remove replaces, if both may count")
	replaced = left("replaced by others",
		"it does not count for a request that also matches the rate limit that replaces it",
		"all rules that a request matches count",
		", together with what replaces it; or remove replaces, if both may count")
	wildcard = left("a wildcard",
		"it is for all values that match",
		"a binding is for one value or for any",
		"; or write a descriptor for each value, or have Envoy send one value for all of them")
	besideWildcard = left("any value, beside a wildcard",
		"it is for the values that the wildcard does not match",
		"a binding for any value would be for the wildcard's values, too",
		"; it can be converted when there is no wildcard beside it")
	shared = left("share_threshold",
		"all values share one counter",
		"a value that is left open is part of the key: each has a counter",
		"; or have Envoy send one value for all of them")
	deep = left("many levels",
		"up to 32 levels, each of which may be for any value",
		"a binding has at most 16 entries, a rule's key 8 parts",
		"; or have Envoy send fewer entries")
	many = left("more than 1,000 rate limits",
		"as many as there is memory for",
		"a rules file has at most 1,000 rules, because every PoP reads all of them",
		"")
	unlimited = changed("unlimited",
		"it is allowed and not counted; limit_remaining is 4294967295",
		"it has no rule, and is unbound where a binding is for any value: allowed and not counted; limit_remaining is 0",
		"nothing, as clients look at limit_remaining only beside current_limit, which is in neither")
	unreached = changed("never matched",
		"a wildcard that matches everything stands beside it",
		"it has no rule",
		"nothing; it can be removed")
	metadata = changed("metadata",
		"it is in the dynamic metadata of the response",
		"a rule has none; the rest of the rate limit is converted",
		"if Envoy reads it, write unbound: true in place of rule in its binding, and "+keep)
	metrics = changed("detailed_metric, value_to_metric",
		"metrics have the values of the request",
		"metrics have the name of the rule; the rest of the rate limit is converted",
		"if a dashboard needs the values, write unbound: true in place of rule in its binding, and "+keep)
	kinds = []*Kind{quota, replaces, replaced, wildcard, besideWildcard, shared, deep, many, unlimited, unreached, metadata, metrics}
)

// Remark is a kind at one place.
type Remark struct {
	Kind   *Kind
	File   string
	Line   int
	Path   string // of the rate limit
	Detail string // what of it; may be empty
}

// String returns "file:line: path: detail".
func (r *Remark) String() string {
	s := located(r.File, r.Line, r.Path)
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return comment(s)
}

func (w *converter) remark(k *Kind, r *descriptor.Rule, detail string) {
	if k == besideWildcard || k == unreached {
		detail = "beside " + detail
	}
	w.result.Remarks = append(w.result.Remarks, Remark{k, r.File, r.Line, r.Path, detail})
}

// arrange puts the remarks in the order of their kinds.
func (w *converter) arrange() {
	slices.SortStableFunc(w.result.Remarks, func(a, b Remark) int {
		return slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind)
	})
	if len(w.rules) == 0 {
		return
	}
	w.result.Notes = slices.Clone(general)
	if w.options.OnFailure == lease.FailureLocal {
		w.result.Notes = append(w.result.Notes, whileLocal)
	}
}

// general are the notes about every rule.
var general = []string{
	"a descriptor is not bound if it has an empty value where a rule's key takes it, or brings a limit of its own, which then has a counter of its own",
	"current_limit.name and dynamic metadata have the rule's name, also where a rate limit has none; --ratelimit-metrics does not count what is bound",
	"before PoPs have the rules, replace each header x-descriptor-* by what Envoy sends under that key: a client that sends one spends from the counter",
}

// whileLocal is the note about rules with on_failure: local.
const whileLocal = "on_failure: local is for one replica until the others are known; with weir-regional --replicas N write on_failure: { action: local, expected_pops: N }"
