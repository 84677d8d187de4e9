package read

import (
	"errors"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

func (d *reader) override(v strict.Value) (out rule.Variant) {
	if !v.Object(overrideFields...) {
		return out
	}
	out.Name = overrideName(v.Field("name"))
	if when := v.Field("when"); when.Require("the requests that it is for, such as { header: { x-tier: gold } }") {
		out.When = d.match(when)
	}
	if end := v.Field("until"); end.Present() {
		if out.When.Until != 0 {
			v.FailName("until", "is in when, too; remove one of them")
		}
		out.When.Until = until(end)
	}
	return out
}

func overrideName(v strict.Value) string {
	name, ok := v.String("a name")
	if ok && name == "" {
		v.Fail("is empty; write 1 to 64 letters, digits, - or _, or leave it out")
	}
	return name
}

// keyLimit reads an override by key.
func (d *reader) keyLimit(v strict.Value) (out rule.KeyLimit) {
	if !v.Object(overrideFields...) {
		return out
	}
	if v.Field("when").Present() {
		v.FailName("when", "does not go together with key; write two overrides, or leave it out")
	}
	out.Name, out.Until = overrideName(v.Field("name")), until(v.Field("until"))
	for _, part := range v.Field("key").List(rule.MaxParts, "a value for each part of the rule's key, such as [acme]") {
		text, _ := part.String("a value, such as acme")
		out.Key = append(out.Key, text)
	}
	return out
}

// unlimited is the count of what d.limit reads as rule.Unlimited.
const unlimited = -1

// ownLimit reads the limit of a rule, which has one.
func (d *reader) ownLimit(v strict.Value, spec limit.Spec) limit.Spec {
	spec = d.limit(v, spec)
	if spec.Count == unlimited {
		v.Fail("unlimited is for overrides; write a limit such as 5/1m, mode: off, or an exempt rule (mode: exempt)")
		spec.Count = 0
	}
	return spec
}

// limit reads "5/1m", { count, per, burst }, the number of slots of a concurrency limit, or
// "unlimited".
func (d *reader) limit(v strict.Value, spec limit.Spec) limit.Spec {
	if !v.Require(check.LimitForms) {
		return spec
	}
	switch v.Kind() {
	case strict.String:
		if v.Node().Text == rule.Unlimited {
			spec.Count = unlimited
			break
		}
		d.rate(v, &spec)
	case strict.Int:
		spec.Count = integer(v, check.CountRange)
	default:
		if !v.Is(strict.Object, check.LimitForms) || !v.Object(limitFields...) {
			return spec
		}
		if count := v.Field("count"); count.Require("how many units, such as 5") {
			spec.Count = integer(count, check.CountRange)
		}
		spec.Period = period(v.Field("per"), "1m")
		spec.Burst = integer(v.Field("burst"), check.BurstRange)
	}
	return spec
}

// rate reads "5/1m".
func (d *reader) rate(v strict.Value, spec *limit.Spec) {
	text := v.Node().Text
	count, per, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(count, 10, 32) // up to limit.MaxCount
	period, ok := rule.ParsePeriod(per)
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.Fail("count " + strict.Quote(count) + " is out of range; write " + check.CountRange.String())
	case err != nil || !ok:
		v.Fail(strict.Quote(text) + " is not a limit; write " + check.LimitForms)
	}
	spec.Count, spec.Period = int64(n), period
}
