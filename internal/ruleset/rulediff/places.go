package rulediff

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// others is the side of what is not of the match of one of the two.
const others = 2

// mostValues bounds the values of a place beside those of the matches.
const mostValues = 500

const (
	none  = "\x00" // the value of a place that a request does not have
	plain = "z"    // a value that probably no condition asks for
)

// place is what conditions or keys look at.
type place struct {
	rule.Source
	values []string
	base   [2]int // the value that fulfils the match of a side, else a plain one; -1: none yet
	inKey  bool
}

// places are all that two versions of a rule look at.
type places struct {
	list      []*place
	spellings map[rule.Spelling]bool // of all that compares paths or methods
}

func (s *places) at(of rule.Source) *place {
	of.IPv6Prefix = 0
	for _, p := range s.list {
		if p.Source == of {
			return p
		}
	}
	s.list = append(s.list, &place{Source: of, base: [2]int{-1, -1}})
	return s.list[len(s.list)-1]
}

// add adds a value, which fulfils the match of a side, if people can read it.
func (p *place) add(v string, side int) {
	if side == others && len(p.values) >= mostValues || v != none && strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return
	}
	i := slices.Index(p.values, v)
	if i < 0 {
		i, p.values = len(p.values), append(p.values, v)
	}
	if side < others && p.base[side] < 0 {
		p.base[side] = i
	}
}

// match adds values for the conditions of a match.
func (s *places) match(m *rule.Match, side int) {
	add := func(of rule.Source, texts ...rule.Text) {
		for _, t := range texts {
			for _, v := range fulfilling(of.From, t) {
				if of.From != rule.FromPath || strings.HasPrefix(v, "/") { // else of a regular expression
					s.at(of).add(v, side)
				}
			}
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

// fulfilling are values that fulfil a condition, the plainest first; of a network also the first one of that beside it.
func fulfilling(from rule.From, t rule.Text) []string {
	switch {
	case from == rule.FromClientIP:
		network := netip.MustParsePrefix(t.Arg) // was a network before
		beside := network.Addr().AsSlice()
		if i := network.Bits() - 1; i >= 0 {
			beside[i/8] ^= 0x80 >> (i % 8)
		}
		other, _ := netip.AddrFromSlice(beside)
		return []string{network.Addr().String(), other.String()}
	case from == rule.FromHost && t.Arg[0] == '*':
		return []string{plain + t.Arg[1:]}
	case t.Op == rule.OpPresent:
		return []string{plain}
	case t.Op == rule.OpAbsent:
		return []string{none}
	case t.Op == rule.OpPrefix:
		return []string{t.Arg + plain, t.Arg}
	case t.Op == rule.OpTemplate:
		parts := strings.Split(t.Arg, "/")
		for i, p := range parts {
			if rule.IsPlaceholder(p) {
				parts[i] = plain
			}
		}
		return []string{strings.Join(parts, "/")}
	case t.Op == rule.OpRegex:
		re, _ := syntax.Parse(t.Arg, syntax.Perl) // checked
		return []string{shortest(re)}
	}
	return []string{t.Arg}
}

// shortest is a text that a regular expression probably matches: with the first of all alternatives, and as short as possible.
func shortest(re *syntax.Regexp) (out string) {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return string(max(re.Rune[0], '!'))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return plain
	case syntax.OpStar, syntax.OpQuest:
		return ""
	case syntax.OpRepeat:
		return strings.Repeat(shortest(re.Sub[0]), re.Min)
	case syntax.OpAlternate:
		return shortest(re.Sub[0])
	}
	for _, sub := range re.Sub { // of a sequence, or of a group
		out += shortest(sub)
	}
	return out
}

// key adds the places that a key looks at.
func (s *places) key(parts []rule.Part) {
	for _, p := range parts {
		for _, of := range p {
			if of.From != rule.FromConst && of.From != rule.FromSegment {
				s.at(of).inKey = true
			}
		}
	}
}

// mostKeys are the values of a place that are there for a rule that is for a percentage of keys.
const mostKeys = 100

// finish adds plain values, other spellings if they matter on one side, and other keys.
func (s *places) finish(percent bool) {
	slices.SortFunc(s.list, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Name, b.Name), cmp.Compare(a.TrustedHops, b.TrustedHops))
	})
	for _, p := range s.list {
		if spelled := p.From == rule.FromPath || p.From == rule.FromMethod; spelled && len(s.spellings) > 1 {
			for _, v := range slices.Clone(p.values) {
				for _, other := range []string{strings.ToUpper(v), strings.ToLower(v), v + "/", v + ";v=1"} {
					p.add(other, others)
				}
			}
		}
		for _, v := range p.plain() {
			for side := range p.base {
				p.add(v, side)
			}
		}
		for i := 0; percent && p.inKey && i < mostKeys; i++ {
			if p.From == rule.FromClientIP {
				p.add(fmt.Sprintf("198.18.0.%d", i), others)
			} else if p.From == rule.FromHeader || p.From == rule.FromClaim {
				p.add(fmt.Sprint(plain, i), others)
			}
		}
	}
}

// plain are values that probably no condition asks for, and absence.
func (p *place) plain() []string {
	switch {
	case p.From == rule.FromMethod:
		return []string{"GET", "POST"}
	case p.From == rule.FromPath:
		return []string{"/" + plain, "/"}
	case p.From == rule.FromHost:
		return []string{plain + "." + plain, none}
	case p.From == rule.FromClientIP:
		return []string{"192.0.2.1", "2001:db8::1", none}
	case p.inKey:
		return []string{plain, none}
	}
	return []string{none, plain}
}

// request makes the request with these values.
func (s *places) request(at []int) *request.Request {
	r := &request.Request{Path: "/", Headers: map[string]string{}, Claims: map[string]string{}, Labels: map[string]string{}}
	for i, p := range s.list {
		if v := p.values[at[i]]; v != none {
			p.set(r, v)
		}
	}
	return r
}

// set gives a request a value at the place.
func (p *place) set(r *request.Request, v string) {
	switch p.From {
	case rule.FromMethod:
		r.Method = v
	case rule.FromHost:
		r.Host = v
	case rule.FromPath: // comes before query
		r.Path = v
	case rule.FromQuery:
		r.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.Path, "?")] + url.QueryEscape(p.Name) + "=" + url.QueryEscape(v)
	case rule.FromHeader:
		r.Headers[p.Name] = v
	case rule.FromCookie:
		r.Headers["cookie"] = strings.TrimPrefix(r.Headers["cookie"]+"; "+p.Name+"="+v, "; ")
	case rule.FromClaim:
		r.Claims[p.Name] = v
	case rule.FromLabel:
		r.Labels[p.Name] = v
	case rule.FromSAN:
		r.SAN = v
	case rule.FromRoute:
		r.Route = v
	case rule.FromRegion:
		r.Region = v
	case rule.FromClientIP:
		if p.TrustedHops == 0 {
			r.Client = v
			break
		}
		hops := strings.Split(r.Headers["x-forwarded-for"], ", ") // those of fewer hops are there
		for len(hops) < p.TrustedHops {
			hops = append([]string{"unknown"}, hops...)
		}
		hops[len(hops)-p.TrustedHops] = v
		r.Headers["x-forwarded-for"] = strings.Join(hops, ", ")
	}
}
