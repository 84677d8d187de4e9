package check

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// match checks a condition.
func (c *checker) match(path string, m *rule.Match) {
	if m.Empty() {
		return
	}
	alternatives(c, path+".method", m.Methods, c.method)
	alternatives(c, path+".host", m.Hosts, c.host)
	alternatives(c, path+".path", m.Paths, c.pathText)
	c.named(path+".header", m.Headers, c.header)
	c.named(path+".query", m.Queries, c.plainName)
	c.named(path+".cookie", m.Cookies, c.cookie)
	c.named(path+".claim", m.Claims, c.claim)
	c.named(path+".label", m.Labels, c.label)
	alternatives(c, path+".client_ip", m.Clients, c.network)
	c.integer(path+".trusted_hops", int64(m.TrustedHops), HopsRange)
	c.refuse(m.TrustedHops != 0 && len(m.Clients) == 0, path+".trusted_hops", "has no effect without client_ip; leave it out", path+".client_ip")
	alternatives(c, path+".region", m.Regions, c.region)
	c.percent(path+".percent", m.Percent)
	c.until(path+".until", m.Until)
	c.atMost(path+".not", len(m.Not), rule.MaxAlternatives, "items")
	for i := range m.Not {
		at, not := item(path+".not", i, len(m.Not)), &m.Not[i]
		c.refuse(len(not.Not) > 0, at+".not", "stands within not; write the condition without")
		c.refuse(not.Empty(), at, "is empty and holds for every request; leave it out")
		if len(not.Not) == 0 {
			c.match(at, not)
		}
	}
	c.ignored(path, m)
}

func (c *checker) until(path string, t limit.Micros) {
	c.refuse(t < 0 || t%limit.Second != 0 || t > maxUntil, path, "is no time in whole seconds from 1970 to 9999")
}

const maxUntil = 253402300799 * limit.Second // the last second of the year 9999

// named checks conditions on what has names; name checks one.
func (c *checker) named(path string, list []rule.Named, name func(path, name string)) {
	c.atMost(path, len(list), rule.MaxAlternatives, "items")
	for i, n := range list {
		at := strict.Join(path, n.Name)
		name(at, n.Name)
		c.refuse(i > 0 && list[i-1].Name == n.Name, at, "is given twice: header names have no case; remove one")
		c.refuse(n.Text.Op == rule.OpTemplate, at, "is no path; write exact, prefix, regex or present")
		c.text(at, n.Text)
	}
}

// plainName checks the name of a query parameter, or a constant.
func (c *checker) plainName(path, name string) {
	if name == "" || len(name) > rule.MaxText || !utf8.ValidString(name) {
		c.add(path, strict.Quote(name)+" has "+strconv.Itoa(len(name))+" bytes; write 1 to "+strconv.Itoa(rule.MaxText)+" bytes of text")
	}
}

func (c *checker) cookie(path, name string) {
	if len(name) > 2*rule.MaxName || !isToken(name) {
		c.add(path, strict.Quote(name)+" is no name of a cookie; write 1 to 128 letters, digits, - or _, such as session")
	}
}

// claim checks a dotted path into the payload of a token.
func (c *checker) claim(path, name string) {
	if len(name) > 2*rule.MaxName || strings.Contains("."+name+".", "..") || !utf8.ValidString(name) || strings.ContainsFunc(name, isControl) {
		c.add(path, strict.Quote(name)+" is no claim; write its name, or names with dots between for one within others, such as realm.plan")
	}
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

func (c *checker) label(path, name string) {
	c.refuse(!rule.IsRegion(name), path, strict.Quote(name)+" is no label; write "+rule.RegionForm)
}

func (c *checker) region(path, name string) {
	c.refuse(!rule.IsRegion(name), path, strict.Quote(name)+" is no name of a region; write "+rule.RegionForm)
}

// network checks a network that has been read.
func (c *checker) network(path string, p ip.Prefix) {
	if network := p.Network(); p == (ip.Prefix{}) {
		c.add(path, "is no network; write one such as 10.0.0.0/8")
	} else if p != network {
		c.add(path, p.String()+" is an address within a network; write "+network.String()+" for all of it")
	}
}

func (c *checker) percent(path string, p rule.Percent) {
	switch {
	case p == rule.Percent{}:
	case p.From < 0 || p.From >= p.To || p.To > 100:
		c.add(path, "holds for no key; write 1 to 99, or a range such as { from: 20, to: 100 }")
	case p == rule.Percent{To: 100}:
		c.add(path, "holds for every key; write 1 to 99, or leave it out")
	}
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
	"host": "host", ":authority": "host", ":path": "path", ":method": "method",
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
