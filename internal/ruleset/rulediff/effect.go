package rulediff

import (
	"math"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/lint"
)

// The effects of a change on requests. A change without one rejects nothing, or its effect depends on the traffic.
const (
	stricter = "stricter" // rejects the same requests, or more
	looser   = "looser"   // rejects the same requests, or fewer
)

// room is what a limit admits of a key.
type room struct {
	burst float64 // units at once
	rate  float64 // units per microsecond; of concurrency -1
}

// roomOf is that of a limit.
func roomOf(s limit.Spec, unlimited bool) *room {
	switch {
	case unlimited:
		return &room{math.Inf(1), math.Inf(1)}
	case s.Algorithm == limit.Concurrency:
		return &room{float64(s.Count), -1}
	}
	r := &room{float64(s.Count), float64(s.Count) / float64(s.Period)}
	if s.Algorithm == limit.TokenBucket {
		r.burst = float64(s.Burst)
	}
	return r
}

// effect is that of a change from r to another room; empty: one has the larger burst, the other the larger rate, or one
// counts requests and the other those in flight.
func (r room) effect(to room) string {
	switch {
	case r == to || (r.rate < 0) != (to.rate < 0) && !math.IsInf(r.burst+to.burst, 1):
		return ""
	case r.burst <= to.burst && r.rate <= to.rate:
		return looser
	case r.burst >= to.burst && r.rate >= to.rate:
		return stricter
	}
	return ""
}

// How strict the values of fields are; 0: any other value. A rule that is not there is off.
var (
	modes    = map[rule.Mode]int{rule.Exempt: -2, rule.Shadow: -1, rule.Off: -1}
	failures = map[lease.OnFailure]int{lease.FailureAllow: -1, lease.FailureDeny: 1}
	scopes   = map[rule.Scope]int{rule.ScopePoP: -1, rule.ScopeGlobal: 1}
	counts   = map[bool]int{true: -1} // of some responses, not of every request
)

// effectOf is the effect of a field of a rule.
func effectOf(name string, a, b *side) string {
	switch exempt := a.rule.Mode == rule.Exempt && b.rule.Mode == rule.Exempt; {
	case name == "mode":
		return ranked(modes[a.rule.Mode], modes[b.rule.Mode])
	case name == "match" && exempt: // which rejects less the wider it is
		return ranked(widened(a.rule, b.rule), 0)
	case !a.enforced() || !b.enforced():
		return ""
	case name == "match":
		return ranked(0, widened(a.rule, b.rule))
	case name == "on_failure":
		return ranked(failures[a.rule.OnFailure], failures[b.rule.OnFailure])
	case name == "count":
		return ranked(counts[a.rule.Count.ByResponse()], counts[b.rule.Count.ByResponse()])
	case name == "on_limit":
		return ranked(a.rule.Limits[0].Limit.Block, b.rule.Limits[0].Limit.Block)
	case name == "scope":
		return ranked(scopes[a.rule.Scope], scopes[b.rule.Scope])
	}
	x, y := a.room(name), b.room(name)
	if was, is := a.fields[name].when, b.fields[name].when; x == nil || y == nil || was != is && was != "" && is != "" {
		return ""
	}
	return x.effect(*y)
}

// widened is 1 if the match of b plainly holds wherever that of a does, -1 if it is the other way round, and 0 if it is neither or both.
func widened(a, b *rule.Rule) (by int) {
	if lint.Covers(&b.Match, &a.Match) {
		by++
	}
	if lint.Covers(&a.Match, &b.Match) {
		by--
	}
	return by
}

// ranked is the effect of a change from a strictness to another one.
func ranked[T int | limit.Micros](was, is T) string {
	switch {
	case is > was:
		return stricter
	case is < was:
		return looser
	}
	return ""
}

// enforced reports whether the rule rejects requests.
func (s *side) enforced() bool { return modes[s.rule.Mode] == 0 }

// room is that of a field with a limit; of an override that is not there that of the rule; nil: it is not known.
func (s *side) room(name string) *room {
	if _, there := s.fields[name]; !there && (strings.HasPrefix(name, "override ") || strings.HasPrefix(name, "limit of ")) {
		name = "limit"
	}
	return s.fields[name].room
}
