package read

import (
	"slices"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/shed"
)

const classForms = "a list of classes, such as [{ class: critical, match: { path: /checkout } }]"

// shedRule reads a rule that sheds load and has no limit.
func (d *reader) shedRule(v strict.Value, r *rule.Rule) {
	for _, name := range v.Names() {
		if slices.Contains(ruleFields, name) && !slices.Contains(fieldsOfShed, name) {
			v.FailName(name, "does not go with shed, which counts nothing; leave it out")
		}
	}
	r.Key, r.Shed = d.key(v.Field("key")), d.shed(v.Field("shed"))
	d.shown(v, r)
}

func (d *reader) shed(v strict.Value) *rule.Shed {
	s := new(rule.Shed)
	if !v.Object(shedFields...) {
		return s
	}
	capacity := v.Field("capacity")
	capacity.Require("how many requests may be in flight at one PoP, such as 200")
	s.Capacity = integer(capacity, check.CapacityRange)
	s.Profile = enum(v.Field("profile"), shed.Slow)
	s.Success = integer(v.Field("success"), check.SuccessRange)
	for _, item := range v.Field("classes").List(rule.MaxClasses, classForms) {
		s.Classes = append(s.Classes, d.class(item))
	}
	if shares := v.Field("shares"); shares.Object(shareFields...) {
		for c := range shed.Critical {
			s.Shares[c] = integer(shares.Field(c.String()), check.ShareRange)
		}
	}
	return s
}

// class reads a class and the requests that have it.
func (d *reader) class(v strict.Value) (c rule.ShedClass) {
	if !v.Object(classFields...) {
		return c
	}
	if class := v.Field("class"); class.Require("critical, normal, low or bulk") {
		c.Class = enum(class, shed.Normal)
	}
	if when := v.Field("match"); when.Require("the requests that have the class, such as { path: /checkout }") {
		c.When = d.match(when)
	}
	return c
}
