package ruletests

import (
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
)

const (
	expectForm = "allowed, denied, or a mapping such as { denied: login, retry_after: 30s }"
	keyForm    = "a text, or a list with one for each part, such as [acme, 192.0.2.1]"
	shadowForm = "a list of the shadow rules and candidates that would reject, such as [trial]; [] for none"
	headerForm = `headers of the response, such as { ratelimit: '"login";r=0;t=30' }, or null for one that is absent`
	countForm  = "how many are allowed and denied, such as { allowed: 5, denied: 95 }"

	allowed, denied = "allowed", "denied"
	noRule          = "none"    // in the place of a rule's name
	headerField     = "header " // and the name of the header is that of a field
)

// expectReader reads what a step expects.
type expectReader struct {
	*testReader
	*expect
}

func (e expectReader) read(v strict.Value) {
	if v.Kind() == strict.String {
		if i, ok := v.Enum(countFields...); ok {
			e.outcome = countFields[i]
		}
		return
	}
	if !v.Is(strict.Object, expectForm) || !v.Object(expectFields...) {
		return
	}
	e.verdict(v.Field(denied), denied, e.enforce)
	if e.outcome != "" && v.Field(allowed).Present() {
		v.FailName(denied, "is given together with allowed; remove one of them, or write count for a series with both")
	}
	e.verdict(v.Field(allowed), allowed, e.allow)
	if count := v.Field("count"); count.Is(strict.Object, countForm) && count.Object(countFields...) {
		e.number(count, allowed, 0, maxRequests)
		e.number(count, denied, 0, maxRequests)
	}
	e.key(v.Field("key"))
	e.text(v.Field("override"), "override", "the name of the override, or null for none")
	e.number(v, "remaining", 0, limit.MaxCount)
	if retry := v.Field("retry_after"); retry.Kind() == strict.Null {
		e.text(retry, "retry_after", "")
	} else if d := read.Duration(retry, "30s, or null for none"); d >= 0 { // compared in seconds, as responses state it
		e.add("retry_after", strconv.FormatFloat(float64(d)/float64(limit.Second), 'f', -1, 64)+"s")
	}
	e.number(v, "status", 400, 599)
	if headers := v.Field("headers"); headers.Is(strict.Object, headerForm) {
		for _, name := range headers.Names() {
			e.text(headers.Field(name), headerField+strings.ToLower(name), "a text, or null if it is absent")
		}
	}
	if shadow := v.Field("shadow"); shadow.Is(strict.List, shadowForm) {
		var names []string
		for _, item := range shadow.List(rule.MaxRules, shadowForm) {
			names = append(names, e.name(item, e.shadow))
		}
		slices.Sort(names)
		e.add("shadow", shown(names))
	}
	if failed, ok := v.Field("failed").Bool(); ok {
		e.add("failed", strconv.FormatBool(failed))
	}
	if e.outcome == "" && len(e.fields) == 0 && v.Ok() {
		v.Fail("expects nothing; write " + expectForm)
	}
}

func (e expectReader) add(name, want string) {
	e.fields = append(e.fields, field{name: name, want: want})
}

// text reads a field that is a text, or null if it is to be absent.
func (e expectReader) text(v strict.Value, name, want string) {
	if v.Present() && v.Kind() == strict.Null {
		e.add(name, "")
	} else if text, ok := v.String(want); ok {
		e.add(name, text)
	}
}

// number reads a field of a mapping that is a whole number.
func (e expectReader) number(of strict.Value, name string, low, high int64) {
	if n, ok := of.Field(name).Int(low, high); ok {
		e.add(name, strconv.FormatInt(n, 10))
	}
}

// verdict reads a verdict and the name of its rule.
func (e expectReader) verdict(v strict.Value, outcome string, rules []string) {
	if v.Present() {
		e.outcome, e.rule = outcome, e.name(v, rules)
	}
}

// name reads the name of one of these rules.
func (e expectReader) name(v strict.Value, rules []string) string {
	if e.set == nil || v.Kind() == strict.String && slices.Contains(rules, v.Node().Text) {
		return v.Node().Text
	}
	if i, ok := e.set.Find(v.Node().Text); ok {
		v.Fail(strict.Quote(v.Node().Text) + " has mode: " + e.set.Rule(i).Mode.String() + "; write another rule")
	} else if len(rules) == 0 {
		v.Fail("there is no such rule; write another expectation")
	} else {
		v.OneOf("", rules)
	}
	return ""
}

func (e expectReader) key(v strict.Value) {
	parts := []strict.Value{v}
	if v.Kind() == strict.List {
		parts = v.List(rule.MaxParts, keyForm)
	}
	f := field{name: "key", values: []string{}}
	for _, part := range parts {
		text, _ := part.String(keyForm)
		f.values = append(f.values, text)
	}
	if f.want = strings.Join(f.values, "|"); v.Present() {
		e.fields = append(e.fields, f)
	}
}

// shown is a list as YAML has it.
func shown(values []string) string { return "[" + strings.Join(values, ", ") + "]" }
