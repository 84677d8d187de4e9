package rule

import (
	"sort"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// encode writes rules, with their defaults filled in, in the one canonical form:
// JSON without white space, fields in the order of ruleFields, nothing that is at
// its default.
func encode(rules []Rule, regions Regions, seed uint64) []byte {
	w := writer{}
	w.open('{').field("rules").open('[')
	for i := range rules {
		w.rule(&rules[i], regions)
	}
	w.close(']')
	w.regions(regions)
	w.intField("seed", int64(seed), 0)
	w.close('}')
	return w.buf
}

// writer appends JSON; every value writes the comma before it when it needs one.
// Four of its methods are not inlined: that would make the filter 36 kB larger.
type writer struct {
	buf []byte
}

//go:noinline
func (w *writer) comma() {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' && w.buf[n-1] != ':' {
		w.buf = append(w.buf, ',')
	}
}

//go:noinline
func (w *writer) open(bracket byte) *writer {
	w.comma()
	w.buf = append(w.buf, bracket)
	return w
}

//go:noinline
func (w *writer) close(bracket byte) *writer {
	w.buf = append(w.buf, bracket)
	return w
}

//go:noinline
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

func (w *writer) stringsField(name string, list []string) {
	if len(list) > 0 {
		w.field(name).strings(list)
	}
}

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
		w.field(name).string(FormatPeriod(value))
	}
}

func (w *writer) rule(r *Rule, regions Regions) {
	w.open('{').field("name").string(r.Name)
	w.enumField("mode", r.Mode.String(), enforce.String())
	w.match("match", &r.Match)
	if r.Mode == Exempt {
		w.stringsField("exempts", r.Exempts)
		w.close('}')
		return
	}
	if r.Shed != nil {
		if len(r.Key) > 0 {
			w.key(r.Key)
		}
		w.shed(r.Shed)
		w.response(r)
		w.close('}')
		return
	}
	spec := r.Limits[0].Limit
	w.key(r.Key)
	if r.Hash {
		w.field("hash").bool(true)
	}
	w.field("limit").limit(spec)
	w.overrides(r.Limits[1:])
	w.enumField("algorithm", spec.Algorithm.String(), r.Scope.DefaultAlgorithm().String())
	w.enumField("align", spec.Align.String(), limit.AlignClock.String())
	w.periodField("min_interval", spec.MinInterval, 0)
	if spec.ChargeRejected {
		w.field("charge_rejected").bool(true)
	}
	w.cost(r.Cost)
	w.count(&r.Count)
	if spec.Block > 0 {
		w.field("on_limit").open('{').field("block").string(FormatPeriod(spec.Block))
		w.close('}')
	}
	w.enumField("scope", r.Scope.String(), ScopeRegion.String())
	w.enumField("sharing", r.Sharing.String(), SharingProportional.String())
	if r.Consistency != lease.Leased || !r.SmallExact {
		w.field("consistency").string(r.Consistency.String())
	}
	if r.Consistency == lease.Optimistic {
		w.intField("overdraft", r.Overdraft, defaultOverdraft)
	}
	w.onFailure(r, r.Scope.DefaultOnFailure(regions))
	w.periodField("timeout", r.Timeout, r.Scope.defaultTimeout())
	w.lease(r.LeaseInterval, spec.LeaseTTL)
	w.response(r)
	w.close('}')
}

func (w *writer) match(name string, m *Match) {
	if !m.Empty() {
		w.field(name).condition(m)
	}
}

func (w *writer) condition(m *Match) {
	w.open('{')
	w.stringsField("method", m.Methods)
	w.stringsField("host", m.Hosts)
	if len(m.Paths) > 0 {
		w.field("path").open('[')
		for _, t := range m.Paths {
			w.text(t)
		}
		w.close(']')
	}
	for _, f := range m.Fields() {
		w.named(f.From.String(), *f.List)
	}
	if len(m.Clients) > 0 {
		w.field("client_ip").open('[')
		for _, p := range m.Clients {
			w.string(p.String())
		}
		w.close(']')
	}
	w.intField("trusted_hops", int64(m.TrustedHops), 0)
	w.stringsField("region", m.Regions)
	w.percent(m.Percent)
	if m.Until != 0 {
		w.field("until").string(FormatTime(m.Until))
	}
	if len(m.Not) > 0 {
		w.field("not").open('[')
		for i := range m.Not {
			w.condition(&m.Not[i])
		}
		w.close(']')
	}
	if m.Ignore&IgnoreCase != 0 {
		w.field("ignore_case").bool(true)
	}
	if m.Ignore&IgnoreTrailingSlash != 0 {
		w.field("trailing_slash").string("ignore")
	}
	if m.Ignore&IgnorePathParameters != 0 {
		w.field("path_parameters").string("ignore")
	}
	w.close('}')
}

