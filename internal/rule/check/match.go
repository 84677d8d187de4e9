package check

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// match checks a condition.
func (c *checker) match(path string, m *rule.Match) {
	if m.Empty() {
		return
	}
	alternatives(path+".method", m.Methods, c.method)
	alternatives(path+".host", m.Hosts, c.host)
	alternatives(path+".path", m.Paths, c.pathText)
	for _, f := range m.Fields() {
		if len(*f.List) > 0 {
			c.named(path+"."+f.From.String(), f.From, *f.List)
		}
	}
	c.networks(path, m)
	alternatives(path+".region", m.Regions, c.regionName)
	if m.Percent != (rule.Percent{}) {
		c.percent(path+".percent", m.Percent)
	}
	if len(m.Not) > 0 {
		c.not(path+".not", m.Not)
	}
	c.ignored(path, m)
}

// not checks conditions of which none may hold.
func (c *checker) not(path string, list []rule.Match) {
	for i := range list {
		at := item(path, i, len(list))
		c.reject(list[i].Empty(), at, "is empty and holds for every request; leave it out")
		c.match(at, &list[i])
	}
}

// named checks conditions on what has names.
func (c *checker) named(path string, from rule.From, list []rule.Named) {
	c.atMost(path, len(list), rule.MaxAlternatives, "items")
	for i, n := range list {
		at := strict.Join(path, n.Name)
		c.nameOf(from, at, n.Name)
		c.reject(i > 0 && list[i-1].Name == n.Name, at, "is given twice: header names have no case; remove one")
		c.text(at, n.Text)
	}
}

// nameOf checks the name of a source of this kind.
func (c *checker) nameOf(from rule.From, path, name string) {
	long := name == "" || len(name) > 2*rule.MaxName
	switch from {
	case rule.FromHeader:
		c.header(path, name)
	case rule.FromCookie:
		c.wrong(long || !isToken(name), path, name, " is no name of a cookie; write 1 to 128 letters, digits, - or _, such as session")
	case rule.FromClaim:
		c.wrong(long || strings.Contains("."+name+".", "..") || strings.ContainsFunc(name, isControl), path, name,
			" is no claim; write its name, or names with dots between for one within others, such as realm.plan")
	case rule.FromMetadata:
		namespace, key, _ := strings.Cut(name, ":")
		c.wrong(long || namespace == "" || key == "" || strings.Contains(key, ":") || strings.ContainsFunc(name, isControl), path, name,
			" is no metadata; write namespace and key, which have no blank and no colon, together at most 127 bytes; in match as io.envoy.ai_gateway:llm_model")
	case rule.FromLabel:
		c.wrong(!rule.IsRegion(name), path, name, " is no label; write "+rule.RegionForm)
	case rule.FromQuery, rule.FromConst:
		if name == "" || len(name) > rule.MaxText {
			c.add(path, strict.Quote(name)+" has "+strconv.Itoa(len(name))+" bytes; write 1 to "+strconv.Itoa(rule.MaxText)+" bytes of text")
		}
	}
}

// wrong reports a text that is wrong.
//
//go:noinline
func (c *checker) wrong(wrong bool, path, text, why string) {
	c.reject(wrong, path, strict.Quote(text)+why)
}

func isControl(r rune) bool { return r <= ' ' || r == 0x7f }

func (c *checker) regionName(path, name string) {
	c.wrong(!rule.IsRegion(name), path, name, " is no name of a region; write "+rule.RegionForm)
}

// networks checks networks that have been read.
func (c *checker) networks(path string, m *rule.Match) {
	c.reject(m.TrustedHops != 0 && len(m.Clients) == 0, path+".trusted_hops", "has no effect without client_ip; leave it out", path+".client_ip")
	for i, p := range m.Clients {
		if network := p.Network(); p != network {
			c.add(item(path+".client_ip", i, len(m.Clients)), p.String()+" is an address within a network; write "+network.String()+" for all of it")
		}
	}
}

