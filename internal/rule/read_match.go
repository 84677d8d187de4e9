package rule

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// match reads a condition; fields are matchFields or whenFields.
func (d *reader) match(v strict.Value, fields []string) Match {
	if !v.Present() || !object(v, fields) {
		return Match{}
	}
	m := Match{
		Methods: stringOrList(v.Field(fields[0]), "a method such as POST, or a list of them"),
		Hosts:   stringOrList(v.Field(fields[1]), "a host such as api.example.com or *.example.com, or a list of them"),
	}
	if path := v.Field(fields[2]); path.Kind() == strict.List {
		for _, item := range path.List(MaxAlternatives, "") {
			m.Paths = append(m.Paths, d.text(item, pathFields, pathForms))
		}
		nonEmpty(path)
	} else if path.Present() {
		m.Paths = []Text{d.text(path, pathFields, pathForms)}
	}
	headers := v.Field(fields[3])
	if headers.Is(strict.Object, "a mapping of header names to values, such as { x-tier: gold }") {
		nonEmpty(headers)
		for _, name := range headers.Names() {
			m.Headers = append(m.Headers, HeaderMatch{name, d.text(headers.Field(name), headerFields, headerForms)})
		}
	}
	m.IgnoreCase, _ = v.Field(fields[4]).Bool()
	m.IgnoreTrailingSlash = enum[uint8](v.Field(fields[5]), spellingNames) == 1
	m.IgnorePathParameters = enum[uint8](v.Field(fields[6]), spellingNames) == 1
	return m
}

// nonEmpty reports a list or mapping that holds for nothing, or for everything:
// people mean both by it.
func nonEmpty(v strict.Value) {
	if len(v.Node().Items)+len(v.Node().Fields) == 0 {
		v.Fail("is empty; leave it out to match everything")
	}
}

func stringOrList(v strict.Value, want string) []string {
	if v.Kind() == strict.String {
		s, _ := v.String(want)
		return []string{s}
	}
	var out []string
	for _, item := range v.List(MaxAlternatives, want) {
		s, _ := item.String(want)
		out = append(out, s)
	}
	if v.Kind() == strict.List {
		nonEmpty(v)
	}
	return out
}

const (
	pathForms   = "a path such as /login, or { prefix: /v1/ }, or { template: '/users/{id}' }, or { regex: '/users/[0-9]+' }"
	headerForms = "a value, or one of { prefix: v }, { regex: 'v[0-9]+' }, { present: true }"
)

// text reads a string, or a mapping with exactly one of exact, prefix, regex, for
// paths template and for headers present.
func (d *reader) text(v strict.Value, fields []string, forms string) Text {
	if v.Kind() != strict.Object {
		s, _ := v.String(forms)
		return Text{Op: OpExact, Arg: s}
	}
	if !object(v, fields) {
		return Text{}
	}
	if len(v.Names()) != 1 {
		v.Fail("has " + strconv.Itoa(len(v.Names())) + " fields; write " + forms)
		return Text{}
	}
	name := v.Names()[0]
	field := v.Field(name)
	if name == opNames[OpPresent] {
		if present, _ := field.Bool(); present {
			return Text{Op: OpPresent}
		}
		return Text{Op: OpAbsent}
	}
	op := Op(max(0, slices.Index(opNames, name)))
	s, _ := field.String([...]string{OpExact: forms, OpPrefix: "a prefix", OpRegex: "a regular expression", OpTemplate: "a template"}[op])
	return Text{op, s}
}

const keyForms = "[client_ip] for a limit per client, [] for one limit that all requests share"

func (d *reader) key(v strict.Value) []Part {
	v.Require(keyForms)
	var key []Part
	for _, item := range v.List(MaxParts, keyForms) {
		key = append(key, d.part(item))
	}
	return key
}

// part reads a part of a key and, behind it, its else.
func (d *reader) part(v strict.Value) Part {
	var p Part
	for v.Present() {
		if len(p) == MaxSources {
			v.Fail("is one else too many; write at most " + strconv.Itoa(MaxSources-1))
			break
		}
		s, next := d.source(v)
		p, v = append(p, s), next
	}
	return p
}

const sourceForms = "client_ip, path, method, { header: x-user-id }, { query: api_key } or { const: text }"

// source reads one source of a part and returns its else, if any. One that cannot
// be read becomes client_ip, in which nothing else can be wrong.
func (d *reader) source(v strict.Value) (Source, strict.Value) {
	if v.Kind() == strict.String {
		return d.plainSource(v), v.Field("else")
	}
	if !v.Is(strict.Object, sourceForms) || !object(v, partFields, reservedInPart...) {
		return Source{}, strict.Value{}
	}
	out, found := Source{}, 0
	for _, name := range v.Names() {
		field := v.Field(name)
		switch name {
		case "client_ip":
			out = d.clientIP(field)
		case "header":
			out = named(FromHeader, field, "a header name")
		case "query":
			out = named(FromQuery, field, "the name of a query parameter")
		case "const":
			out = named(FromConst, field, "a text")
		default:
			continue // else, or already reported
		}
		found++
	}
	if found != 1 && v.Ok() {
		v.Fail("has " + strconv.Itoa(found) + " sources; write one of " + sourceForms + ", and else for what to use without it")
	}
	return out, v.Field("else")
}

func named(from From, v strict.Value, want string) Source {
	name, _ := v.String(want)
	return Source{From: from, Name: name}
}

func (d *reader) plainSource(v strict.Value) Source {
	switch text := v.Node().Text; text {
	case "client_ip":
		return d.client
	case "path":
		return Source{From: FromPath}
	case "method":
		return Source{From: FromMethod}
	default:
		reason := strict.Quote(text) + " is no key part; write " + sourceForms
		if near := strict.Nearest(text, fromNames); near != "" {
			reason += " (did you mean " + near + "?)"
		}
		v.Fail(reason)
		return Source{}
	}
}

// clientIP reads { trusted_hops, ipv6_prefix } on top of the document's own.
func (d *reader) clientIP(v strict.Value) Source {
	out := d.client
	if !object(v, clientIPFields) {
		return out
	}
	if hops := v.Field("trusted_hops"); hops.Present() {
		out.TrustedHops = int(integer(hops, hopsRange))
	}
	if prefix := v.Field("ipv6_prefix"); prefix.Present() {
		out.IPv6Prefix = int(integer(prefix, prefixRange))
	}
	return out
}
