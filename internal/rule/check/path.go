package check

import (
	"regexp"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// pathText checks a condition on the path. One that no path fulfils is a mistake: a
// rule that never matches limits nothing, which is easily overlooked.
func (c *checker) pathText(path string, t rule.Text) {
	switch {
	case t.Op == rule.OpPresent || t.Op == rule.OpAbsent:
		c.add(path, "every request has a path; write an exact path, { prefix: ... }, { template: ... } or { regex: ... }")
	case t.Op == rule.OpRegex:
		c.pathRegex(path, t)
	case t.Op == rule.OpExact && t.Arg == "*": // OPTIONS *
	case strings.HasPrefix(t.Arg, "^"):
		c.add(path, strict.Quote(t.Arg)+" is no expression here, but compared letter by letter; write "+patternForms)
	case !strings.HasPrefix(t.Arg, "/"):
		c.add(path, strict.Quote(t.Arg)+" never matches: paths begin with /; write "+strict.Quote("/"+t.Arg))
	case strings.ContainsAny(t.Arg, "?#"):
		c.add(path, strict.Quote(t.Arg)+" never matches: the path is compared without the query; write "+
			strict.Quote(t.Arg[:strings.IndexAny(t.Arg, "?#")]))
	case strings.ContainsFunc(t.Arg, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		c.add(path, strict.Quote(t.Arg)+" never matches: no path has blanks or control characters; write them encoded, such as %20")
	default:
		c.literal(path, t)
	}
}

// patternForms are the ways to state several paths, for messages.
const patternForms = "one such as { prefix: /v1/ }, { template: '/users/{id}' }, where {id} is any one segment, or { regex: '/v1/.*' }, which must match the whole path"

// literal refuses a literal path that looks like a pattern, as other languages have them.
func (c *checker) literal(path string, t rule.Text) {
	for segment := range strings.SplitSeq(t.Arg[1:], "/") {
		switch {
		case t.Op == rule.OpTemplate && rule.IsPlaceholder(segment):
		case t.Op == rule.OpTemplate && looksLikePattern(segment):
			c.add(path, strict.Quote(t.Arg)+" is no template: each of its segments is text or {name}; write "+patternForms)
			return
		case looksLikePattern(segment):
			c.add(path, strict.Quote(t.Arg)+" is no pattern here, but compared letter by letter; write "+patternForms)
			return
		}
	}
	c.text(path, t)
}

func looksLikePattern(segment string) bool {
	return strings.HasPrefix(segment, ":") || strings.ContainsAny(segment, "*{}")
}

// pathRegex checks an expression: what it begins with is what a path begins with.
func (c *checker) pathRegex(path string, t rule.Text) {
	found := len(c.found)
	if c.text(path, t); len(c.found) > found {
		return
	}
	begin, _ := regexp.MustCompile(t.Arg).LiteralPrefix() // compiled by text
	switch {
	case begin == "" || begin == "*":
	case begin[0] != '/':
		c.add(path, strict.Quote(t.Arg)+" never matches: it must match the whole path, which begins with /; write "+strict.Quote("/"+t.Arg)+", or .* before it")
	case strings.ContainsAny(begin, "?#"):
		c.add(path, strict.Quote(t.Arg)+" never matches: the path is compared without the query; write it without")
	}
}

// ignored checks the differences in spelling that a match ignores.
func (c *checker) ignored(path string, m rule.Match, fields rule.ConditionFields) {
	if m.Ignore&rule.IgnoreCase != 0 && len(m.Methods)+len(m.Paths) == 0 {
		c.add(path+".ignore_case", "has no effect without path or "+fields.Methods+"; leave it out", path)
	}
	c.refuse(m.Ignore&rule.IgnoreTrailingSlash != 0 && len(m.Paths) == 0, path+".trailing_slash", "has no effect without path; leave it out", path)
	c.refuse(m.Ignore&rule.IgnorePathParameters != 0 && len(m.Paths) == 0, path+".path_parameters", "has no effect without path; leave it out", path)
	for i, t := range m.Paths {
		if m.Ignore&rule.IgnorePathParameters != 0 && t.Op != rule.OpRegex && strings.Contains(t.Arg, ";") {
			c.add(item(path+".path", i, len(m.Paths)), strict.Quote(t.Arg)+" never matches: path_parameters: ignore takes off what follows a ; in each segment; write the path without")
		}
	}
}
