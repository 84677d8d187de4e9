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
	legal := !strings.ContainsAny(template, "*") && !strings.ContainsAny(withoutPlaceholders(template), "{}")
	write := "{ regex: '" + asRegex(template) + "' }"
	switch star := strings.IndexByte(t.Arg, '*'); {
	case template == t.Arg && legal && (t.Op == rule.OpTemplate || withoutPlaceholders(t.Arg) == t.Arg):
		c.text(path, t)
		return
	case t.Op == rule.OpTemplate && legal:
		c.add(path, strict.Quote(t.Arg)+" is no template: {name} stands for any one segment; write { template: '"+template+"' }")
		return
	case t.Op == rule.OpTemplate:
		c.add(path, strict.Quote(t.Arg)+" is no template: each of its segments is text or {name}, which stands for any one segment; write "+write)
		return
	case star >= 0 && strings.Trim(t.Arg[star:], "*") == "" && asTemplate(t.Arg[:star]) == t.Arg[:star] && !strings.ContainsAny(t.Arg, "{}"):
		write = "{ prefix: " + t.Arg[:star] + " }"
	case t.Op == rule.OpPrefix:
		write = "{ regex: '" + asRegex(template) + ".*' }"
	case legal:
		write = "{ template: '" + template + "' }"
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

// withoutPlaceholders is what of a template is text.
func withoutPlaceholders(template string) string {
	parts := strings.Split(template, "/")
	for i := range parts {
		if rule.IsPlaceholder(parts[i]) {
			parts[i] = ""
		}
	}
	return strings.Join(parts, "/")
}

// asRegex writes what looks like a template as a regular expression.
func asRegex(template string) string {
	out := ""
	for template != "" {
		at := strings.IndexAny(template, "{*")
		if at < 0 {
			return out + regexp.QuoteMeta(template)
		}
		out, template = out+regexp.QuoteMeta(template[:at]), template[at:]
		if end := strings.IndexAny(template, "}/"); template[0] == '{' && end > 0 && template[end] == '}' {
			out, template = out+"[^/]+", template[end+1:]
		} else if template[0] == '*' {
			out, template = out+"[^/]*", template[1:]
		} else {
			out, template = out+`\{`, template[1:]
		}
	}
	return out
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
