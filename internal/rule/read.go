package rule

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Decode reads the compiled form of a set, as [Set.Encode] writes it. It is the
// rule language itself as JSON, so Decode takes every rules document written as
// JSON and checks it as strictly as any other. The error is a *[strict.Error] or
// [strict.Errors].
func Decode(doc []byte) (*Set, error) {
	node, err := strict.ParseJSON(doc)
	if err != nil {
		return nil, err
	}
	var errs strict.Errors
	s := Read(strict.Root(node, &errs))
	if s == nil {
		return nil, errs
	}
	return s, nil
}

// Read reads a rules document, which may be part of another one. Every mistake is
// reported in doc; the result is nil if there is one.
func Read(doc strict.Value) *Set {
	doc.Require("a mapping with rules")
	written, regions, revision := readDocument(doc)
	rules := normal(written)
	standing := slices.DeleteFunc(check(rules, regions), func(p problem) bool { return !p.stands(doc) })
	for _, p := range standing {
		doc.FailAt(p.path, p.text(doc))
	}
	if !doc.Ok() {
		return nil
	}
	s := compile(rules, regions)
	s.Revision = revision
	return s
}

// stands reports whether a problem is one of the document and not merely follows
// from a field that could not be read and has been reported.
func (p *problem) stands(doc strict.Value) bool {
	for _, path := range append(p.uses, p.path) {
		if doc.Touched(path) {
			return false
		}
	}
	return true
}

// text adds to a problem the line of the other place that it is about.
func (p *problem) text(doc strict.Value) string {
	if line := doc.Find(p.other).Line; p.other != "" && line > 0 {
		return p.reason + " (line " + strconv.Itoa(line) + ")"
	}
	return p.reason
}

func readDocument(doc strict.Value) (rules []Rule, regions Regions, revision uint64) {
	if !object(doc, documentFields) {
		return nil, nil, 0
	}
	if n := integer(doc.Field("revision"), revisionRange); n > 0 {
		revision = stated + uint64(n)
	}
	regions = readRegions(doc.Field("regions")).sorted()
	r := reader{client: Source{From: FromClientIP}, regions: regions}
	if v := doc.Field("client_ip"); v.Present() {
		r.client = r.clientIP(v)
	}
	v := doc.Field("rules")
	v.Require("a list of rules; [] for none")
	items := v.List(MaxRules, "a list of rules; [] for none")
	rules = make([]Rule, len(items))
	for i, item := range items {
		rules[i] = r.rule(item)
	}
	return rules, regions, revision
}

// reader turns a document into rules. It checks spelling and types; what the
// values mean is checked by check, for rules of every origin.
type reader struct {
	client  Source // the default of client_ip in rules
	regions Regions
}

func (d *reader) rule(v strict.Value) Rule {
	r := Rule{Limits: []Variant{{}}}
	if !object(v, ruleFields, reservedInRule...) {
		return r
	}
	if name := v.Field("name"); name.Require("a name of letters, digits, - and _") {
		r.Name, _ = name.String("a name")
	}
	r.Mode = enum[Mode](v.Field("mode"), modeNames)
	r.Match = d.match(v.Field("match"), matchFields)
	r.Key = d.key(v.Field("key"))
	spec := d.spec(v)
	r.Limits[0].Limit = d.limit(v.Field("limit"), spec)
	for _, o := range v.Field("overrides").List(MaxOverrides+MaxKeyLimits, "a list of overrides, such as [{ when: { header: { x-tier: gold } }, limit: 50/1m }]") {
		if o.Kind() == strict.Object && o.Field("key").Present() {
			r.Keys = append(r.Keys, d.keyLimit(o, spec))
			continue
		}
		if len(r.Keys) > 0 { // each has its place in the list by what stands before it
			o.Fail("stands behind an override with key; write those with key last: when goes before key")
			r.Keys = nil
			break
		}
		r.Limits = append(r.Limits, d.override(o, spec))
	}
	r.Cost = d.cost(v.Field("cost"))
	r.Scope = enum[Scope](v.Field("scope"), scopeNames)
	r.Fair = enum[Fair](v.Field("fair"), fairNames)
	r.Consistency = enum[lease.Consistency](v.Field("consistency"), consistencyNames)
	r.Overdraft = integer(v.Field("overdraft"), overdraftRange)
	d.onFailure(v.Field("on_failure"), &r)
	r.Timeout = period(v.Field("timeout"), "100ms")
	r.LeaseInterval = d.leaseInterval(v.Field("lease"))
	r.XRateLimit = enum[XRateLimit](v.Field("x_ratelimit"), xRateLimitNames)
	return r
}

