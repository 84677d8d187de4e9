package read

import (
	"errors"
	"slices"
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
		out.When.Until = Time(end)
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
	out.Name, out.Until = overrideName(v.Field("name")), Time(v.Field("until"))
	if hash := v.Field("hash"); hash.Present() {
		if v.Field("key").Present() {
			v.FailName("hash", "is the hash of a key, which is given, too; remove one of them")
		}
		text, ok := hash.String("the hash of a key, as weir keys hash prints it")
		if out.Key = []string{`\h` + text}; ok && !rule.IsHash(out.Key) {
			hash.Fail(strict.Quote(text) + ` is no hash of a key; write the 32 digits that weir keys hash prints behind \h`)
		}
		return out
	}
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
// "unlimited". The calendar of spec is that of the rule's own limit.
func (d *reader) limit(v strict.Value, spec limit.Spec) limit.Spec {
	of := spec.Calendar
	spec.Calendar = nil
	if !v.Require(limitForms) {
		return spec
	}
	switch v.Kind() {
	case strict.String:
		if v.Node().Text == rule.Unlimited {
			spec.Count = unlimited
			break
		}
		d.rate(v, &spec, of)
	case strict.Int:
		spec.Count = integer(v, check.CountRange)
	default:
		if !v.Is(strict.Object, limitForms) || !v.Object(limitFields...) {
			return spec
		}
		if count := v.Field("count"); count.Require("how many units, such as 5") {
			spec.Count = integer(count, check.CountRange)
		}
		if per, ok := perOf(v.Field("per")); ok {
			spec.Period, spec.Calendar = per.Period(), d.calendar(v, per, of)
		} else {
			spec.Period = period(v.Field("per"), "1m, or day, week or month")
			for _, name := range []string{"zone", "anchor"} {
				if v.Field(name).Present() {
					v.FailName(name, "is only for windows of the calendar; write per: day, week or month, or leave it out")
				}
			}
		}
		spec.Burst = integer(v.Field("burst"), check.BurstRange)
	}
	return spec
}

// rate reads "5/1m".
func (d *reader) rate(v strict.Value, spec *limit.Spec, of *limit.Calendar) {
	text := v.Node().Text
	count, per, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(count, 10, 32) // up to limit.MaxCount
	period, ok := rule.ParsePeriod(per)
	if word, is := perWord(per); is {
		period, ok, spec.Calendar = word.Period(), true, d.calendar(v, word, of)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.Fail("count " + strict.Quote(count) + " is out of range; write " + check.CountRange.String())
	case err != nil || !ok:
		v.Fail(strict.Quote(text) + " is not a limit; write " + limitForms)
	}
	spec.Count, spec.Period = int64(n), period
}

// perOf is the window of the calendar that per names; false: it names none.
func perOf(per strict.Value) (limit.Per, bool) {
	if per.Kind() != strict.String {
		return 0, false
	}
	return perWord(per.Node().Text)
}

func perWord(word string) (limit.Per, bool) {
	i := slices.Index(rule.Words[limit.Per](), word)
	return limit.Per(max(0, i)), i >= 0
}

// calendar reads zone and anchor of a limit. What is left out is as in the calendar of, if the limit has one to
// follow.
func (d *reader) calendar(v strict.Value, per limit.Per, of *limit.Calendar) *limit.Calendar {
	c := limit.Calendar{Per: per, Zone: "UTC"}
	if per != limit.PerDay {
		c.Anchor = 1
	}
	if of != nil {
		c.Zone = of.Zone
		if of.Per == per {
			c.Anchor = of.Anchor
		}
	}
	zone, at := v.Field("zone"), v
	if zone.Present() {
		at = zone
		c.Zone, _ = zone.String("the IANA name of a time zone, such as Europe/Berlin")
	}
	switch anchor := v.Field("anchor"); {
	case !anchor.Present():
	case per == limit.PerDay:
		v.FailName("anchor", "is only for week and month; leave it out")
	case per == limit.PerWeek:
		i, _ := anchor.Enum(rule.Weekdays[:]...)
		c.Anchor = uint8(i + 1)
	default:
		c.Anchor = uint8(integer(anchor, check.AnchorRange))
	}
	if c.Same(of) {
		return of
	}
	if d.zones != nil && at.Ok() {
		var err error
		if c.Windows, err = d.zones(c); err != nil {
			at.Fail(err.Error())
		}
	}
	return &c
}
