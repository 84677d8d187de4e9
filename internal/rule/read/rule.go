package read

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// rule reads the rule i, and adds the rules that it is expanded into.
func (d *reader) rule(v strict.Value, i int) {
	if !v.Object(ruleFields...) {
		return
	}
	var r rule.Rule
	if name := v.Field("name"); name.Require("a name of letters, digits, - and _") {
		r.Name, _ = name.String("a name")
	}
	r.Mode = enum(v.Field("mode"), rule.Mode(0))
	r.Match = d.match(v.Field("match"))
	if v.Field("shed").Present() && r.Mode != rule.Exempt {
		d.shedRule(v, &r)
		d.add(windows{[]rule.Rule{r}, origin{rule: i, window: -1}}, "", rule.Percent{})
		return
	}
	if r.Exempts = exempts(v.Field("exempts")); r.Mode == rule.Exempt {
		for _, name := range v.Names() {
			if slices.Contains(ruleFields[fieldsOfExempt:], name) {
				v.FailName(name, "does not go with mode: exempt, which lifts rules and counts nothing; leave it out")
			}
		}
		d.add(windows{[]rule.Rule{r}, origin{rule: i, window: -1}}, "", rule.Percent{})
		return
	}
	v.Field("key").Require(keyForms)
	r.Key = d.key(v.Field("key"))
	r.Hash, _ = v.Field("hash").Bool()
	r.Scope = enum(v.Field("scope"), rule.ScopeRegion)
	r.Cost = d.cost(v.Field("cost"))
	r.Count = count(v.Field("count"))
	r.Sharing = enum(v.Field("sharing"), rule.SharingProportional)
	r.Consistency, r.SmallExact = enum(v.Field("consistency"), lease.Leased), !v.Field("consistency").Present()
	r.Overdraft = integer(v.Field("overdraft"), check.OverdraftRange)
	d.onFailure(v.Field("on_failure"), &r)
	r.Timeout = period(v.Field("timeout"), "100ms")
	r.LeaseInterval = d.leaseInterval(v.Field("lease"))
	d.shown(v, &r)
	r.Rejection = rejectionForm(v.Field("rejection"))
	r.RetryJitter = integer(v.Field("retry_jitter"), check.JitterRange)
	d.parts(v, d.windows(v, r, i))
}

// shown reads who sees what of a rule.
func (d *reader) shown(v strict.Value, r *rule.Rule) {
	r.Headers = headers(v.Field("headers"))
	r.HideKeys, _ = v.Field("hide_keys").Bool()
}

// exempts reads the names of the rules that an exempt rule lifts.
func exempts(v strict.Value) (names []string) {
	const want = "a list of names of rules, such as [login], or leave it out for all rules of the file"
	for _, item := range v.List(rule.MaxRules, want) {
		name, _ := item.String("the name of a rule")
		names = append(names, name)
	}
	if v.Kind() == strict.List && len(names) == 0 && v.Ok() {
		v.Fail("is empty; write " + want)
	}
	return names
}

// spec reads what all limits of a rule have in common.
func (d *reader) spec(v strict.Value, scope rule.Scope) limit.Spec {
	spec := limit.Spec{
		Algorithm:   enum(v.Field("algorithm"), scope.DefaultAlgorithm()),
		Align:       enum(v.Field("align"), limit.AlignClock),
		MinInterval: period(v.Field("min_interval"), "2s"),
	}
	spec.ChargeRejected, _ = v.Field("charge_rejected").Bool()
	spec.Block = onLimit(v.Field("on_limit"))
	if lease := v.Field("lease"); lease.Kind() == strict.Object {
		spec.LeaseTTL = period(lease.Field("ttl"), "10s")
	}
	return spec
}

// onLimit reads for how long a key that reaches its limit is blocked.
func onLimit(v strict.Value) limit.Micros {
	const want = "for how long a key that reaches the limit is blocked, such as { block: 10m }"
	if !v.Present() || !v.Is(strict.Object, want) || !v.Object(onLimitFields...) || !v.Field("block").Require(want) {
		return 0
	}
	return period(v.Field("block"), "10m")
}

// leaseInterval reads the interval and checks the mapping that has it.
func (d *reader) leaseInterval(v strict.Value) limit.Micros {
	if !v.Object(leaseFields...) {
		return 0
	}
	return period(v.Field("interval"), "100ms")
}

const costForms = "a number of units, { header: x-cost, default: 1, max: 100 }, or { estimate: 500, actual: { header: x-tokens-used }, max: 32000 }"

func (d *reader) cost(v strict.Value) rule.Cost {
	if v.Kind() == strict.Object && (v.Field("actual").Present() || v.Field("estimate").Present()) {
		return d.settled(v)
	}
	return d.stated(v, costForms)
}

// stated reads a cost that is known with the request.
func (d *reader) stated(v strict.Value, want string) rule.Cost {
	if v.Kind() == strict.Int {
		return rule.Cost{Default: integer(v, check.CostRange)}
	}
	if !v.Present() || !v.Is(strict.Object, want) || !v.Object(statedFields...) {
		return rule.Cost{}
	}
	c := rule.Cost{Default: integer(v.Field("default"), check.CostRange), Max: integer(v.Field("max"), check.CostRange)}
	switch header, value := v.Field("header"), v.Field("metadata"); {
	case header.Present() && value.Present():
		v.Fail("has header and metadata; write one of them")
	case value.Present():
		c.By = metadata(value)
	case header.Require("the header that states the cost, or write cost as a plain number"):
		c.By.From = rule.FromHeader
		c.By.Name, _ = header.String("a header name")
	}
	return c
}

// onFailure reads what a rule does on a failure, after its scope.
func (d *reader) onFailure(v strict.Value, r *rule.Rule) {
	if v.Kind() != strict.Object {
		r.OnFailure = enum(v, r.Scope.DefaultOnFailure(d.regions))
		return
	}
	if !v.Object(onFailureFields...) {
		return
	}
	if action := v.Field("action"); action.Require("allow, deny or local") {
		r.OnFailure = enum(action, lease.FailureAllow)
	}
	if status := v.Field("status"); status.Is(strict.Int, check.StatusForms) {
		n, err := strconv.Atoi(status.Node().Text)
		if r.DenyStatus = n; err != nil || n == 0 { // 0 would be the default
			status.Fail(strict.Quote(status.Node().Text) + " is out of range; write " + check.StatusForms)
		}
	}
	r.ExpectedPoPs = integer(v.Field("expected_pops"), check.PoPsRange)
}
