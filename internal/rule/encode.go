package rule

import (
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// encode writes rules, with their defaults filled in, in the one canonical form:
// JSON without white space, fields in the order of ruleFields, nothing that is at
// its default.
func encode(rules []Rule, regions Regions) []byte {
	w := writer{}
	w.open('{').field("rules").open('[')
	for i := range rules {
		w.rule(&rules[i], regions)
	}
	w.close(']')
	w.regions(regions)
	w.close('}')
	return w.buf
}

// writer appends JSON; every value writes the comma before it when it needs one.
type writer struct {
	buf []byte
}

func (w *writer) comma() {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' && w.buf[n-1] != ':' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) open(bracket byte) *writer {
	w.comma()
	w.buf = append(w.buf, bracket)
	return w
}

func (w *writer) close(bracket byte) *writer {
	w.buf = append(w.buf, bracket)
	return w
}

func (w *writer) field(name string) *writer {
	w.string(name)
	w.buf = append(w.buf, ':')
	return w
}

func (w *writer) string(s string) {
	w.comma()
	w.buf = strict.AppendString(w.buf, s)
}

func (w *writer) int(n int64) {
	w.comma()
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

func (w *writer) bool(b bool) {
	w.comma()
	w.buf = strconv.AppendBool(w.buf, b)
}

func (w *writer) strings(list []string) {
	w.open('[')
	for _, s := range list {
		w.string(s)
	}
	w.close(']')
}

// The functions below write a field unless it is at its default.

func (w *writer) enumField(name string, value, def string) {
	if value != def {
		w.field(name).string(value)
	}
}

func (w *writer) intField(name string, value, def int64) {
	if value != def {
		w.field(name).int(value)
	}
}

func (w *writer) periodField(name string, value, def limit.Micros) {
	if value != def {
		w.field(name).string(formatPeriod(value))
	}
}

func (w *writer) rule(r *Rule, regions Regions) {
	spec := r.Limits[0].Limit
	w.open('{').field("name").string(r.Name)
	w.enumField("mode", r.Mode.String(), Enforce.String())
	w.match("match", r.Match, matchFields)
	w.field("key").open('[')
	for _, p := range r.Key {
		w.part(p)
	}
	w.close(']')
	w.field("limit").limit(spec)
	w.overrides(r.Limits[1:])
	w.enumField("algorithm", algorithmNames[spec.Algorithm], algorithmNames[limit.TokenBucket])
	w.enumField("align", alignNames[spec.Align], alignNames[limit.AlignClock])
	w.periodField("min_interval", spec.MinInterval, 0)
	if spec.ChargeDenied {
		w.field("charge_denied").bool(true)
	}
	w.cost(r.Cost)
	w.enumField("scope", r.Scope.String(), ScopeRegion.String())
	w.enumField("fair", r.Fair.String(), FairDemand.String())
	w.enumField("consistency", r.Consistency.String(), lease.Leased.String())
	if r.Consistency == lease.Optimistic {
		w.intField("overdraft", r.Overdraft, DefaultOverdraft)
	}
	w.onFailure(r, r.Scope.defaultOnFailure(regions))
	w.periodField("timeout", r.Timeout, r.Scope.defaultTimeout())
	w.lease(r.LeaseInterval, spec.LeaseTTL)
	w.enumField("x_ratelimit", r.XRateLimit.String(), XRateLimitOff.String())
	w.close('}')
}

func (w *writer) match(name string, m Match, fields []string) {
	if m.empty() {
		return
	}
	w.field(name).open('{')
	if len(m.Methods) > 0 {
		w.field(fields[0]).strings(m.Methods)
	}
	if len(m.Hosts) > 0 {
		w.field(fields[1]).strings(m.Hosts)
	}
	if len(m.Paths) > 0 {
		w.field(fields[2]).open('[')
		for _, t := range m.Paths {
			w.text(t)
		}
		w.close(']')
	}
	if len(m.Headers) > 0 {
		w.field(fields[3]).open('{')
		for _, h := range m.Headers {
			w.field(h.Name).text(h.Text)
		}
		w.close('}')
	}
	if m.IgnoreCase {
		w.field(fields[4]).bool(true)
	}
	if m.IgnoreTrailingSlash {
		w.field(fields[5]).string(spellingNames[1])
	}
	if m.IgnorePathParameters {
		w.field(fields[6]).string(spellingNames[1])
	}
	w.close('}')
}

func (w *writer) text(t Text) {
	switch t.Op {
	case OpExact:
		w.string(t.Arg)
		return
	case OpPresent, OpAbsent:
		w.open('{').field(opNames[t.Op]).bool(t.Op == OpPresent)
	default:
		w.open('{').field(opNames[t.Op]).string(t.Arg)
	}
	w.close('}')
}

// part writes the first source and the others as its else.
func (w *writer) part(p Part) {
	s := p[0]
	plain := s.From == FromPath || s.From == FromMethod || s.From == FromClientIP && s == (Source{IPv6Prefix: DefaultIPv6Prefix})
	if plain && len(p) == 1 {
		w.string(s.From.String())
		return
	}
	w.open('{').field(s.From.String())
	switch s.From {
	case FromClientIP:
		w.open('{')
		w.intField("trusted_hops", int64(s.TrustedHops), 0)
		w.intField("ipv6_prefix", int64(s.IPv6Prefix), DefaultIPv6Prefix)
		w.close('}')
	default:
		w.string(s.Name)
	}
	if len(p) > 1 {
		w.field("else").part(p[1:])
	}
	w.close('}')
}

func (w *writer) limit(spec limit.Spec) {
	switch {
	case spec.Algorithm == limit.Concurrency:
		w.int(spec.Count)
	case spec.Burst == 0 || spec.Burst == spec.Count:
		w.string(strconv.FormatInt(spec.Count, 10) + "/" + formatPeriod(spec.Period)) // 5/1m
	default:
		w.open('{').field("count").int(spec.Count)
		w.field("per").string(formatPeriod(spec.Period))
		w.field("burst").int(spec.Burst)
		w.close('}')
	}
}

func (w *writer) overrides(overrides []Variant) {
	if len(overrides) == 0 {
		return
	}
	w.field("overrides").open('[')
	for _, v := range overrides {
		w.open('{').enumField("name", v.Name, "")
		w.match("when", v.When, whenFields)
		w.field("limit").limit(v.Limit)
		w.close('}')
	}
	w.close(']')
}

func (w *writer) cost(c Cost) {
	switch {
	case c.Header == "":
		w.intField("cost", c.Default, 1)
	default:
		w.field("cost").open('{').field("header").string(c.Header)
		w.intField("default", c.Default, 1)
		w.field("max").int(c.Max)
		w.close('}')
	}
}

func (w *writer) onFailure(r *Rule, def lease.OnFailure) {
	status, holders := int64(DefaultDenyStatus), int64(DefaultExpectedHolders)
	switch r.OnFailure {
	case lease.FailureDeny:
		status = int64(r.DenyStatus)
	case lease.FailureLocal:
		holders = r.ExpectedHolders
	}
	if status == DefaultDenyStatus && holders == DefaultExpectedHolders {
		w.enumField("on_failure", r.OnFailure.String(), def.String())
		return
	}
	w.field("on_failure").open('{').field("action").string(r.OnFailure.String())
	w.intField("status", status, DefaultDenyStatus)
	w.intField("expected_holders", holders, DefaultExpectedHolders)
	w.close('}')
}

func (w *writer) lease(interval, ttl limit.Micros) {
	if interval == DefaultLeaseInterval && ttl == DefaultLeaseTTL {
		return
	}
	w.field("lease").open('{')
	w.periodField("interval", interval, DefaultLeaseInterval)
	w.periodField("ttl", ttl, DefaultLeaseTTL)
	w.close('}')
}
