package rule

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// empty reports whether the condition holds for every request.
func (m Match) empty() bool {
	return len(m.Methods)+len(m.Hosts)+len(m.Paths)+len(m.Headers) == 0 && m.spelling() == 0
}

// match checks a condition; fields are matchFields or whenFields.
func (c *checker) match(path string, m Match, fields []string) {
	if m.empty() {
		return
	}
	c.alternatives(path+"."+fields[0], len(m.Methods))
	for i, method := range m.Methods {
		c.method(item(path+"."+fields[0], i, len(m.Methods)), method)
	}
	c.alternatives(path+"."+fields[1], len(m.Hosts))
	for i, host := range m.Hosts {
		c.host(item(path+"."+fields[1], i, len(m.Hosts)), host)
	}
	c.alternatives(path+"."+fields[2], len(m.Paths))
	for i, t := range m.Paths {
		c.pathText(item(path+"."+fields[2], i, len(m.Paths)), t)
	}
	c.alternatives(path+"."+fields[3], len(m.Headers))
	for i, h := range m.Headers {
		at := strict.Join(path+"."+fields[3], h.Name)
		c.header(at, h.Name)
		c.refuse(i > 0 && m.Headers[i-1].Name == h.Name, at, "is given twice: header names have no case; remove one")
		c.refuse(h.Text.Op == OpTemplate, at, "is no path; write exact, prefix, regex or present")
		c.text(at, h.Text)
	}
	c.spelling(path, m, fields)
}

// item is the path of an alternative; a single one is mostly written without list.
func item(path string, i, n int) string {
	if n == 1 {
		return path
	}
	return strict.Index(path, i)
}

func (c *checker) alternatives(path string, n int) {
	if n > MaxAlternatives {
		c.add(path, "has "+strconv.Itoa(n)+" items; write at most "+strconv.Itoa(MaxAlternatives))
	}
}

func (c *checker) method(path, method string) {
	switch upper := strings.ToUpper(method); {
	case method == "" || !isToken(method) || len(method) > MaxName:
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
	case name == "" || len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return !isNameRune(r) && r != '.' }):
		c.add(path, strict.Quote(host)+" is no host name"+want)
	}
}

func (c *checker) text(path string, t Text) {
	switch {
	case t.Op > OpTemplate:
		c.add(path, "compares in an unknown way; write exact, prefix, regex or present")
	case (t.Op == OpPresent || t.Op == OpAbsent) && t.Arg != "":
		c.add(path, "present takes no text; leave it out")
	case !utf8.ValidString(t.Arg):
		c.add(path, strict.Quote(t.Arg)+" is not valid UTF-8; write text")
	case len(t.Arg) > MaxText:
		c.add(path, "has "+strconv.Itoa(len(t.Arg))+" bytes; write at most "+strconv.Itoa(MaxText))
	case t.Op == OpPrefix && t.Arg == "":
		c.add(path, "is empty and holds for everything; write { present: true }, or leave it out")
	case t.Op == OpRegex:
		if _, err := regexp.Compile(t.Arg); err != nil {
			c.add(path, strings.TrimPrefix(err.Error(), "error parsing regexp: ")+"; write a regular expression in RE2 syntax (no look-around, no back references), which must match the whole value")
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
	case name == "" || len(name) > MaxName*2 || !isToken(name):
		c.add(path, strict.Quote(name)+" is no header name; write 1 to 128 letters, digits and -, such as x-user-id")
	}
}

// insteadOf returns what to write for a header that is a pseudo header in HTTP/2.
var insteadOf = map[string]string{
	"host": "hosts (host under when)", ":authority": "hosts (host under when)", ":path": "path",
	":method": "methods (method under when)",
}

func (c *checker) key(key []Part) {
	if len(key) > MaxParts {
		c.add("key", "has "+strconv.Itoa(len(key))+" parts; write at most "+strconv.Itoa(MaxParts))
	}
	for i, p := range key {
		at := strict.Index("key", i)
		switch {
		case len(p) == 0:
			c.add(at, "has no source; write "+sourceForms)
		case len(p) > MaxSources:
			c.add(at, "has "+strconv.Itoa(len(p)-1)+" else; write at most "+strconv.Itoa(MaxSources-1))
		}
		for j, s := range p {
			c.source(at, s)
			at += ".else"
			if always := s.From == FromConst || s.From == FromPath || s.From == FromMethod; always && j < len(p)-1 {
				c.add(at, "is never used: every request has "+s.From.String()+"; remove it")
			}
		}
	}
}

func (c *checker) source(at string, s Source) {
	field := at + "." + s.From.String()
	c.word(at, int(s.From), fromNames)
	switch s.From {
	case FromHeader:
		c.header(field, s.Name)
		c.refuse(s.Name == forwardedFor, field,
			"x-forwarded-for begins with what the client claims; write { client_ip: { trusted_hops: 1 } } for what your proxy added")
	case FromQuery, FromConst:
		if s.Name == "" || len(s.Name) > MaxText || !utf8.ValidString(s.Name) {
			c.add(field, strict.Quote(s.Name)+" has "+strconv.Itoa(len(s.Name))+" bytes; write 1 to "+strconv.Itoa(MaxText)+" bytes of text")
		}
	default:
		if s.Name != "" {
			c.add(at, s.From.String()+" takes no name; leave "+strict.Quote(s.Name)+" out")
		}
	}
	if s.From == FromClientIP {
		c.integer(field+".trusted_hops", int64(s.TrustedHops), hopsRange)
		c.integer(field+".ipv6_prefix", int64(s.IPv6Prefix), prefixRange)
	} else if s.TrustedHops != 0 || s.IPv6Prefix != 0 {
		c.add(at, "trusted_hops and ipv6_prefix are only for client_ip; leave them out")
	}
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		if !isNameRune(rune(s[i])) && strings.IndexByte("!#$%&'*+.^`|~", s[i]) < 0 {
			return false
		}
	}
	return s != ""
}
