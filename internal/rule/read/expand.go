package read

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// What has several counters in a document becomes several rules: all other code knows rules
// with one counter per key. Their names have a suffix for each step:
//
//	limits     login, and login@1d for the window of a day

const limitsForms = "a list of limits, such as [5/1m, 20/1d]"

// windows reads the limits of a rule, and makes a rule of each.
func (d *reader) windows(v strict.Value, r rule.Rule) []rule.Rule {
	spec := d.spec(v, r.Scope)
	limits := d.limits(v, spec)
	rules := make([]rule.Rule, len(limits))
	for i, own := range limits {
		rules[i] = r
		rules[i].Limits = []rule.Variant{{Limit: own}}
		if i > 0 {
			rules[i].Name += "@" + windowName(own, i)
		}
	}
	d.overrides(v, spec, rules)
	return rules
}

// windowName is the suffix of the window i, which may have no period by mistake.
func windowName(s limit.Spec, i int) string {
	switch {
	case s.Period == 0:
		return strconv.Itoa(i)
	case s.Calendar != nil:
		return s.Calendar.Per.String()
	}
	return rule.FormatPeriod(s.Period)
}

// limits reads limit, or limits if the rule has several windows.
func (d *reader) limits(v strict.Value, spec limit.Spec) []limit.Spec {
	list := v.Field("limits")
	if !list.Present() {
		return []limit.Spec{d.ownLimit(v.Field("limit"), spec)}
	}
	if v.Field("limit").Present() {
		v.FailName("limits", "is given together with limit; remove one of them")
	}
	items := list.List(rule.MaxWindows, limitsForms)
	switch {
	case spec.Algorithm == limit.Concurrency:
		list.Fail("are windows, and concurrency has none; write limit, such as limit: 20")
	case list.Ok() && len(items) == 0:
		list.Fail("is empty; write " + limitsForms)
	}
	out := make([]limit.Spec, max(1, len(items)))
	out[0] = spec
	for i, item := range items {
		out[i] = d.ownLimit(item, spec)
		if j := slices.IndexFunc(out[:i], func(s limit.Spec) bool {
			return s.Period == out[i].Period && (s.Calendar == nil) == (out[i].Calendar == nil)
		}); j >= 0 && out[i].Period > 0 {
			item.Fail("has the period of " + strict.Index("limits", j) + "; write each period once")
		}
	}
	return out
}

// overrides reads the overrides of a rule into the rule of each window: first those by attribute, then those by key, for
// each has its place in the list by what stands before it. Of one that is out of place, and of those behind it, only the
// mistakes are read.
func (d *reader) overrides(v strict.Value, spec limit.Spec, windows []rule.Rule) {
	placed := true
	for _, o := range v.Field("overrides").List(rule.MaxOverrides+rule.MaxKeyLimits, "a list of overrides, such as [{ when: { header: { x-tier: gold } }, limit: 50/1m }]") {
		byKey := o.Kind() == strict.Object && o.Field("key").Present()
		if !byKey && len(windows[0].Keys) > 0 { // each has its place in the list by what stands before it
			o.Fail("stands behind an override with key; write those with key last: when goes before key")
			placed = false
		}
		var key rule.KeyLimit
		var when rule.Variant
		if byKey {
			key = d.keyLimit(o)
		} else {
			when = d.override(o)
		}
		for i, own := range d.overrideLimits(o, v.Field("limits").Present(), spec, windows) {
			switch r := &windows[i]; {
			case !placed:
			case byKey:
				key.Limit, key.Unlimited = own, own.Count == unlimited
				r.Keys = append(r.Keys, key)
			default:
				when.Limit, when.Unlimited = own, own.Count == unlimited
				r.Limits = append(r.Limits, when)
			}
		}
	}
}

// overrideLimits reads the limits of an override: limit, or limits with one for each window
// if the rule has limits. What cannot be read is the rule's own, in which nothing else is wrong.
func (d *reader) overrideLimits(v strict.Value, several bool, spec limit.Spec, windows []rule.Rule) []limit.Spec {
	out := make([]limit.Spec, len(windows))
	for i := range out {
		out[i] = windows[i].Limits[0].Limit
	}
	one, list := v.Field("limit"), v.Field("limits")
	switch {
	case v.Kind() != strict.Object: // has been reported
	case !several && list.Present():
		v.FailName("limits", "is for a rule with limits; write limit")
	case !several:
		out[0] = d.limit(one, following(spec, out[0]))
	case one.Present():
		v.FailName("limit", "is one, and the rule has limits; write limits, one for each of the rule's")
	case list.Require(limitsForms + ", one for each of the rule's"):
		items := list.List(rule.MaxWindows, limitsForms)
		if list.Ok() && len(items) != len(out) {
			list.Fail("has " + strconv.Itoa(len(items)) + " items; write " + strconv.Itoa(len(out)) + ", one for each of the rule's")
			break
		}
		for i, item := range items {
			out[i] = d.limit(item, following(spec, out[i]))
		}
	}
	return out
}

// following is the spec of a limit that follows the calendar of another one.
func following(spec, own limit.Spec) limit.Spec {
	spec.Calendar = own.Calendar
	return spec
}

// origin is where a document has an expanded rule.
type origin struct {
	rule   int // in rules
	window int // in limits; -1: the rule has limit
}

// path returns the path in the document of a field of the expanded rule.
func (o *origin) path(field string) string {
	if o.window >= 0 {
		at := 0 // where limit stands, in the rule or in an override
		if strings.HasPrefix(field, "overrides[") {
			at = strings.IndexByte(field, '.') + 1
		}
		if rest, ok := strings.CutPrefix(field[at:], "limit"); ok && (rest == "" || rest[0] == '.') {
			field = field[:at] + strict.Index("limits", o.window) + rest
		}
	}
	return strict.Index("rules", o.rule) + "." + field
}

// written returns the path in the document for a path of package check, which knows the
// expanded rules alone, and the index of the rule there; -1: it is about no rule.
func (d *reader) written(path string) (string, int) {
	rest, ok := strings.CutPrefix(path, "rules[")
	number, field, found := strings.Cut(rest, "].")
	i, err := strconv.Atoi(number)
	if !ok || !found || err != nil {
		return path, -1
	}
	return d.origins[i].path(field), i
}
