package ruletests

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

const (
	expectForm = "allowed, denied, or a mapping such as { denied: login, retry_after: 30s }"
	keyForm    = "a text, or a list with one for each part, such as [acme, 192.0.2.1]"
	shadowForm = "a list of the shadow rules and candidates that would refuse, such as [trial]; [] for none"
	headerForm = `headers of the response, such as { ratelimit: '"login";r=0;t=30' }, or null for one that is absent`

	allowed, denied = "allowed", "denied"
	noRule          = "none"    // in the place of a rule's name
	headerField     = "header " // and the name of the header is that of a field
)

// expectReader reads what a step expects.
type expectReader struct {
	*testReader
	step *step
}

func (e expectReader) read(v strict.Value) {
	out := &e.step.expect
	out.counts = [2]int{-1, -1}
	if v.Kind() == strict.String {
		if i, ok := v.Enum(countFields...); ok {
			out.outcome = countFields[i]
		}
		return
	}
	if !v.Is(strict.Object, expectForm) || !v.Object(expectFields...) {
		return
	}
	e.outcome(v)
	e.impossible(v)
	if key := v.Field("key"); key.Kind() == strict.List {
		values := []string{}
		for _, item := range key.List(rule.MaxParts, keyForm) {
			text, _ := item.String("a text")
			values = append(values, text)
		}
		out.fields = append(out.fields, field{"key", joined(values), values})
	} else if text, ok := key.String(keyForm); ok {
		out.fields = append(out.fields, field{"key", joined([]string{text}), []string{text}})
	}
	e.text(v.Field("override"), "override", "the name of the override, or null for none")
	if n, ok := v.Field("remaining").Int(0, limit.MaxCount); ok {
		e.add("remaining", strconv.FormatInt(n, 10))
	}
	e.retryAfter(v.Field("retry_after"))
	if n, ok := v.Field("status").Int(400, 599); ok {
		e.add("status", strconv.FormatInt(n, 10))
	}
	if headers := v.Field("headers"); headers.Is(strict.Object, headerForm) {
		for _, name := range headers.Names() {
			e.text(headers.Field(name), headerField+strings.ToLower(name), "a text, or null if it is absent")
		}
	}
	if shadow := v.Field("shadow"); shadow.Is(strict.List, shadowForm) {
		var names []string
		for _, item := range shadow.List(rule.MaxRules, shadowForm) {
			name, _ := item.String("the name of a rule")
			e.find(item, name, true)
			names = append(names, name)
		}
		slices.Sort(names)
		e.add("shadow", shown(names))
	}
	if failed, ok := v.Field("failed").Bool(); ok {
		e.add("failed", strconv.FormatBool(failed))
	}
	e.count(v.Field("count"))
	if len(v.Names()) == 0 {
		v.Fail("expects nothing; write " + expectForm)
	}
}

func (e expectReader) add(name, want string) {
	e.step.expect.fields = append(e.step.expect.fields, field{name: name, want: want})
}

// text reads a field that is a text, or null if it is to be absent.
func (e expectReader) text(v strict.Value, name, want string) {
	if v.Present() && v.Kind() == strict.Null {
		e.add(name, "")
	} else if text, ok := v.String(want); ok {
		e.add(name, text)
	}
}

// outcome reads allowed and denied.
func (e expectReader) outcome(v strict.Value) {
	out := &e.step.expect
	for _, outcome := range countFields {
		of := v.Field(outcome)
		if !of.Present() {
			continue
		}
		if out.outcome != "" {
			v.FailName(outcome, "is given together with allowed; remove one of them, or write count for a series with both")
			return
		}
		name, ok := of.String("the name of the rule that denies, or is nearest its limit")
		if out.outcome, out.rule = outcome, name; ok && (outcome == denied || name != noRule) {
			e.find(of, name, false)
		}
	}
}

// find reports a name that is none of a rule which enforces or, with shadow, of one which does not.
func (e expectReader) find(v strict.Value, name string, shadow bool) {
	if e.set == nil || !v.Ok() {
		return
	}
	var fit []string
	reason := "there is no rule " + strict.Quote(name)
	for i := range e.set.Len() {
		switch r := e.set.Rule(i); {
		case r.Mode != rule.Off && r.Mode != rule.Exempt && (r.Mode == rule.Shadow) == shadow:
			if name == r.Name || name == rule.Written(r.Name) {
				return
			}
			fit = append(fit, r.Name)
		case name == r.Name:
			reason = strict.Quote(name) + " has mode: " + r.Mode.String()
		}
	}
	if len(fit) == 0 {
		fit = []string{"another expectation, as no rule fits"}
	}
	v.Fail(reason + "; write " + oneOf(name, fit))
}

// impossible reports fields that do not go with the outcome.
func (e expectReader) impossible(v strict.Value) {
	refuse := func(reason string, names ...string) {
		for _, name := range names {
			if v.Field(name).Present() {
				v.FailName(name, reason)
			}
		}
	}
	switch out := &e.step.expect; {
	case out.rule == noRule && out.outcome == allowed:
		refuse("is that of a rule, and none is to apply; remove it, or write the rule", "key", "override", "remaining", "retry_after", "status", "shadow", "failed", "count")
	case out.outcome == allowed:
		refuse("is that of a refusal; remove it, or write denied", "retry_after", "status")
	case out.outcome == denied:
		refuse("is that of a request that passes; remove it, or write allowed", "shadow")
	}
	if out := &e.step.expect; out.outcome != "" && out.rule != noRule {
		refuse("is of both outcomes, and each request is to be "+out.outcome+"; remove one of them", "count")
	}
}

func (e expectReader) retryAfter(v strict.Value) {
	if v.Kind() == strict.Null {
		e.text(v, "retry_after", "")
	} else if d := duration(v, "30s, or null for none"); d == 0 || d > 0 && d%limit.Second != 0 {
		v.Fail(strict.Quote(v.Node().Text) + " is not in seconds, and Retry-After is; write whole ones, such as 30s")
	} else if d > 0 {
		e.add("retry_after", strconv.FormatInt(int64(d/limit.Second), 10))
	}
}

func (e expectReader) count(v strict.Value) {
	if !v.Is(strict.Object, "how many are allowed and denied, such as { allowed: 5, denied: 95 }") || !v.Object(countFields...) {
		return
	}
	out, sum := &e.step.expect, 0
	for i, name := range countFields {
		if n, ok := v.Field(name).Int(0, maxRequests); ok {
			out.counts[i], sum = int(n), sum+int(n)
		}
	}
	if both := min(out.counts[0], out.counts[1]) >= 0; v.Ok() && (sum > e.step.count || both && sum < e.step.count || max(out.counts[0], out.counts[1]) < 0) {
		v.Fail("adds up to " + strconv.Itoa(sum) + ", and the step has " + strconv.Itoa(e.step.count) + " requests; write allowed, denied or both, with numbers that fit")
	}
}

// joined is a key of these values, as keys are shown: joined by |.
func joined(values []string) string {
	var key []byte
	for i, value := range values {
		if i > 0 {
			key = append(key, '|')
		}
		key = rule.AppendKeyPart(key, value)
	}
	return string(key)
}

// shown is a list as YAML has it.
func shown(values []string) string { return "[" + strings.Join(values, ", ") + "]" }
