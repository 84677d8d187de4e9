package read

import (
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// match reads a condition.
func (d *reader) match(v strict.Value) (m rule.Match) {
	if !v.Object(matchFields...) {
		return m
	}
	m = d.condition(v)
	for _, not := range oneOrMore(v.Field("not")) {
		m.Not = append(m.Not, d.not(not))
	}
	return m
}

const notForms = "a condition such as { path: /healthz }, or a list of them"

// not reads a condition that must not hold.
func (d *reader) not(v strict.Value) rule.Match {
	if !v.Is(strict.Object, notForms) || !v.Object(notFields...) {
		return rule.Match{}
	}
	nonEmpty(v)
	return d.condition(v)
}

// condition reads all of a condition but its not.
func (d *reader) condition(v strict.Value) (m rule.Match) {
	m.Methods = stringOrList(v.Field("method"), "a method such as POST, or a list of them")
	m.Hosts = stringOrList(v.Field("host"), "a host such as api.example.com or *.example.com, or a list of them")
	for _, path := range oneOrMore(v.Field("path")) {
		m.Paths = append(m.Paths, d.text(path, pathFields, pathForms))
	}
	for _, f := range m.Fields() {
		*f.List = d.named(v.Field(f.From.String()))
	}
	d.clients(v, &m)
	m.Regions = stringOrList(v.Field("region"), "a region such as eu, or a list of them")
	m.Percent = percent(v.Field("percent"))
	m.Until = Time(v.Field("until"))
	if ignore, _ := v.Field("ignore_case").Bool(); ignore {
		m.Ignore |= rule.IgnoreCase
	}
	if ignore, _ := v.Field("trailing_slash").Enum("exact", "ignore"); ignore == 1 {
		m.Ignore |= rule.IgnoreTrailingSlash
	}
	if ignore, _ := v.Field("path_parameters").Enum("exact", "ignore"); ignore == 1 {
		m.Ignore |= rule.IgnorePathParameters
	}
	return m
}

// named reads a mapping of names to what their values must be.
func (d *reader) named(v strict.Value) (list []rule.Named) {
	if !v.Is(strict.Object, "a mapping of names to values, such as { name: gold }") {
		return nil
	}
	nonEmpty(v)
	for _, name := range v.Names() {
		list = append(list, rule.Named{Name: name, Text: d.text(v.Field(name), namedFields, namedForms)})
	}
	return list
}

// clients reads networks, and how the client is known if not as the document states.
func (d *reader) clients(v strict.Value, m *rule.Match) {
	for _, network := range oneOrMore(v.Field("client_ip")) {
		if network.Is(strict.String, networkForms) {
			text := network.Node().Text
			p, ok := ip.ParsePrefix(text)
			if !ok {
				network.Fail(strict.Quote(text) + " is no network; write " + networkForms)
			}
			m.Clients = append(m.Clients, p)
		}
		m.TrustedHops = d.client.TrustedHops
	}
	if hops := v.Field("trusted_hops"); hops.Present() {
		m.TrustedHops = int(integer(hops, check.HopsRange))
	}
}

const networkForms = "a network such as 10.0.0.0/8 or fd00::/8, an address, or a list of them"

// percent reads how many percent of the keys, or which: { from: 20, to: 100 }.
func percent(v strict.Value) rule.Percent {
	switch {
	case v.Kind() == strict.Int:
		return rule.Percent{To: int(integer(v, check.PercentRange))}
	case !v.Is(strict.Object, "how many percent of the keys, such as 10") || !v.Object(percentFields...):
		return rule.Percent{}
	}
	to := v.Field("to")
	to.Require("where the range ends, such as { from: 20, to: 100 }")
	return rule.Percent{From: int(integer(v.Field("from"), check.Range{Low: 0, High: 99})), To: int(integer(to, check.Range{Low: 1, High: 100}))}
}

// Time reads a time in µs since 1970; 0: it is absent or a mistake.
func Time(v strict.Value) limit.Micros {
	const want = "a time such as 2026-12-01T00:00:00Z"
	if !v.Is(strict.String, want) {
		return 0
	}
	text := v.Node().Text
	t, ok := rule.ParseTime(text)
	if !ok || t == 0 { // 0 would be no end
		v.Fail(strict.Quote(text) + " is no time in UTC and whole seconds; write " + want)
		return 0
	}
	return t
}

// oneOrMore are the items of a list; what is no list stands for one of itself alone.
func oneOrMore(v strict.Value) []strict.Value {
	switch {
	case !v.Present():
		return nil
	case v.Kind() != strict.List:
		return []strict.Value{v}
	}
	nonEmpty(v)
	return v.List(rule.MaxAlternatives, "")
}

// nonEmpty reports a list or mapping that holds for nothing, or for everything:
// people mean both by it.
//
//go:noinline
func nonEmpty(v strict.Value) {
	if len(v.Node().Items)+len(v.Node().Fields) == 0 {
		v.Fail("is empty; leave it out to match everything")
	}
}

func stringOrList(v strict.Value, want string) (out []string) {
	for _, one := range oneOrMore(v) {
		s, _ := one.String(want)
		out = append(out, s)
	}
	return out
}

const (
	pathForms  = "a path such as /login, or { prefix: /v1/ }, or { template: '/users/{id}' }, or { regex: '/users/[0-9]+' }"
	namedForms = "a value, or one of { prefix: v }, { regex: 'v[0-9]+' }, { present: true }"
)

// text reads a string, or a mapping with exactly one of exact, prefix, regex, for
// paths template and for headers present.
func (d *reader) text(v strict.Value, fields []string, forms string) rule.Text {
	if v.Kind() != strict.Object {
		s, _ := v.String(forms)
		return rule.Text{Op: rule.OpExact, Arg: s}
	}
	if !v.Object(fields...) {
		return rule.Text{}
	}
	if len(v.Names()) != 1 {
		v.Fail("has " + strconv.Itoa(len(v.Names())) + " fields; write " + forms)
		return rule.Text{}
	}
	name := v.Names()[0]
	field := v.Field(name)
	if name == rule.OpPresent.String() {
		if present, _ := field.Bool(); present {
			return rule.Text{Op: rule.OpPresent}
		}
		return rule.Text{Op: rule.OpAbsent}
	}
	op := rule.ParseWord[rule.Op](name)
	s, _ := field.String([...]string{rule.OpExact: forms, rule.OpPrefix: "a prefix", rule.OpRegex: "a regular expression", rule.OpTemplate: "a template"}[op])
	return rule.Text{Op: op, Arg: s}
}
