package check

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// match checks a condition; fields are those of its place.
func (c *checker) match(path string, m rule.Match, fields rule.ConditionFields) {
	if m.Empty() {
		return
	}
	methods, hosts, paths, headers := path+"."+fields.Methods, path+"."+fields.Hosts, path+".path", path+"."+fields.Headers
	alternatives(c, methods, m.Methods, c.method)
	alternatives(c, hosts, m.Hosts, c.host)
	alternatives(c, paths, m.Paths, c.pathText)
	c.atMost(headers, len(m.Headers), rule.MaxAlternatives, "items")
	for i, h := range m.Headers {
		at := strict.Join(headers, h.Name)
		c.header(at, h.Name)
		c.refuse(i > 0 && m.Headers[i-1].Name == h.Name, at, "is given twice: header names have no case; remove one")
		c.refuse(h.Text.Op == rule.OpTemplate, at, "is no path; write exact, prefix, regex or present")
		c.text(at, h.Text)
	}
	c.ignored(path, m, fields)
}

// alternatives checks each of a list, and how many there are.
func alternatives[T any](c *checker, path string, list []T, check func(path string, one T)) {
	c.atMost(path, len(list), rule.MaxAlternatives, "items")
	for i, one := range list {
		check(item(path, i, len(list)), one)
	}
}

// item is the path of an alternative; a single one is mostly written without list.
func item(path string, i, n int) string {
	if n == 1 {
		return path
	}
	return strict.Index(path, i)
}

func (c *checker) method(path, method string) {
	switch upper := strings.ToUpper(method); {
	case method == "" || !isToken(method) || len(method) > rule.MaxName:
		c.add(path, strict.Quote(method)+" is no method; write one such as GET or POST")
	case method != upper:
		c.add(path, strict.Quote(method)+" never matches: methods are upper case; write "+upper)
	}
}

func (c *checker) host(path, host string) {
	const want = "; write a name such as api.example.com, or *.example.com for every name below it"
	name := strings.TrimPrefix(host, "*.")
	switch {
	case strings.HasPrefix(host, "["):
		if !strings.HasSuffix(host, "]") {
			c.add(path, strict.Quote(host)+" has a port; write the address alone, the port of a request is not compared")
		}
	case strings.Contains(host, ":"):
		c.add(path, strict.Quote(host)+" has a port; write the name alone, the port of a request is not compared")
	case strings.Contains(name, "*"):
		c.add(path, strict.Quote(host)+" has a * elsewhere than as the whole first label"+want)
	case name == "" || len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return !rule.IsNameRune(r) && r != '.' }):
		c.add(path, strict.Quote(host)+" is no host name"+want)
	}
}

func (c *checker) text(path string, t rule.Text) {
	switch {
	case t.Op > rule.OpTemplate:
		c.add(path, "compares in an unknown way; write exact, prefix, regex or present")
	case (t.Op == rule.OpPresent || t.Op == rule.OpAbsent) && t.Arg != "":
		c.add(path, "present takes no text; leave it out")
	case !utf8.ValidString(t.Arg):
		c.add(path, strict.Quote(t.Arg)+" is not valid UTF-8; write text")
	case len(t.Arg) > rule.MaxText:
		c.atMost(path, len(t.Arg), rule.MaxText, "bytes")
	case t.Op == rule.OpPrefix && t.Arg == "":
		c.add(path, "is empty and holds for everything; write { present: true }, or leave it out")
	case t.Op == rule.OpRegex:
		if _, err := regexp.Compile(t.Arg); err != nil {
			c.add(path, strings.TrimPrefix(err.Error(), "error parsing regexp: ")+"; write a regular expression in RE2 syntax (no look-around, no back references), which must match the whole value")
		} else if _, err := regexp.Compile(rule.Whole(t.Arg)); err != nil {
			c.add(path, strict.Quote(t.Arg)+` has \Q without \E; write \E where the literal text ends`)
		}
	}
}

// header checks a header name, which is in lower case already.
func (c *checker) header(path, name string) {
	switch {
	case strings.HasPrefix(name, ":") || name == "host":
		instead, ok := insteadOf[name]
		if !ok {
			instead = "a header name, which has no colon"
		}
		c.add(path, strict.Quote(name)+" is not among the headers; write "+instead)
	case name == "" || len(name) > rule.MaxName*2 || !isToken(name):
		c.add(path, strict.Quote(name)+" is no header name; write 1 to 128 letters, digits and -, such as x-user-id")
	}
}

// insteadOf is what to write for a header that is a pseudo header in HTTP/2.
var insteadOf = map[string]string{
	"host": "hosts (host under when)", ":authority": "hosts (host under when)", ":path": "path",
	":method": "methods (method under when)",
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !rule.IsNameRune(rune(s[i])) && strings.IndexByte("!#$%&'*+.^`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}