func (c *checker) percent(path string, p rule.Percent) {
	switch {
	case p.From < 0 || p.From >= p.To || p.To > 100:
		c.add(path, "holds for no key; write 1 to 99, or a range such as { from: 20, to: 100 }")
	case p == rule.Percent{To: 100}:
		c.add(path, "holds for every key; write 1 to 99, or leave it out")
	}
}

// alternatives checks each of a list.
func alternatives[T any](path string, list []T, check func(path string, one T)) {
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
	case !isToken(method) || len(method) > rule.MaxName || method == "*":
		c.add(path, strict.Quote(method)+" is no method; write one such as GET or POST, or leave it out for all")
	case method != upper:
		c.add(path, strict.Quote(method)+" never matches: methods are upper case; write "+upper)
	}
}

func (c *checker) host(path, host string) {
	const want = "; write a name such as api.example.com, or *.example.com for every name below it, or leave it out for all"
	name := strings.TrimPrefix(host, "*.")
	switch {
	case strings.HasPrefix(host, "["):
		if !strings.HasSuffix(host, "]") {
			c.add(path, strict.Quote(host)+" has a port; write the address alone, the port of a request is not compared")
		}
	case strings.Contains(host, ":"):
		c.add(path, strict.Quote(host)+" has a port; write the name alone, the port of a request is not compared")
	case strings.Contains(name, "*"):
		c.add(path, strict.Quote(host)+" has a * that is not the whole first label of several"+want)
	case name == "" || len(name) > 253 || strings.ContainsFunc(name, func(r rune) bool { return !rule.IsNameRune(r) && r != '.' }):
		c.add(path, strict.Quote(host)+" is no host name"+want)
	}
}

func (c *checker) text(path string, t rule.Text) {
	switch {
	case len(t.Arg) > rule.MaxText:
		c.atMost(path, len(t.Arg), rule.MaxText, "bytes")
	case t.Op == rule.OpPrefix && t.Arg == "":
		c.add(path, "is empty and holds for everything; write { present: true }, or leave it out")
	case t.Op == rule.OpRegex && c.large(path, t.Arg):
	case t.Op == rule.OpRegex:
		if _, err := regexp.Compile(t.Arg); err != nil {
			c.add(path, strings.TrimPrefix(err.Error(), "error parsing regexp: ")+"; write a regular expression in RE2 syntax (no look-around, no back references), which must match the whole value")
		} else if _, err := regexp.Compile(rule.Whole(t.Arg)); err != nil {
			c.add(path, strict.Quote(t.Arg)+` has \Q without \E; write \E where the literal text ends`)
		}
	}
}

// Bounds of regular expressions: compiled, a step takes 40 bytes or more in each worker of a PoP, and each byte of a
// value may be compared with all steps.
const (
	maxSteps    = 2000
	maxSetSteps = 250_000
)

// large reports an expression with too many steps, by itself or with the others of the set, before it is compiled.
func (c *checker) large(path, expression string) bool {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return false
	}
	n, found := stepsOf(re), len(c.found)
	c.reject(n > maxSteps, path, strict.Quote(expression)+" has "+strconv.Itoa(n)+" steps, counted without repetitions such as x{100}; write at most "+strconv.Itoa(maxSteps))
	c.steps += min(n, maxSteps)
	c.reject(c.steps > maxSetSteps, path, "is one regular expression too many: those of all rules have at most "+strconv.Itoa(maxSetSteps)+" steps; write exact, prefix or template")
	return len(c.found) > found
}

// stepsOf counts the characters of an expression and its operators, each as often as it is repeated; a class also for
// its ranges, of which four take as much as a step.
func stepsOf(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 8 // of each range both ends
	}
	for _, sub := range re.Sub {
		n += stepsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		return (n - 1) * max(re.Min, re.Max, 1)
	}
	return n
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
