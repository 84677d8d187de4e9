package read

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// What has several counters in a document becomes several rules: all other code knows rules
// with one counter per key. Their names have a suffix for each step:
//
//	limits      login, and login@1d for the window of a day
//	percent     login for these keys, and login@shadow for the others
//	variants    login@a and login@b, and login@b@1d for a window of b
//	candidates  login@candidate

const (
	limitForms  = "a limit such as 5/1m, or { count: 5, per: 1m }"
	limitsForms = "a list of limits, such as [5/1m, 20/1d]"
)

// windows are the rules that a rule of the document is expanded into by its limits: one for each.
// They have the name that is written.
type windows struct {
	rules  []rule.Rule
	origin // of the first
}

// windows reads the limits of the rule i.
func (d *reader) windows(v strict.Value, r rule.Rule, i int) windows {
	spec := d.spec(v, r.Scope)
	limits := d.limits(v, spec)
	byCalendar := func(s limit.Spec) bool { return s.Calendar != nil }
	if !v.Field("algorithm").Present() && slices.ContainsFunc(limits, byCalendar) {
		spec.Algorithm = limit.FixedWindow // the only one for these
		for i := range limits {
			limits[i].Algorithm = spec.Algorithm
		}
	}
	w := windows{origin: origin{rule: i, window: -1}}
	w.set(r, limits, v.Field("limits").Present())
	d.overrides(v, spec, w.rules)
	return w
}

// set makes a rule like r for each limit; several is whether they are in a list.
func (w *windows) set(r rule.Rule, limits []limit.Spec, several bool) {
	w.rules = make([]rule.Rule, len(limits))
	for i, own := range limits {
		w.rules[i] = r
		w.rules[i].Limits = []rule.Variant{{Limit: own}}
	}
	if w.window = -1; several {
		w.window = 0
	}
}

// add adds rules like the windows, for some of the keys, with this suffix.
func (d *reader) add(w windows, suffix string, keys rule.Percent) {
	for i, r := range w.rules {
		if r.Name += suffix; i > 0 {
			r.Name += "@" + windowName(r.Limits[0].Limit, i)
		}
		if keys != (rule.Percent{}) {
			r.Match.Percent = keys
		}
		at := w.origin
		if at.window >= 0 {
			at.window = i
		}
		d.rules, d.origins = append(d.rules, r), append(d.origins, at)
	}
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
		if j := slices.IndexFunc(out[:i], func(s limit.Spec) bool { return samePeriod(s, out[i]) }); j >= 0 && out[i].Period > 0 {
			item.Fail("has the period of " + strict.Index("limits", j) + "; write each period once")
		}
	}
	return out
}

// samePeriod reports whether two limits have windows of one name.
func samePeriod(a, b limit.Spec) bool {
	return a.Period == b.Period && (a.Calendar == nil) == (b.Calendar == nil)
}

// overrides reads the overrides of a rule into the rule of each window: first those by attribute, then those by key, for
// each has its place in the list by what stands before it. Of one that is out of place, and of those behind it, only the
// mistakes are read.
func (d *reader) overrides(v strict.Value, spec limit.Spec, windows []rule.Rule) {
	placed := true
	for _, o := range v.Field("overrides").List(rule.MaxOverrides+rule.MaxKeyLimits, "a list of overrides, such as [{ when: { header: { x-tier: gold } }, limit: 50/1m }]") {
		byKey := o.Kind() == strict.Object && (o.Field("key").Present() || o.Field("hash").Present())
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
	case one.Kind() == strict.String && one.Node().Text == rule.Unlimited && !list.Present():
		for i := range out {
			out[i].Count = unlimited
		}
	case one.Present():
		v.FailName("limit", "is one, and the rule has limits; write limits, one for each of the rule's, or limit: unlimited")
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
