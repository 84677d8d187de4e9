package lint

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/shed"
)

// clientHeaders are set by every client as it likes, or claim what only a trusted proxy knows.
var clientHeaders = []string{"accept", "accept-language", "cf-connecting-ip", "fastly-client-ip", "forwarded", "origin", "referer",
	"true-client-ip", "user-agent", "x-client-ip", "x-forwarded-for", "x-real-ip", "x-request-id"}

// key checks where the parts of the key come from.
func (l *linter) key() {
	for i, part := range l.rule.Key {
		field := fmt.Sprintf("key[%d]", i)
		for _, s := range part {
			if s.From == rule.FromHeader && slices.Contains(clientHeaders, s.Name) {
				l.warn("client-header", field, "every client can send another %s with each request and has no limit then; write client_ip (trusted_hops for proxies), or a header that Envoy sets", s.Name)
			}
		}
		if last := part[len(part)-1]; slices.Contains(fromClients, last.From) {
			l.warn("key-without-else", field, "a request without this %s is not limited by the rule at all; write else: client_ip behind it", last.From)
		}
	}
}

// fromClients are the sources that a client can leave out.
var fromClients = []rule.From{rule.FromHeader, rule.FromQuery, rule.FromCookie, rule.FromClaim, rule.FromMetadata, rule.FromSAN}

// match checks whom the rule is for.
func (l *linter) match(regions rule.Regions) {
	m := &l.rule.Match
	l.condition("match", m)
	for i := range m.Not {
		l.chosen("match.not", &m.Not[i])
		if Covers(&m.Not[i], m) {
			l.warn("never-matches", "match.not", "holds for every request for which the rest of match holds, so the rule never applies; leave it out")
		}
	}
	for _, name := range m.Regions {
		if len(regions) > 0 && !slices.ContainsFunc(regions, func(r rule.Region) bool { return r.Name == name }) {
			l.warn("never-matches", "match.region", "%s is not among regions at the top of the document; write one of these, or add it there", name)
		}
	}
}

// condition checks what all conditions may have.
func (l *linter) condition(field string, m *rule.Match) {
	for _, h := range m.Headers {
		if slices.Contains(clientHeaders, h.Name) {
			l.warn("client-header", field+".header."+h.Name, "every client chooses its %s and with it whether this applies; write a header that Envoy sets", h.Name)
		}
	}
	l.over(strings.TrimSuffix(field, ".when"), m.Until)
}

// over warns of an override or a candidate that has ended.
func (l *linter) over(field string, until limit.Micros) {
	if until > 0 && int64(until) <= l.now.UnixMicro() {
		l.warn("over", field, "ended at %s; remove it", rule.FormatTime(until))
	}
}

// chosen checks that no client chooses by what it sends that it has no limit.
func (l *linter) chosen(field string, m *rule.Match) {
	if byClient(m) {
		l.warn("client-header", field, "every client chooses by what it sends that it has no limit; let Envoy set the header and remove it from what clients send, or match client_ip or claim")
	}
}

// byClient reports whether a client chooses by what it sends that a condition holds.
func byClient(m *rule.Match) bool {
	return len(m.Headers)+len(m.Queries)+len(m.Cookies) > 0 && len(m.Clients)+len(m.Claims)+len(m.Metadata) == 0
}

// classes checks the classes of a rule that sheds load.
func (l *linter) classes() {
	for i := range l.rule.Shed.Classes {
		c, field := &l.rule.Shed.Classes[i], fmt.Sprintf("shed.classes[%d].match", i)
		l.condition(field, &c.When)
		if m := &c.When; c.Class == shed.Critical && (byClient(m) || slices.ContainsFunc(m.Not, func(not rule.Match) bool { return byClient(&not) })) {
			l.warn("critical-by-client", field, "every client chooses by what it sends that it is rejected last; let Envoy set the header and remove it from what clients send, or match path, client_ip or claim")
		}
		for j := range i {
			if Covers(&l.rule.Shed.Classes[j].When, &c.When) {
				l.warn("never-matches", field, "classes[%d] holds for all of these requests and comes first; put this one before it", j)
				break
			}
		}
	}
}

// lifted checks that no exempt rule lifts the rule wherever it applies.
func (l *linter) lifted(exempt []*rule.Rule) {
	for _, e := range exempt {
		if e.Lifts(l.rule.Name) && Covers(&e.Match, &l.rule.Match) {
			l.warn("always-exempt", "match", "the exempt rule %s lifts it for all requests that it matches, so it never decides; narrow %s down, or leave this rule out", e.Name, e.Name)
		}
	}
}

// overrides checks the overrides by attribute.
func (l *linter) overrides() {
	limits := l.rule.Limits
	for i := 1; i < len(limits); i++ {
		l.condition(override(i)+".when", &limits[i].When)
		if limits[i].Unlimited {
			l.chosen(override(i)+".when", &limits[i].When)
		}
		for j := 1; j < i; j++ {
			if Covers(&limits[j].When, &limits[i].When) {
				l.warn("override-unreachable", override(i), "is never used: override %d holds for all of these requests and comes first; put this one before it", j)
				break
			}
		}
	}
}

// keys checks the overrides by key.
func (l *linter) keys() {
	for i := range l.rule.Keys {
		l.over(override(len(l.rule.Limits)+i), l.rule.Keys[i].Until)
	}
}

// override is where the override i, from 1, stands.
func override(i int) string { return fmt.Sprintf("overrides[%d]", i-1) }

// same checks that the rule does not count the requests of another one once more.
func (l *linter) same(before []*rule.Rule) {
	for _, other := range before {
		name := rule.Written(other.Name)
		if name == rule.Written(l.rule.Name) || other.Mode != l.rule.Mode || other.Scope != l.rule.Scope ||
			other.Concurrent() != l.rule.Concurrent() ||
			!reflect.DeepEqual(other.Match, l.rule.Match) || !reflect.DeepEqual(other.Key, l.rule.Key) {
			continue
		}
		remedy := "the smaller limit decides alone; leave one rule out"
		if other.Limits[0].Limit.Period != l.rule.Limits[0].Limit.Period {
			remedy = "one rule with limits: [5/1m, 20/1d] does the same"
		}
		l.warn("same-match-and-key", "name", "%s has the same match and key: %s", name, remedy)
		return
	}
}
