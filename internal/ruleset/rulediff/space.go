package rulediff

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// The sides of a comparison, and what is not of the match of one of them.
const (
	older = iota
	newer
	others
)

// none is the value of a place that a request does not have.
const none = "\x00"

// axis is a place that conditions or keys look at, and values there which tell the conditions apart.
type axis struct {
	rule.Source
	conditions [3][]rule.Text // by side; of a match any of them is enough. A network is an exact text
	inKey      bool           // a key looks at it; first: not as the else of another place
	first      bool
	values     []string
	base       [2]int // the value that fulfils a side's match, else one as plain as possible
	complete   bool   // for the conditions each request is here like one of the values
}

// space is the places that two versions of a rule look at.
type space struct {
	axes      []*axis
	spellings map[rule.Spelling]bool // of all that compares paths or methods
	vague     bool                   // something depends on more than its place
	spread    *axis                  // a place of the key where all values are alike; nil: there is none
}

func (s *space) axis(of rule.Source) *axis {
	of.IPv6Prefix = 0
	for _, a := range s.axes {
		if a.Source == of {
			return a
		}
	}
	name := of.Name // headers that are also seen elsewhere
	s.vague = s.vague || of.From == rule.FromHeader && (name == "cookie" || name == "host" || name == "x-forwarded-for" || name[0] == ':')
	s.axes = append(s.axes, &axis{Source: of})
	return s.axes[len(s.axes)-1]
}

// match notes the conditions of a match. Its percent and until are compared as they stand.
func (s *space) match(m *rule.Match, side int) {
	add := func(of rule.Source, texts ...rule.Text) {
		if len(texts) > 0 {
			a := s.axis(of)
			a.conditions[side] = append(a.conditions[side], texts...)
		}
	}
	add(rule.Source{From: rule.FromMethod}, exact(m.Methods)...)
	add(rule.Source{From: rule.FromHost}, exact(m.Hosts)...)
	add(rule.Source{From: rule.FromPath}, m.Paths...)
	add(rule.Source{From: rule.FromRegion}, exact(m.Regions)...)
	for _, p := range m.Clients {
		add(rule.Source{From: rule.FromClientIP, TrustedHops: m.TrustedHops}, rule.Text{Arg: p.String()})
	}
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			add(rule.Source{From: f.From, Name: n.Name}, n.Text)
		}
	}
	if len(m.Paths)+len(m.Methods) > 0 {
		s.spellings[m.Ignore] = true
	}
	s.vague = s.vague || side == others && (m.Percent.To > 0 || m.Until > 0)
	for i := range m.Not {
		s.match(&m.Not[i], others)
	}
}

func exact(list []string) (out []rule.Text) {
	for _, arg := range list {
		out = append(out, rule.Text{Arg: arg})
	}
	return out
}

// key notes what a key looks at.
func (s *space) key(parts []rule.Part) {
	for _, p := range parts {
		for i, of := range p {
			if of.From != rule.FromConst && of.From != rule.FromSegment {
				a := s.axis(of)
				a.inKey, a.first = true, a.first || i == 0
			}
		}
	}
}

// fill finds the values of all places. oneKey is whether both sides have the same key.
func (s *space) fill(oneKey bool) {
	slices.SortFunc(s.axes, func(a, b *axis) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Name, b.Name), cmp.Compare(a.TrustedHops, b.TrustedHops))
	})
	for _, a := range s.axes {
		met := a.fill(len(s.spellings) > 1, len(s.spellings) > 0 && !s.spellings[0])
		free := len(a.conditions[older])+len(a.conditions[newer])+len(a.conditions[others]) == 0
		if free && a.first && a.From != rule.FromMethod && a.From != rule.FromPath && a.From != rule.FromRegion && s.spread == nil {
			s.spread = a
		}
		alike := len(a.conditions[others]) == 0 && slices.Equal(sorted(a.conditions[older]), sorted(a.conditions[newer]))
		if alike && met && (oneKey || !a.inKey) && len(s.spellings) < 2 { // no other value makes a difference
			a.values, a.base, a.complete = a.values[a.base[older]:][:1], [2]int{}, true
		}
	}
}

// sorted are conditions in one order, each once.
func sorted(lists ...[]rule.Text) []rule.Text {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b rule.Text) int { return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Arg, b.Arg)) })
	return slices.Compact(all)
}