func (w *writer) named(field string, list []Named) {
	if len(list) == 0 {
		return
	}
	w.field(field).open('{')
	for _, n := range list {
		w.field(n.Name).text(n.Text)
	}
	w.close('}')
}

// percent writes how many percent, or which of them.
func (w *writer) percent(p Percent) {
	switch {
	case p == Percent{}:
	case p.From == 0:
		w.field("percent").int(int64(p.To))
	default:
		w.field("percent").open('{').field("from").int(int64(p.From))
		w.field("to").int(int64(p.To))
		w.close('}')
	}
}

func (w *writer) text(t Text) {
	switch t.Op {
	case OpExact:
		w.string(t.Arg)
		return
	case OpPresent, OpAbsent:
		w.open('{').field(t.Op.String()).bool(t.Op == OpPresent)
	default:
		w.open('{').field(t.Op.String()).string(t.Arg)
	}
	w.close('}')
}

func (w *writer) key(key []Part) {
	w.field("key").open('[')
	for _, p := range key {
		w.part(p)
	}
	w.close(']')
}

// part writes the first source and the others as its else.
func (w *writer) part(p Part) {
	s := p[0]
	plain := !s.From.Named() && (s.From != FromClientIP || s == Source{IPv6Prefix: defaultIPv6Prefix})
	if plain && len(p) == 1 {
		w.string(s.From.String())
		return
	}
	w.open('{').field(s.From.String())
	switch s.From {
	case FromClientIP:
		w.open('{')
		w.intField("trusted_hops", int64(s.TrustedHops), 0)
		w.intField("ipv6_prefix", int64(s.IPv6Prefix), defaultIPv6Prefix)
		w.close('}')
	case FromHost, FromSAN, FromRoute, FromRegion:
		w.open('{').close('}')
	case FromMetadata:
		w.metadata(s.Name)
	default:
		w.string(s.Name)
	}
	if len(p) > 1 {
		w.field("else").part(p[1:])
	}
	w.close('}')
}

func (w *writer) metadata(name string) {
	namespace, key, _ := strings.Cut(name, ":")
	w.open('{').field("namespace").string(namespace)
	w.field("key").string(key)
	w.close('}')
}

func (w *writer) limit(spec limit.Spec) {
	switch {
	case spec.Algorithm == limit.Concurrency:
		w.int(spec.Count)
	case spec.Calendar != nil:
		c := spec.Calendar
		w.open('{').field("count").int(spec.Count)
		w.field("per").string(c.Per.String())
		w.field("zone").string(c.Zone)
		switch c.Per {
		case limit.PerMonth:
			w.field("anchor").int(int64(c.Anchor))
		case limit.PerWeek:
			w.field("anchor").string(Weekdays[c.Anchor-1])
		}
		w.close('}')
	case spec.Burst == 0 || spec.Burst == spec.Count:
		w.string(strconv.FormatInt(spec.Count, 10) + "/" + FormatPeriod(spec.Period)) // 5/1m
	default:
		w.open('{').field("count").int(spec.Count)
		w.field("per").string(FormatPeriod(spec.Period))
		w.field("burst").int(spec.Burst)
		w.close('}')
	}
}

// FormatLimit writes a limit as a rule states it: 5/1m, or its JSON.
func FormatLimit(spec limit.Spec) string {
	var w writer
	w.limit(spec)
	return strings.Trim(string(w.buf), `"`)
}

func (w *writer) overrides(overrides []Variant) {
	if len(overrides) == 0 {
		return
	}
	w.field("overrides").open('[')
	for _, v := range overrides {
		w.open('{').enumField("name", v.Name, "")
		w.match("when", &v.When)
		if w.field("limit"); v.Unlimited {
			w.string(Unlimited)
		} else {
			w.limit(v.Limit)
		}
		w.close('}')
	}
	w.close(']')
}

func (w *writer) cost(c Cost) {
	if !c.Actual.Stated() {
		w.estimate("cost", c, 1)
		return
	}
	w.field("cost").open('{')
	w.estimate("estimate", c, 0)
	w.field("actual").open('{').field(c.Actual.From.String())
	w.source(c.Actual.From == settle.FromMetadata, c.Actual.Name)
	w.close('}')
	w.field("max").int(c.Actual.Max)
	w.periodField("max_stream", c.Actual.MaxStream, settle.DefaultMaxStream)
	w.close('}')
}

