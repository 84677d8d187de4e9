// Package describe says in words what a rule does: "5 requests per minute per client IP", "POST /login", "enforced".
package describe

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// Limit is the rule's own limit, such as "5 per minute per client IP"; of a rule without a limit what the rule does instead.
func Limit(r *rule.Rule) string { return limitOf(r, "") }

// Rule is a list of what the rule limits, the requests that it matches, its mode, how exactly it counts, and what it does while
// the region is unavailable.
func Rule(r *rule.Rule) []string {
	what := " request"
	if r.Cost.By.Name != "" || r.Cost.Default > 1 || r.Cost.Actual.Stated() {
		what = " unit"
	}
	all := []string{limitOf(r, what), match(&r.Match), modes[r.Mode]}
	if !r.Limited() {
		return all
	}
	if a := &r.Cost.Actual; a.Stated() {
		all = append(all, "cost from the response: "+a.From.String()+" "+a.Name)
	}
	if block := r.Limits[0].Limit.Block; block > 0 {
		all = append(all, "blocks a key that reaches the limit for "+rule.FormatPeriod(block))
	}
	switch r.Scope {
	case rule.ScopePoP:
		return append(all, "counted by each PoP alone") // it needs no region
	case rule.ScopeGlobal:
		all = append(all, "one limit for all regions")
	}
	return append(all, r.ConsistencyOf(r.Limits[0].Limit).String(), failures[r.OnFailure]+" if the region is unavailable")
}

var modes = []string{rule.Shadow: "on trial: rejects nothing", rule.Off: "off", rule.Exempt: "never rejects", 0: "enforced"}

var failures = []string{lease.FailureAllow: "admits", lease.FailureDeny: "rejects", lease.FailureLocal: "admits a share of the limit"}

func limitOf(r *rule.Rule, what string) string {
	switch {
	case r.Mode == rule.Exempt && len(r.Exempts) == 0:
		return "lifts all other rules"
	case r.Mode == rule.Exempt:
		return "lifts " + list(r.Exempts, " and ")
	case r.Shed != nil:
		return "sheds load"
	}
	s := r.Limits[0].Limit
	if r.Count.ByResponse() {
		what = " response"
	}
	if s.Count != 1 && what != "" {
		what += "s"
	}
	what += statuses(&r.Count)
	text := fmt.Sprint(s.Count, what, " per ", period(s))
	if s.Algorithm == limit.Concurrency {
		text = fmt.Sprint(s.Count, what, " at a time")
	}
	if s.Algorithm == limit.TokenBucket && s.Burst > 0 && s.Burst != s.Count {
		text += fmt.Sprintf(" (burst %d)", s.Burst)
	}
	if len(r.Key) == 0 {
		return text + " in total"
	}
	var parts []string
	for _, p := range r.Key {
		var sources []string
		for _, s := range p {
			sources = append(sources, source(s))
		}
		parts = append(parts, list(sources, " or "))
	}
	return text + " per " + list(parts, " and ")
}

// statuses are those that a rule counts, such as " (401, 5xx, gRPC 16)"; empty: it counts requests.
func statuses(c *settle.Count) string {
	var words []string
	for _, s := range c.Status {
		word := fmt.Sprint(s)
		if s < len(settle.Classes) {
			word = settle.Classes[s]
		}
		words = append(words, word)
	}
	for _, s := range c.GRPCStatus {
		words = append(words, fmt.Sprint("gRPC ", s))
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// period is "minute", or "10 minutes".
func period(s limit.Spec) string {
	if s.Calendar != nil {
		return "calendar " + s.Calendar.Per.String()
	}
	text := rule.FormatPeriod(s.Period) // "10m"
	number := strings.TrimRight(text, "dhms")
	unit := map[string]string{"d": "day", "h": "hour", "m": "minute", "s": "second", "ms": "millisecond"}[text[len(number):]]
	if number == "1" {
		return unit
	}
	return number + " " + unit + "s"
}

func source(s rule.Source) string {
	switch s.From {
	case rule.FromClientIP:
		return "client IP"
	case rule.FromHeader:
		return s.Name // which is known as it is
	case rule.FromQuery:
		return "query parameter " + s.Name
	case rule.FromSegment:
		return "{" + s.Name + "}"
	case rule.FromSAN:
		return "client certificate"
	}
	return strings.TrimSpace(s.From.String() + " " + s.Name)
}

// match is the requests that a condition holds for, such as "POST /login".
func match(m *rule.Match) string {
	var words, paths []string
	if len(m.Methods) > 0 {
		words = append(words, list(m.Methods, " or "))
	}
	for _, p := range m.Paths {
		paths = append(paths, pathBegins[p.Op]+p.Arg+pathEnds[p.Op])
	}
	if len(paths) > 0 {
		words = append(words, list(paths, " or "))
	}
	if len(m.Hosts) > 0 {
		words = append(words, "on "+list(m.Hosts, " or "))
	}
	others := len(m.Not) + min(len(m.Clients), 1) + min(len(m.Regions), 1) + int(min(m.Until, 1)) + min(m.Percent.To, 1)
	for _, f := range m.Fields() {
		others += len(*f.List)
	}
	switch {
	case len(words)+others == 0:
		return "all requests"
	case others == 0:
		return strings.Join(words, " ")
	case len(words) == 0:
		words = []string{"requests"}
	}
	return strings.Join(words, " ") + fmt.Sprintf(" with %d more condition%s", others, strings.Repeat("s", min(others-1, 1)))
}

var (
	pathBegins = map[rule.Op]string{rule.OpRegex: "paths like "}
	pathEnds   = map[rule.Op]string{rule.OpPrefix: "…"}
)

// list joins words, of which it has at most three.
func list(words []string, last string) string {
	if n := len(words); n > 3 {
		words = append(words[:2:2], fmt.Sprintf("%d more", n-2))
		last = " and "
	}
	if len(words) == 1 {
		return words[0]
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + last + words[end]
}