// fill finds values: those that fulfil each condition, others, and absence. It reports whether the bases fulfil the matches.
func (a *axis) fill(spelled, ignores bool) (met bool) {
	texts := sorted(a.conditions[:]...)
	fresh, ops, first := strange(texts), map[rule.Op]int{}, map[rule.Text]int{}
	for _, t := range texts {
		ops[t.Op]++
		for i, v := range a.fulfilling(t, texts, fresh) {
			if at := a.add(v); i == 0 {
				first[t] = at
			}
		}
	}
	plain := a.plain(texts, fresh)
	for _, v := range plain {
		a.add(v)
	}
	switch templates := ops[rule.OpTemplate]; {
	case fresh < "a" || ops[rule.OpRegex] > 1:
	case ops[rule.OpRegex] == 1:
		a.complete = templates == 0 && (a.From != rule.FromPath || !ignores) && a.apart(texts, fresh)
	default:
		a.complete = templates < 2 || templates == 2 && ops[rule.OpPrefix] == 0
	}
	if spelled && (a.From == rule.FromPath || a.From == rule.FromMethod) {
		a.complete = false
		for _, v := range slices.Clone(a.values) {
			for _, other := range []string{strings.ToUpper(v), strings.ToLower(v), v + "/", v + ";v=1"} {
				a.add(other)
			}
		}
	}
	met = true
	for side := range a.base {
		a.base[side] = a.add(plain[0])
		wanted := sorted(a.conditions[side])
		if i := slices.IndexFunc(wanted, func(t rule.Text) bool { _, ok := first[t]; return ok }); i >= 0 {
			a.base[side] = first[wanted[i]]
		} else {
			met = met && len(wanted) == 0
		}
	}
	return met
}

// apart reports whether the values are enough for the one regular expression among conditions: one matches that no exact
// condition has, one does not, and what has a prefix does not begin as what matches does.
func (a *axis) apart(texts []rule.Text, fresh string) (apart bool) {
	t := texts[slices.IndexFunc(texts, func(t rule.Text) bool { return t.Op == rule.OpRegex })]
	for _, v := range a.fulfilling(t, texts, fresh) {
		apart = apart || v != "" && !slices.Contains(texts, rule.Text{Arg: v})
	}
	begin, _ := regexp.MustCompile(t.Arg).LiteralPrefix() // checked
	for _, o := range texts {
		if o.Op == rule.OpPrefix && (strings.HasPrefix(o.Arg, begin) || strings.HasPrefix(begin, o.Arg)) {
			return false
		}
	}
	return apart && !regexp.MustCompile(rule.Whole(t.Arg)).MatchString(map[bool]string{true: "/"}[a.From == rule.FromPath]+fresh)
}

// add adds a value once, and returns its index.
func (a *axis) add(v string) int {
	i := slices.Index(a.values, v)
	if i < 0 {
		i, a.values = len(a.values), append(a.values, v)
	}
	return i
}

// strange is a text that is unlike those of all conditions: none of them has its first letter.
func strange(texts []rule.Text) string {
	for r := 'z'; ; r-- {
		if !slices.ContainsFunc(texts, func(t rule.Text) bool { return strings.ContainsRune(strings.ToLower(t.Arg), r) }) {
			return string(r)
		}
	}
}

// fulfilling are values that fulfil a condition, the plainest first. Of a regular expression there may be none.
func (a *axis) fulfilling(t rule.Text, texts []rule.Text, fresh string) (out []string) {
	switch {
	case a.From == rule.FromClientIP:
		network := netip.MustParsePrefix(t.Arg) // was a network before
		if second := network.Addr().Next(); network.Contains(second) {
			out = append(out, second.String())
		}
		return append(out, network.Addr().String())
	case a.From == rule.FromHost && t.Arg[0] == '*':
		return []string{fresh + t.Arg[1:]}
	case t.Op == rule.OpExact:
		return []string{t.Arg}
	case t.Op == rule.OpPresent:
		return []string{fresh}
	case t.Op == rule.OpAbsent:
		return []string{none}
	case t.Op == rule.OpPrefix:
		if out = append(out, t.Arg+fresh); a.From == rule.FromPath {
			out = append(out, t.Arg+fresh+"//"+fresh) // of no template
		}
		return out
	case t.Op == rule.OpTemplate:
		out = append(out, instance(t.Arg, "", fresh))
		for _, o := range texts {
			out = append(out, instance(t.Arg, o.Arg, fresh), instance(t.Arg, o.Arg+fresh, fresh))
		}
		return out
	}
	re := regexp.MustCompile(rule.Whole(t.Arg)) // checked
	for _, o := range texts {
		tries := append(expand(o), o.Arg, o.Arg+fresh)
		for _, end := range expand(t) {
			tries = append(tries, o.Arg+end)
		}
		for _, try := range tries {
			if re.MatchString(try) && strings.Trim(try, visible) == "" && (a.From != rule.FromPath || strings.HasPrefix(try, "/")) {
				out = append(out, try)
			}
		}
	}
	return out
}

// visible are characters that each place can have as they are.
const visible = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@+,=~!$&'()*"