// estimate writes what is known with the request; a number only if it is not def.
func (w *writer) estimate(field string, c Cost, def int64) {
	if c.By.Name == "" {
		w.intField(field, c.Default, def)
		return
	}
	w.field(field).open('{').field(c.By.From.String())
	w.source(c.By.From == FromMetadata, c.By.Name)
	w.intField("default", c.Default, 1)
	w.field("max").int(c.Max)
	w.close('}')
}

// source writes the name of a header, or of metadata.
func (w *writer) source(metadata bool, name string) {
	if metadata {
		w.metadata(name)
	} else {
		w.string(name)
	}
}

func (w *writer) count(c *settle.Count) {
	if !c.ByResponse() {
		return
	}
	w.field("count").open('{')
	w.statuses("status", c.Status)
	w.statuses("grpc_status", c.GRPCStatus)
	w.close('}')
}

func (w *writer) statuses(field string, all []int) {
	if len(all) == 0 {
		return
	}
	w.field(field).open('[')
	for _, s := range all {
		if field == "status" && s < 100 {
			w.string(settle.Classes[s])
		} else {
			w.int(int64(s))
		}
	}
	w.close(']')
}

func (w *writer) onFailure(r *Rule, def lease.OnFailure) {
	status, pops := int64(defaultDenyStatus), int64(defaultExpectedPoPs)
	switch r.OnFailure {
	case lease.FailureDeny:
		status = int64(r.DenyStatus)
	case lease.FailureLocal:
		pops = r.ExpectedPoPs
	}
	if status == defaultDenyStatus && pops == defaultExpectedPoPs {
		w.enumField("on_failure", r.OnFailure.String(), def.String())
		return
	}
	w.field("on_failure").open('{').field("action").string(r.OnFailure.String())
	w.intField("status", status, defaultDenyStatus)
	w.intField("expected_pops", pops, defaultExpectedPoPs)
	w.close('}')
}

func (w *writer) lease(interval, ttl limit.Micros) {
	if interval == DefaultLeaseInterval && ttl == limit.DefaultLeaseTTL {
		return
	}
	w.field("lease").open('{')
	w.periodField("interval", interval, DefaultLeaseInterval)
	w.periodField("ttl", ttl, limit.DefaultLeaseTTL)
	w.close('}')
}

// response writes what clients see of the rule.
func (w *writer) response(r *Rule) {
	switch r.Headers {
	case Draft:
	case HeadersOff:
		w.field("headers").string("off")
	default:
		w.field("headers").open('[')
		for i, name := range HeaderWords {
			if r.Headers>>i&1 == 1 {
				w.string(name)
			}
		}
		w.close(']')
	}
	if r.Rejection != rejection.Default {
		w.field("rejection").open('{')
		w.intField("status", int64(r.Rejection.Status), int64(rejection.Default.Status))
		w.enumField("body", r.Rejection.Body, "")
		w.enumField("content_type", r.Rejection.ContentType, "")
		w.intField("grpc_status", int64(r.Rejection.GRPCStatus), int64(rejection.Default.GRPCStatus))
		w.close('}')
	}
	w.intField("retry_jitter", r.RetryJitter, 0)
	if r.HideKeys {
		w.field("hide_keys").bool(true)
	}
}

func (w *writer) regions(rs Regions) {
	if len(rs) == 0 {
		return
	}
	w.field("regions").open('{')
	for _, r := range rs {
		w.field(r.Name).int(r.Weight)
	}
	w.close('}')
}

// encodeKeys writes the overrides by key in one canonical form, which only names them; nil
// if there are none.
func encodeKeys(rules []Rule) []byte {
	var w writer
	for i := range rules {
		r := &rules[i]
		if len(r.Keys) == 0 {
			continue
		}
		lines := make([]string, 0, len(r.Keys))
		for j := range r.Keys {
			own, one := &r.Keys[j], writer{}
			one.open('[').string(string(r.KeyOf(own.Key)))
			one.limit(own.Limit)
			if own.Unlimited {
				one.string(Unlimited)
			}
			if own.Name != "" || own.Until != 0 {
				one.string(own.Name)
				one.int(int64(own.Until))
			}
			lines = append(lines, string(one.close(']').buf))
		}
		sort.Sort(inOrder(lines))
		w.string(r.Name)
		w.strings(lines)
	}
	return w.buf
}
