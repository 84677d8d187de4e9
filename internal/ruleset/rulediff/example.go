package rulediff

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/describe"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// only is a request to which a rule applies and its other version does not; nil: none was found.
func only(s, other *side) *request.Request {
	if s.rule.Mode == rule.Off {
		return nil
	}
	for example := range describe.Examples(s.rule) {
		if s.applies(example) && !other.applies(example) {
			return example
		}
	}
	return nil
}

// applies reports whether the rule counts, sheds or exempts a request, beside the other rules of its version.
func (s *side) applies(to *request.Request) bool {
	var q rule.Request
	var found rule.Matches
	to.Fill(s.set.Inputs(), &q)
	q.Now, q.Secret = limit.Micros(s.now.UnixMicro()), new(rule.Secret) // any
	s.set.Match(&q, &found)
	is := func(i int) bool { return s.set.Rule(i).Name == s.rule.Name }
	return slices.ContainsFunc(found.Hits, func(h rule.Hit) bool { return is(h.Rule) }) ||
		slices.ContainsFunc(found.Sheds, func(h rule.ShedHit) bool { return is(h.Rule) }) || slices.ContainsFunc(found.Exempt, is)
}
