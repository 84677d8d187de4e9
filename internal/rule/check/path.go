package check

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// pathText checks a condition on the path. One that no path fulfils is a mistake: a
// rule that never matches limits nothing, which is easily overlooked.
func (c *checker) pathText(path string, t rule.Text) {
	switch {
	case t.Op == rule.OpRegex:
		c.pathRegex(path, t)
	case t.Op == rule.OpExact && t.Arg == "*": // OPTIONS *
	case strings.HasPrefix(t.Arg, "^/"):
		c.add(path, strict.Quote(t.Arg)+" is no expression here, but compared letter by letter; write { regex: '"+unanchored(t.Arg)+"' }")
	case !strings.HasPrefix(t.Arg, "/"):
		instead := strict.Quote("/" + t.Arg)
		if strings.ContainsAny(t.Arg, ": ^") { // a URL, or a regular expression of another proxy
			instead = "the path alone, such as /v1"
		}
		c.add(path, strict.Quote(t.Arg)+" never matches: paths begin with /; write "+instead)
	case strings.ContainsAny(t.Arg, "?#"):
		c.add(path, strict.Quote(t.Arg)+" never matches: the path is compared without the query; write "+
			strict.Quote(t.Arg[:strings.IndexAny(t.Arg, "?#")]))
	case strings.ContainsFunc(t.Arg, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		c.add(path, strict.Quote(t.Arg)+" never matches: no path has blanks or control characters; write them encoded, such as %20")
	default:
		c.literal(path, t)
	}
}

// unanchored writes an expression that finds a path as one that matches the whole of it.
func unanchored(expression string) string {
	whole, ended := strings.CutSuffix(expression[1:], "$")
	if !ended {
		whole += ".*"
	}
	return whole
}

// literal rejects a literal path that looks like a pattern, with how to write the pattern.
func (c *checker) literal(path string, t rule.Text) {
	template := asTemplate(t.Arg)
	legal := !slices.ContainsFunc(strings.Split(template, "/"), func(s string) bool {
		return strings.ContainsAny(s, "*{}") && !rule.IsPlaceholder(s)
	})
	write := "{ regex: '/users/[^/]+.*' }"
	switch begin := strings.TrimRight(t.Arg, "*"); {
	case template == t.Arg && legal && (t.Op == rule.OpTemplate || !strings.Contains(t.Arg, "{")):
		c.text(path, t)
		return
	case t.Op == rule.OpTemplate && legal:
		c.add(path, strict.Quote(t.Arg)+" is no template: {name} stands for any one segment; write { template: '"+template+"' }")
		return
	case t.Op == rule.OpTemplate:
		c.add(path, strict.Quote(t.Arg)+" is no template: each of its segments is text or {name}, which stands for any one segment; write an expression, such as "+write)
		return
	case begin != t.Arg && asTemplate(begin) == begin && !strings.ContainsAny(begin, "*{}"):
		write = "{ prefix: " + begin + " }"
	case t.Op == rule.OpExact && legal:
		write = "{ template: '" + template + "' }"
	default:
		write = "an expression, such as " + write
	}
	c.add(path, strict.Quote(t.Arg)+" is no pattern here, but compared letter by letter; write "+write)
}

// asTemplate writes the patterns of other languages as a template: :id and * as
// {id} and {any}.
func asTemplate(path string) string {
	parts := strings.Split(path, "/")
	for i, s := range parts {
		switch {
		case len(s) > 1 && s[0] == ':' && rule.IsPlaceholder("{"+s[1:]+"}"):
			parts[i] = "{" + s[1:] + "}"
		case len(s) > 0 && s[0] == ':', s == "*", s == "**":
			parts[i] = "{any}"
		}
	}
	return strings.Join(parts, "/")
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
func (c *checker) ignored(path string, m *rule.Match) {
	if m.Ignore&rule.IgnoreCase != 0 && len(m.Methods)+len(m.Paths) == 0 {
		c.add(path+".ignore_case", "has no effect without path or method; leave it out", path)
	}
	c.reject(m.Ignore&rule.IgnoreTrailingSlash != 0 && len(m.Paths) == 0, path+".trailing_slash", "has no effect without path; leave it out", path)
	c.reject(m.Ignore&rule.IgnorePathParameters != 0 && len(m.Paths) == 0, path+".path_parameters", "has no effect without path; leave it out", path)
	for i, t := range m.Paths {
		if m.Ignore&rule.IgnorePathParameters != 0 && t.Op != rule.OpRegex && strings.Contains(t.Arg, ";") {
			c.add(item(path+".path", i, len(m.Paths)), strict.Quote(t.Arg)+" never matches: path_parameters: ignore takes off what follows a ; in each segment; write the path without")
		}
	}
}