// instance is a path that follows a template, with the segments of another path for its placeholders.
func instance(template, like, fresh string) string {
	parts, from := strings.Split(template, "/"), strings.Split(like, "/")
	for i, p := range parts {
		if rule.IsPlaceholder(p) {
			parts[i] = fresh
			if i < len(from) && from[i] != "" && from[i][0] != '{' {
				parts[i] = from[i]
			}
		}
	}
	return strings.Join(parts, "/")
}

// plain are values that no condition asks for, and absence, as plain as possible first.
func (a *axis) plain(texts []rule.Text, fresh string) (out []string) {
	switch a.From {
	case rule.FromMethod:
		return []string{"GET", "POST", strings.ToUpper(fresh)}
	case rule.FromPath:
		return []string{"/" + fresh, "/", "*"}
	case rule.FromHost:
		return []string{fresh + "." + fresh, none}
	case rule.FromClientIP:
		out = append(out, "192.0.2.1", "2001:db8::1")
		for _, t := range texts {
			network := netip.MustParsePrefix(t.Arg)
			last := network.Addr().AsSlice()
			for i := network.Bits(); i < 8*len(last); i++ {
				last[i/8] |= 0x80 >> (i % 8)
			}
			if a, _ := netip.AddrFromSlice(last); a.Next().IsValid() { // behind the network
				out = append(out, a.Next().String())
			}
		}
		return append(out, "0.0.0.0", "::", none)
	}
	if a.inKey {
		return []string{fresh, none, ""}
	}
	return []string{none, fresh, ""}
}

// sample is the value i of a place where all values are alike.
func (a *axis) sample(i int) string {
	if a.From == rule.FromClientIP {
		return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String()
	}
	return fmt.Sprint("z", i)
}

// request makes the request with these values.
func (s *space) request(at []int) *request.Request {
	r := &request.Request{Path: "/", Headers: map[string]string{}, Claims: map[string]string{}, Labels: map[string]string{}}
	for i, a := range s.axes {
		if v := a.values[at[i]]; v != none {
			a.set(r, v)
		}
	}
	return r
}

// set gives a request a value at the place.
func (a *axis) set(r *request.Request, v string) {
	switch a.From {
	case rule.FromMethod:
		r.Method = v
	case rule.FromHost:
		r.Host = v
	case rule.FromPath: // comes before query
		r.Path = v
	case rule.FromQuery:
		r.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.Path, "?")] + url.QueryEscape(a.Name) + "=" + url.QueryEscape(v)
	case rule.FromHeader:
		r.Headers[a.Name] = v
	case rule.FromCookie:
		r.Headers["cookie"] = strings.TrimPrefix(r.Headers["cookie"]+"; "+a.Name+"="+v, "; ")
	case rule.FromClaim:
		r.Claims[a.Name] = v
	case rule.FromLabel:
		r.Labels[a.Name] = v
	case rule.FromSAN:
		r.SAN = v
	case rule.FromRoute:
		r.Route = v
	case rule.FromRegion:
		r.Region = v
	case rule.FromClientIP:
		if a.TrustedHops == 0 {
			r.Client = v
			break
		}
		hops := strings.Split(r.Headers["x-forwarded-for"], ", ") // those of fewer hops are there
		for len(hops) < a.TrustedHops {
			hops = append([]string{"unknown"}, hops...)
		}
		hops[len(hops)-a.TrustedHops] = v
		r.Headers["x-forwarded-for"] = strings.Join(hops, ", ")
	}
}

// mostTexts bounds the texts of an expression, and of each of its parts.
const mostTexts = 12

// expand returns some texts that are likely to match a regular expression.
func expand(t rule.Text) []string {
	re, err := syntax.Parse(t.Arg, syntax.Perl)
	if t.Op != rule.OpRegex || err != nil {
		return nil
	}
	return texts(re.Simplify())
}

// texts are some of an expression: of alternatives each, of a class the first and last characters, of a repetition the
// fewest and one more. Of a sequence each text of a part comes once.
func texts(re *syntax.Regexp) (out []string) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			lo, hi := max(re.Rune[i], '!'), min(re.Rune[i+1], '~')
			for _, r := range []rune{'z', lo, lo + 1, lo + 2, hi} {
				if lo <= r && r <= hi {
					out = append(out, string(r))
				}
			}
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{"z"}
	case syntax.OpStar, syntax.OpQuest:
		out = append(texts(re.Sub[0]), "")
	case syntax.OpCapture, syntax.OpPlus:
		return texts(re.Sub[0])
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			out = append(out, texts(sub)...)
		}
	default: // a sequence, or an anchor, which has no parts
		out = []string{""}
		for _, sub := range re.Sub {
			ends, longer := texts(sub), []string{}
			for i := 0; len(ends) > 0 && i < max(len(out), len(ends)); i++ {
				longer = append(longer, out[i%len(out)]+ends[i%len(ends)])
			}
			if out = longer; len(out) == 0 {
				return nil
			}
		}
	}
	return out[:min(len(out), mostTexts)]
}