// spec reads what all limits of a rule have in common.
func (d *reader) spec(v strict.Value) limit.Spec {
	spec := limit.Spec{
		Algorithm:   enum[limit.Algorithm](v.Field("algorithm"), algorithmNames),
		Align:       enum[limit.Align](v.Field("align"), alignNames),
		MinInterval: period(v.Field("min_interval"), "2s"),
	}
	spec.ChargeDenied, _ = v.Field("charge_denied").Bool()
	if lease := v.Field("lease"); lease.Kind() == strict.Object {
		spec.LeaseTTL = period(lease.Field("ttl"), "10s")
	}
	return spec
}

// leaseInterval reads the interval and checks the mapping that has it.
func (d *reader) leaseInterval(v strict.Value) limit.Micros {
	if !v.Present() || !object(v, leaseFields) {
		return 0
	}
	return period(v.Field("interval"), "100ms")
}

func (d *reader) cost(v strict.Value) Cost {
	if v.Kind() == strict.Int {
		return Cost{Default: integer(v, costRange)}
	}
	if !v.Present() || !v.Is(strict.Object, "a number of units, or { header: x-cost, default: 1, max: 100 }") || !object(v, costFields) {
		return Cost{}
	}
	c := Cost{Default: integer(v.Field("default"), costRange), Max: integer(v.Field("max"), costRange)}
	if header := v.Field("header"); header.Require("the header that states the cost, or write cost as a plain number") {
		c.Header, _ = header.String("a header name")
	}
	return c
}

const statusForms = "503 (our fault) or 429 (too many requests)"

// onFailure reads what a rule does on a failure, after its scope.
func (d *reader) onFailure(v strict.Value, r *Rule) {
	if !v.Present() {
		r.OnFailure = r.Scope.defaultOnFailure(d.regions)
		return
	}
	if v.Kind() != strict.Object {
		r.OnFailure = enum[lease.OnFailure](v, onFailureNames)
		return
	}
	if !object(v, onFailureFields) {
		return
	}
	if action := v.Field("action"); action.Require("allow, deny or local") {
		r.OnFailure = enum[lease.OnFailure](action, onFailureNames)
	}
	if status := v.Field("status"); status.Is(strict.Int, statusForms) {
		n, err := strconv.Atoi(status.Node().Text)
		if r.DenyStatus = n; err != nil || n == 0 { // 0 would be the default
			status.Fail(strict.Quote(status.Node().Text) + " is out of range; write " + statusForms)
		}
	}
	r.ExpectedHolders = integer(v.Field("expected_holders"), holdersRange)
}

// The functions below read a field that may be absent, as its zero value then.

func enum[T ~uint8](v strict.Value, names []string) T {
	i, _ := v.Enum(names...)
	return T(i)
}

func integer(v strict.Value, in span) int64 {
	n, _ := v.Int(in.low, in.high)
	return n
}

func period(v strict.Value, example string) limit.Micros {
	want := "a duration with its unit (ms, s, m, h, d), such as " + example
	if v.Kind() == strict.Int {
		v.Fail(v.Node().Text + " has no unit; write " + want)
		return 0
	}
	text, ok := v.String(want)
	if !ok {
		return 0
	}
	d, ok := parsePeriod(text)
	if !ok {
		v.Fail(strict.Quote(text) + " is not a duration; write " + want)
	} else if d == 0 {
		v.Fail(strict.Quote(text) + " is nothing; write a duration above 0, such as " + example + ", or leave the field out")
	}
	return d
}

// reserved is a field that people write and the language does not have there.
type reserved struct{ name, reason string }

// unsupported is a field of the language that this version does not have.
func unsupported(name, instead string) reserved {
	return reserved{name, "is not supported in this version; " + instead}
}

var (
	reservedInRule = []reserved{
		unsupported("percent", "leave it out, and use mode: shadow to try a rule"),
		unsupported("variants", "leave it out; overrides with when give some requests another limit"),
		{"burst", "is part of the limit; write it there, such as limit: { count: 5, per: 1m, burst: 10 }"},
	}
	reservedInPart = []reserved{
		{"path", "takes nothing, every request has one; write path alone, without braces"},
		{"method", "takes nothing, every request has one; write method alone, without braces"},
		unsupported("cookie", "write header with a header that your gateway derives from the cookie"),
		unsupported("jwt", "write header with a header that Envoy's jwt_authn filter copies the claim to"),
		unsupported("metadata", "write header with a header that carries the value"),
		unsupported("san", "write header with a header that carries the client certificate's name"),
		unsupported("route", "write path"),
		unsupported("host", "write match.hosts, one rule for each host"),
	}
)

// object checks that v is a mapping with known fields only.
func object(v strict.Value, known []string, others ...reserved) bool {
	if v.Kind() != strict.Object {
		return v.Object(known...)
	}
	for _, name := range v.Names() {
		if slices.Contains(known, name) {
			continue
		}
		if i := slices.IndexFunc(others, func(r reserved) bool { return r.name == name }); i >= 0 {
			v.FailName(name, others[i].reason)
		} else {
			v.Unknown(name, known)
		}
	}
	return true
}
